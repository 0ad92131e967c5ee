"""What a restart takes up is what the rows say: schedule, phase, due times; and who may call a run off."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from sf.app import compose
from sf.domain import events
from sf.domain.clock import Instant, SystemClock
from sf.domain.units import Status
from sf.store import runs
from tests.support.stage import CONFIG, PASSING, Stage, call, say, scene, write

SHORT = 'name = "short"\nphases = ["plan", "execute", "verify", "merge", "complete"]\n'
ONE = CONFIG + "[harness.concurrency]\nmax_agents = 1\n"
PLANNED = call(
    "submit_plan", goal="it", approach="plainly", deliverables=["it is there"], verification=["the gate"]
)
A, B, C = "task/a1", "task/a2", "task/a3"


def _killed(stage: Stage, when: Callable[[], bool]) -> None:
    """`sf auto` in a process of its own, killed with all that it started once something is so."""
    live = subprocess.Popen(
        [sys.executable, "-m", "sf", "auto"],
        cwd=stage.root,
        env={**os.environ, "SF_HOME": str(stage.home), "HOME": str(stage.home.parent)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 30
        while not when():
            assert time.monotonic() < deadline and live.poll() is None
            time.sleep(0.01)
    finally:
        if live.poll() is None:
            os.killpg(live.pid, signal.SIGKILL)
        live.wait()


def _running(stage: Stage, unit_id: str, phase: str) -> Callable[[], bool]:
    def holds() -> bool:
        unit = stage.unit(unit_id)
        return (unit.phase.value, unit.status) == (phase, Status.RUNNING)

    return holds


@pytest.fixture
def short(stage: Stage) -> Stage:
    """Tasks that are planned, written, proven and merged, one at a time."""
    stage.workflow("short", SHORT)
    stage.configure(ONE)
    return stage


@pytest.mark.conforms("C-36")
def test_a_restart_schedules_by_the_rows_alone(short: Stage) -> None:
    waits = scene("execute", call("bash", command="sleep 20"), unit="one")
    writes = [scene("execute", write(f"{name}.txt"), say(), unit=name) for name in ("one", "two", "three")]
    short.script(scene("plan", PLANNED), waits, *writes, *PASSING)
    for goal in ("one", "two", "three"):
        short.plan(goal, workflow="short", adhoc=True)
    _killed(short, _running(short, A, "execute"))
    rows = sqlite3.connect(short.project.dot / "sf.db")
    rows.execute("UPDATE units SET priority = 1 WHERE id = ?", (C,))
    rows.execute("UPDATE units SET priority = 2 WHERE id = ?", (B,))
    rows.commit()
    rows.close()
    shutil.rmtree(short.project.runtime)
    short.script(scene("plan", PLANNED), *writes, *PASSING)
    assert short.auto().ending == "done"
    order = list(dict.fromkeys(event.unit_id for event in short.named(events.RUN_STARTED)))
    assert order == [C, B, A], "in the order of the rows, whatever the process before had in mind"
    assert [run.outcome for run in runs.of_unit(short.read, A)][:2] == ["success", "interrupted"]


@pytest.mark.conforms("C-43")
def test_a_crash_is_resumed_at_its_phase_with_nothing_replayed(short: Stage) -> None:
    first = call("bash", command="echo once >> count.txt")
    short.script(
        scene("plan", PLANNED),
        scene("execute", first, call("bash", command="sleep 20"), say()),
        *PASSING,
    )
    short.plan("it", workflow="short", adhoc=True)
    _killed(short, lambda: any(short.project.worktrees.glob("*/count.txt")))
    assert short.unit(A).status is Status.RUNNING
    short.script(scene("execute", write("b.txt"), say()), *PASSING)
    assert short.auto().ending == "done"
    assert short.path_of(A) == ["execute", "verify", "merge", "complete"], "plan was not done again"
    _, crashed, resumed = runs.of_unit(short.read, A)[:3]
    assert (crashed.phase, crashed.outcome, crashed.error_code) == (
        "execute",
        "interrupted",
        "resumed_after_crash",
    )
    assert resumed.phase == "execute"
    assert (short.root / "count.txt").read_text(encoding="utf-8") == "once\n", "no tool call was replayed"
    told = [bytes(row["content"]) for row in runs.messages(short.read, resumed.id)]
    assert b"resumed_after_crash" in told[0]
    assert not any(b"sleep 20" in message for message in told), "the conversation is a new one"


def test_an_archive_that_cannot_be_written_keeps_no_start_from_going_on(short: Stage) -> None:
    short.script(scene("plan", PLANNED), scene("execute", write("a.txt"), say()), *PASSING)
    short.plan("it", workflow="short", adhoc=True)
    assert short.auto().ending == "done"
    archive = short.project.dot / "archive"
    [left] = [path for path in archive.iterdir() if path.is_dir() and path.name != "trace"]
    left.rename(short.project.dot / "active" / "task_a1")
    shutil.rmtree(archive)
    archive.write_text("not a folder")
    short.script(scene("plan", PLANNED), scene("execute", write("b.txt"), say()), *PASSING)
    short.plan("more", workflow="short", adhoc=True)
    short.auto()
    assert short.unit(B).succeeded
    told = [event.data["detail"] for event in short.named(events.WARNING)]
    assert any("artifacts of ended units stay" in detail for detail in told), told


@pytest.mark.conforms("E-03")
def test_due_times_outlive_the_process_and_are_shown(short: Stage) -> None:
    backoff = ONE.replace('"10ms"', '"6s"').replace('"20ms"', '"6s"')
    short.configure(backoff)
    short.script(scene("plan", PLANNED), scene("execute", write("a.txt"), say(), visits=[2]), *PASSING)
    short.plan("it", workflow="short", adhoc=True)
    _killed(short, lambda: short.unit(A).status is Status.FAILED)
    due = short.unit(A).due_at
    assert due is not None and due > SystemClock().now()
    shown = short.sf("status").stdout
    assert "due in" in shown and A in shown, shown
    assert short.unit(A).due_at == due, "looking changes nothing"
    assert short.auto().ending == "done"
    failed, again = [run for run in runs.of_unit(short.read, A) if run.phase == "execute"]
    assert (failed.error_code, again.outcome) == ("turn_failed", "success")
    assert again.started_at >= due, "not before its time, though the process that set it is gone"


class _Ahead:
    """A clock that somebody puts right."""

    milliseconds = 86_400_000

    def now(self) -> Instant:
        return Instant(SystemClock().now() + self.milliseconds)


def test_a_clock_that_is_set_back_by_a_day_makes_nobody_wait_for_a_day(
    short: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _Ahead()
    monkeypatch.setattr(compose, "SystemClock", lambda: clock)
    short.script(scene("plan", PLANNED), scene("execute", write("a.txt"), say(), visits=[2]), *PASSING)
    short.plan("it", workflow="short", adhoc=True)
    began = time.monotonic()

    def put_right(event: events.Event) -> None:
        if event.name == events.RUN_ENDED and event.data["outcome"] == "failure":
            clock.milliseconds = 0
        if event.name == events.AUTO_LOOP and time.monotonic() > began + 10:
            os.kill(os.getpid(), signal.SIGINT)

    assert short.auto(watch=put_right).ending == "done"
    assert clock.milliseconds == 0


@pytest.mark.conforms("C-50")
def test_only_the_operator_cancels_a_run(short: Stage) -> None:
    waits = [call("bash", command="sleep 1.5"), write("a.txt"), say()]
    short.script(
        scene("plan", PLANNED),
        scene("execute", *waits, unit="kept"),
        scene("execute", call("bash", command="sleep 30"), unit="dropped"),
        *PASSING,
    )
    short.plan("kept", workflow="short", adhoc=True)
    short.plan("dropped", workflow="short", adhoc=True)
    touched: list[str] = []

    def meddle(event: events.Event) -> None:
        if event.name == events.STATE_CHANGED and event.data["state"] == "streaming_turn":
            unit = short.unit(event.unit_id)
            if unit.phase != "execute" or unit.id in touched:
                return
            touched.append(unit.id)
            if unit.id == A:
                short.file("other.txt", "the user goes on\n")
                short.commit("meanwhile")
                short.configure(ONE + "# touched\n")
                shutil.rmtree(short.project.workflows)
            else:
                short.queue("abandon", unit_id=B, reason="enough", now=True)

    started = time.monotonic()
    assert short.auto(watch=meddle).ending == "done"
    assert touched == [A, B]
    assert short.unit(A).succeeded, "nothing that happens outside calls a run off"
    assert (short.unit(B).status, short.unit(B).hold_detail) == (Status.CANCELED, "enough")
    last = runs.of_unit(short.read, B)[-1]
    assert (last.outcome, last.error_code) == ("canceled", "canceled_by_operator")
    assert time.monotonic() - started < 25, "at once, not when the command was through"
