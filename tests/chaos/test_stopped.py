"""Processes that are stopped past their lease, and machines that slept: what comes late is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sf.app import compose
from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.runs import Lease
from sf.domain.units import Status, Unit
from sf.harness.attempt import Finished
from sf.harness.settle import Ending
from sf.scheduler import claims, recovery
from sf.scheduler.loop import Loop
from sf.store import runs, spending
from sf.store.place import Place, Url
from tests.chaos.driven import Jumpy
from tests.support.drainer import WORKFLOW
from tests.support.ground import Ground
from tests.support.latecomer import ESTIMATE
from tests.support.stage import PASSING, Stage, call, run_sf, say, scene, write

ROOT = Path(__file__).parent.parent.parent
SHORT = 'name = "short"\nphases = ["execute", "verify", "merge", "complete"]\n'
A = "task/a1"
ATTEMPTS = {"execute": 1, "verify": 2, "merge": 3}
"""The first run of each phase, when nothing goes wrong."""


@contextlib.contextmanager
def started(*command: str, cwd: Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process of our own, gone at the end whatever state it is in."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen[str]) -> None:
    """SIGSTOP, and wait until it stands."""
    os.kill(process.pid, signal.SIGSTOP)
    status = Path(f"/proc/{process.pid}/stat")
    while status.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)


def test_what_a_stopped_holder_writes_after_its_lease_is_refused(place: Place) -> None:
    ground = Ground(place)
    ground.plant(content=WORKFLOW, adhoc=True)
    where = [place.value, place.schema] if isinstance(place, Url) else [str(place), ""]
    with started("tests.support.latecomer", *where, A, cwd=ROOT) as late:
        assert late.stdout is not None and late.stdin is not None
        first = late.stdout.readline().strip()
        stop(late)
        ground.clock.advance(milliseconds=claims.LEASE_MS)
        ground.write(lambda tx: recovery.sweep(tx, "other", "", ground.rules, ground.now))
        assert ground.unit(A).status is Status.RUNNING, "a lease holds to its last millisecond"
        ground.clock.advance(milliseconds=1)
        ground.write(lambda tx: recovery.sweep(tx, "latecomer", "", ground.rules, ground.now))
        assert ground.unit(A).status is Status.RUNNING, "a holder never sweeps its own"
        ground.write(lambda tx: recovery.sweep(tx, "other", "", ground.rules, ground.now))
        assert ground.run(A, o.Done()).succeeded
        before = ground.dump()
        os.kill(late.pid, signal.SIGCONT)
        print("go", file=late.stdin, flush=True)
        answers = json.loads(late.stdout.readline())
        assert late.wait(timeout=20) == 0
    assert set(answers.values()) == {"lease_lost"}, answers
    assert ground.dump() == before, "nothing was written"
    one, two = runs.of_unit(ground.read, A)
    assert (one.id, one.outcome, two.outcome) == (first, "interrupted", "success")
    paid = spending.account(ground.read, "unit", A)
    assert (paid.spent, paid.reserved) == (ESTIMATE, 0), "charged as reserved, once"
    ground.close()


# --- a whole sf, whose lock was lost with its lease ---


def _held_up(stage: Stage, phase: str) -> None:
    """The first run of a phase takes long enough to be stopped in it."""
    stage.workflow("short", SHORT)
    slow = f"{phase}{ATTEMPTS[phase]}"
    stage.gate("check", f'#!/bin/sh\n[ "$SF_PHASE$SF_ATTEMPT" = {slow} ] && sleep 3\nexit 0\n')
    waits = [call("bash", command="sleep 3")] if phase == "execute" else []
    stage.script(scene("execute", write("a.txt"), *waits, write("late.txt"), say()), *PASSING)


def _everything(stage: Stage) -> dict[str, object]:
    """Rows, refs of both repositories, and the user's files."""
    read = stage.read
    names = [row["name"] for row in read.all("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = {name: sorted(repr(tuple(row)) for row in read.all(f"SELECT * FROM {name}")) for name in names}
    refs = subprocess.run(
        ["git", "--git-dir", str(stage.project.repository), "for-each-ref"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {
        **rows,
        "refs": refs.splitlines(),
        "user": stage.git("for-each-ref"),
        "files": stage.git("status"),
    }


@pytest.mark.parametrize("phase", ATTEMPTS)
def test_an_sf_that_lost_its_project_while_it_was_stopped_changes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    home = tmp_path / "home" / ".sf"
    monkeypatch.setenv("SF_HOME", str(home))
    stage = Stage(tmp_path / "project", home)
    _held_up(stage, phase)
    stage.plan(workflow="short", adhoc=True)
    with started("sf", "auto", cwd=stage.root, env={"HOME": str(home.parent)}) as late:
        deadline = time.monotonic() + 20
        while not (stage.unit(A).phase == phase and stage.unit(A).status is Status.RUNNING):
            assert time.monotonic() < deadline and late.poll() is None
            time.sleep(0.01)
        time.sleep(0.5)
        stop(late)
        assert (stage.unit(A).phase, stage.unit(A).status) == (phase, Status.RUNNING)
        refused = run_sf(stage.root, home, "auto")
        assert refused.returncode != 0 and "lock" in refused.stderr.lower(), "it still has the project"
        stage.script(scene("execute", write("a.txt"), say()), *PASSING)
        # What a disk that forgets its locks, or another machine, would do.
        (stage.project.dot / "run.lock").unlink()
        assert run_sf(stage.root, home, "auto").returncode == 0
        assert stage.unit(A).succeeded
        before = _everything(stage)
        os.kill(late.pid, signal.SIGCONT)
        late.wait(timeout=60)
    after = _everything(stage)
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert changed.keys() <= {"sessions"}, changed
    assert (stage.root / "late.txt").exists() == (phase != "execute"), (
        "only what was written before it stopped"
    )


# --- a laptop that slept ---


@pytest.mark.parametrize("hours", [9, -9])
async def test_a_machine_that_slept_keeps_its_own_live_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    home = tmp_path / "home" / ".sf"
    monkeypatch.setenv("SF_HOME", str(home))
    stage = await asyncio.to_thread(Stage, tmp_path / "project", home)
    stage.workflow("null", WORKFLOW)
    stage.script(*PASSING)
    await asyncio.to_thread(stage.plan, workflow="null", adhoc=True)
    clock = Jumpy()
    slept: list[Instant] = []

    async def work(unit: Unit, lease: Lease) -> Finished:
        clock.jump(hours * 3_600_000)
        slept.append(clock.now())
        loop.wake()
        await asyncio.sleep(0.5)
        return Finished(o.Done(), Ending())

    with stage.project.lock.open("w") as lock:
        async with compose.open_desk(stage.project, lambda event: None, lock.fileno()) as (desk, live):
            desk.clock = clock
            loop = Loop(desk, live, work, "me")
            result = await loop.run()
    assert result.ending == "done"
    (run,) = runs.of_unit(stage.read, A)
    assert (len(slept), run.outcome) == (1, "success"), "its own run was not swept"
    assert stage.unit(A).attempt == 1
