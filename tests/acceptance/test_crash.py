"""kill -9: what was running is interrupted and goes on; nothing is lost and nothing is done twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from sf.domain import events
from sf.domain.decide import Counter
from sf.domain.events import Event
from sf.domain.phases import Phase
from sf.domain.units import Status
from sf.store import leases, ledger, records, runs
from tests.support.stage import PASSING, SHORT, Stage, call, plan_scene, say, scene, task, write


def _start(stage: Stage) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "sf", "auto"],
        cwd=stage.root,
        env={**os.environ, "SF_HOME": str(stage.home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _script(stage: Stage) -> None:
    stage.script(
        plan_scene(
            {"title": "A", "tasks": [task("TA1"), task("TA2", blocked_by=["TA1"])]},
            {"title": "B", "tasks": [task("TB1")]},
            {"title": "C", "tasks": [task("TC1")], "code_depends_on": ["A", "B"]},
        ),
        *(scene("execute", write(f"{name}.txt"), say(), unit=name) for name in ("TA1", "TA2", "TB1", "TC1")),
        *(
            scene("tdd", write(f"tests/{name}.txt"), say(), unit=name)
            for name in ("TA1", "TA2", "TB1", "TC1")
        ),
        *PASSING,
        latency_ms=60,
    )


def test_an_interrupted_unit_is_told_so_and_charged_no_try(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "A", "tasks": [task("T")]}),
        scene("execute", write("a.txt"), call("bash", command="sleep 30"), say(), visits=[1]),
        scene("execute", write("b.txt"), say()),
        *PASSING,
    )
    stage.plan()
    live = _start(stage)
    deadline = time.monotonic() + 20
    worktree = stage.project.worktrees / "slice_m1_s1"
    while not (worktree / "a.txt").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(live.pid, signal.SIGKILL)
    live.wait()
    assert stage.unit("task/m1/s1/t1").status is Status.RUNNING
    assert stage.auto().ending == "done"
    unit = stage.unit("task/m1/s1/t1")
    first, second = runs.of_unit(stage.read, unit.id)[:2]
    assert (first.outcome, first.error_code) == ("interrupted", "resumed_after_crash")
    assert ledger.count(stage.read, unit, Counter("tries", "execute")) == 0
    assert ledger.count(stage.read, unit, Counter("interruptions", "execute")) == 1
    assert b"resumed_after_crash" in bytes(runs.messages(stage.read, second.id)[0]["content"])
    assert (stage.root / "a.txt").exists(), "what the killed attempt had written is built on"


def test_ctrl_c_interrupts_cleanly_and_the_next_start_goes_on(stage: Stage) -> None:
    _script(stage)
    stage.plan()
    live = _start(stage)
    deadline = time.monotonic() + 20
    while not leases.running(stage.read):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(live.pid, signal.SIGINT)
    assert live.wait(timeout=20) == 130
    assert not leases.running(stage.read)
    assert stage.auto().ending == "done"


def test_what_the_event_loop_complains_of_is_in_the_log_and_not_among_the_lines_for_people(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    _script(stage)
    stage.plan()
    told: list[Event] = []

    def complain(event: Event) -> None:
        if not told:
            told.append(event)
            asyncio.get_running_loop().call_soon(lambda: int("none"))

    assert stage.auto(watch=complain).ending == "done"
    log = stage.project.log_file("").read_text()
    assert "ERROR event loop" in log and "invalid literal for int" in log
    assert not [record for record in caplog.records if record.name == "asyncio"]


_KILLED_BEFORE_THE_RECORD = """
import os, signal, sys
from sf.scheduler import merging
async def dies(*_): os.kill(os.getpid(), signal.SIGKILL)
merging._keep = dies
from sf.surfaces.cli.main import run
sys.exit(run(["auto"]))
"""


@pytest.mark.parametrize("adhoc", [True, False])
def test_what_was_merged_by_a_killed_run_and_then_called_off_counts_as_merged(
    stage: Stage, adhoc: bool
) -> None:
    """Canceled would be a lie: it is on the branch, and nobody could revert it."""
    stage.script(
        plan_scene({"title": "A", "tasks": [task("T")]}, unit="do it"),
        scene("execute", write("a.txt"), say()),
        scene("tdd", write("tests/a.txt"), say()),
        *PASSING,
    )
    stage.workflow("short", SHORT)
    unit = "task/a1" if adhoc else "task/m1/s1/t1"
    stage.plan(adhoc=adhoc, workflow="short" if adhoc else None)
    env = {**os.environ, "SF_HOME": str(stage.home)}
    killed = subprocess.run([sys.executable, "-c", _KILLED_BEFORE_THE_RECORD], cwd=stage.root, env=env)
    assert killed.returncode == -signal.SIGKILL
    assert stage.unit(unit).status is Status.RUNNING and stage.unit(unit).phase is Phase.MERGE
    stage.submit("abandon", unit_id=unit, reason="we do not want that")
    assert stage.auto().ending == "done"
    assert stage.unit(unit).succeeded
    (row,) = [row for row in records.evidence(stage.read, unit) if row["kind"] == "merge"]
    assert stage.git("merge-base", "--is-ancestor", row["commit_id"], "main") == ""
    assert "sf revert" in stage.project.log_file("").read_text()


@pytest.mark.parametrize("called_off", [True, False])
def test_a_merge_of_a_killed_run_is_known_by_what_it_brought_in_not_by_its_words(
    stage: Stage, called_off: bool
) -> None:
    """The person's next commit was put on record instead, or the unit counted as not merged."""
    stage.script(scene("execute", write("a.txt"), say()), scene("tdd", write("tests/a.txt"), say()), *PASSING)
    stage.workflow("short", SHORT)
    stage.plan(adhoc=True, workflow="short")
    env = {**os.environ, "SF_HOME": str(stage.home)}
    killed = subprocess.run([sys.executable, "-c", _KILLED_BEFORE_THE_RECORD], cwd=stage.root, env=env)
    assert killed.returncode == -signal.SIGKILL
    stage.git("commit", "-q", "--amend", "-m", "In my own words")
    merge = stage.git("rev-parse", "HEAD")
    stage.file("mine.txt", "mine\n")
    stage.commit("nothing to do with it")
    if called_off:
        stage.submit("abandon", unit_id="task/a1", reason="we do not want that")
    assert stage.auto().ending == "done"
    assert stage.unit("task/a1").succeeded
    found = records.evidence(stage.read, "task/a1")
    assert [row["commit_id"] for row in found if row["kind"] == "merge"] == [merge]


def test_a_merge_of_a_killed_run_is_not_the_one_by_which_a_person_took_it_into_their_branch(
    stage: Stage,
) -> None:
    stage.script(scene("execute", write("a.txt"), say()), scene("tdd", write("tests/a.txt"), say()), *PASSING)
    stage.workflow("short", SHORT)
    stage.plan(adhoc=True, workflow="short")
    stage.git("branch", "feature")
    env = {**os.environ, "SF_HOME": str(stage.home)}
    killed = subprocess.run([sys.executable, "-c", _KILLED_BEFORE_THE_RECORD], cwd=stage.root, env=env)
    assert killed.returncode == -signal.SIGKILL
    merge = stage.git("rev-parse", "main")
    stage.git("switch", "-q", "feature")
    stage.file("mine.txt", "mine\n")
    stage.commit("my feature")
    stage.git("merge", "-q", "--no-edit", "main")
    stage.git("switch", "-q", "main")
    stage.git("merge", "-q", "--ff-only", "feature")
    assert stage.auto().ending == "done"
    found = records.evidence(stage.read, "task/a1")
    assert [row["commit_id"] for row in found if row["kind"] == "merge"] == [merge]
    assert stage.sf("revert", "task/a1", "--yes").returncode == 0


_KILLED_IN_A_LANDING = """
import os, signal, sys
from sf.workspaces._landing import Landing
async def dies(*_): os.kill(os.getpid(), signal.SIGKILL)
Landing._move_files = dies
from sf.surfaces.cli.main import run
sys.exit(run(["auto"]))
"""


@pytest.mark.parametrize("cut", [None, 0, 40, -1])
def test_a_start_after_a_killed_landing_neither_waits_for_its_locks_nor_is_held_by_its_journal(
    stage: Stage, cut: int | None
) -> None:
    """Its index.lock is young, as that of a git at work; a journal that was cut short names nothing."""
    _script(stage)
    stage.plan()
    env = {**os.environ, "SF_HOME": str(stage.home)}
    killed = subprocess.run([sys.executable, "-c", _KILLED_IN_A_LANDING], cwd=stage.root, env=env)
    assert killed.returncode == -signal.SIGKILL
    assert (stage.root / ".git/index.lock").exists()
    journal = stage.project.facade / "landing.json"
    if cut is not None:
        journal.write_bytes(journal.read_bytes()[:cut])
    began = time.monotonic()
    assert stage.auto().ending == "done"
    assert time.monotonic() - began < 30
    assert stage.git("status", "--porcelain", "-uno") == "" and not journal.exists()
    assert not list((stage.root / ".git").rglob("*.lock")) and not list((stage.root / ".git").rglob("*.keep"))
    told = [str(event.data["detail"]) for event in stage.named(events.WARNING)]
    assert any("cut short" in detail if cut is not None else "was undone" in detail for detail in told)


@pytest.mark.parametrize("by", ["a start that is refused", "a revert"])
def test_what_became_of_a_killed_landing_is_told_by_whoever_saw_to_it(stage: Stage, by: str) -> None:
    _script(stage)
    stage.plan()
    env = {**os.environ, "SF_HOME": str(stage.home)}
    killed = subprocess.run([sys.executable, "-c", _KILLED_IN_A_LANDING], cwd=stage.root, env=env)
    assert killed.returncode == -signal.SIGKILL
    if by == "a revert":
        assert stage.sf("revert", "slice/m1/s1", "--yes").returncode == 2
    else:
        stage.configure("[nonsense]\nx = 1\n")
        refused = stage.sf("auto")
        assert refused.returncode == 2 and "was undone" in refused.stdout
    assert "was undone" in stage.project.log_file("").read_text()
