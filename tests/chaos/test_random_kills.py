"""kill -9 at random moments: a bounded series ends with the same merged result, an endless one parks."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sf.domain.limits import Limits
from sf.store import units
from tests.chaos.invariants import git
from tests.chaos.sweep import FULL, SEED
from tests.support.stage import PASSING, Stage, plan_scene, run_sf, say, scene, task, write

SEEDS = [SEED + number for number in range(10 if FULL else 1)]
KILLS = 8 if FULL else 5
TASKS = ("TA1", "TA2", "TB1", "TC1")


def _start(root: Path, home: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "sf", "auto"],
        cwd=root,
        env={**os.environ, "SF_HOME": str(home), "HOME": str(home.parent)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bounded_series_of_kills_ends_with_the_same_merged_result(tmp_path: Path, seed: int) -> None:
    stage = Stage(tmp_path / "project", tmp_path / "home" / ".sf")
    _script(stage)
    stage.plan()
    chance = random.Random(seed)
    print(f"seed {seed}")
    for _ in range(KILLS):
        live = _start(stage.root, stage.home)
        time.sleep(0.3 + chance.random() * 1.5)
        _kill(live)
    ended = stage.sf("auto", timeout=120)
    assert ended.returncode == 0, (seed, ended.stdout, ended.stderr)
    files = {"notes.txt", *(f"{folder}{name}.txt" for name in TASKS for folder in ("", "tests/"))}
    assert set(git(stage.root, "ls-files").splitlines()) == files, seed
    subjects = git(stage.root, "log", "--first-parent", "--format=%s").splitlines()
    assert len(subjects) == len(set(subjects)) == 4, (seed, subjects)
    assert git(stage.root, "status", "--porcelain", "-uno") == ""
    assert not git(stage.root, "fsck", "--strict", "--no-dangling")
    assert list(stage.project.worktrees.iterdir()) == [], (seed, ended.stdout, ended.stderr)
    _nothing_twice(stage, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_demo_ends_the_same_however_often_it_is_killed(tmp_path: Path, seed: int) -> None:
    root, home = tmp_path / "demo", tmp_path / "home" / ".sf"
    chance = random.Random(seed)
    print(f"seed {seed}")
    first = subprocess.Popen(
        [sys.executable, "-m", "sf", "demo", "--folder", str(root)],
        env={**os.environ, "SF_HOME": str(home), "HOME": str(home.parent)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(2.5)
    _kill(first)
    for _ in range(KILLS):
        live = _start(root, home)
        time.sleep(0.5 + chance.random() * 2)
        _kill(live)
    ended = run_sf(root, home, "auto", timeout=120)
    assert ended.returncode == 0, (seed, ended.stdout, ended.stderr)
    tests = ["-m", "unittest", "discover", "-s", "tests", "-t", "."]
    passed = subprocess.run([sys.executable, *tests], cwd=root, capture_output=True, text=True, check=False)
    assert "Ran 14 tests" in passed.stderr and "OK" in passed.stderr, (seed, passed.stderr)
    subjects = git(root, "log", "--first-parent", "--format=%s").splitlines()
    assert len(subjects) == len(set(subjects)) == 4, (seed, subjects)
    assert git(root, "status", "--porcelain", "-uno") == ""


def _script(stage: Stage) -> None:
    stage.script(
        plan_scene(
            {"title": "A", "tasks": [task("TA1"), task("TA2", blocked_by=["TA1"])]},
            {"title": "B", "tasks": [task("TB1")]},
            {"title": "C", "tasks": [task("TC1")], "code_depends_on": ["A", "B"]},
        ),
        *(scene("execute", write(f"{name}.txt"), say(), unit=name) for name in TASKS),
        *(scene("tdd", write(f"tests/{name}.txt"), say(), unit=name) for name in TASKS),
        *PASSING,
        latency_ms=60,
    )


def _nothing_twice(stage: Stage, seed: int) -> None:
    read = stage.read
    assert all(unit.verdict == "success" for unit in units.listed(read, archived=True)), seed
    ended = "SELECT unit_id FROM phase_transitions WHERE to_phase = 'complete'"
    assert not read.all(f"{ended} GROUP BY unit_id HAVING COUNT(*) > 1"), seed
    merged = "SELECT unit_id FROM evidence WHERE kind = 'merge'"
    assert not read.all(f"{merged} GROUP BY unit_id HAVING COUNT(DISTINCT commit_id) > 1"), seed
    assert not read.all("SELECT id FROM runs WHERE ended_at IS NULL"), seed


def test_a_unit_that_never_gets_to_its_end_is_parked_as_a_crash_loop(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "project", tmp_path / "home" / ".sf")
    stage.script(
        plan_scene({"title": "S", "tasks": [task("T")]}),
        scene("execute", write("a.txt"), say()),
        *PASSING,
        latency_ms=20_000,
    )
    stage.plan()
    for _ in range(Limits().max_interruptions):
        live = _start(stage.root, stage.home)
        _until_running(stage, live)
        _kill(live)
    ended = stage.sf("auto")
    assert ended.returncode == 3, ended.stdout + ended.stderr
    held = [(unit.id, unit.hold_kind) for unit in units.held(stage.read)]
    assert held == [("milestone/m1", "crash_loop")]
    assert ended.stdout.count("crash_loop") >= 1


def _until_running(stage: Stage, live: subprocess.Popen[bytes]) -> None:
    """A run that this very process has begun: an older one is ended at its start."""
    deadline = time.monotonic() + 20
    before = _runs(stage)
    while _runs(stage) == before:
        assert time.monotonic() < deadline and live.poll() is None
        time.sleep(0.02)


def _runs(stage: Stage) -> int:
    connection = sqlite3.connect(stage.project.database, timeout=10)
    try:
        return int(connection.execute("SELECT COUNT(*) FROM runs").fetchone()[0])
    finally:
        connection.close()
