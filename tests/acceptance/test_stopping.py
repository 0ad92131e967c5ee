"""Stopping at awkward moments: while a run winds down, while a hook is asked, when the terminal goes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sf.app import planning
from sf.domain.decide import Counter
from sf.store import attention, ledger, runs, sessions, spending
from tests.support.stage import (
    CONFIG,
    PASSING,
    SHORT,
    Stage,
    call,
    plan_scene,
    say,
    scene,
    start_sf,
    task,
    write,
)

UNIT = "task/a1"
_PATIENCE = 30.0
_SLOW = """#!/bin/sh
[ "$SF_PHASE" = "{phase}" ] && [ "$SF_UNIT_TYPE" = task ] || exit 0
touch "$SF_PROJECT_ROOT/../begun"
n=0
while ! [ -e "$SF_PROJECT_ROOT/../go" ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done
"""

_UNTIL_GO = """#!/bin/sh
touch "$SF_PROJECT_ROOT/../begun"
n=0
while ! [ -e "$SF_PROJECT_ROOT/../go" ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done
"""

_DAEMON = """#!/bin/sh
setsid sh -c 'echo $$ > "$SF_PROJECT_ROOT/../pid"; sleep 60' </dev/null >/dev/null 2>&1 &
sleep 60
"""


_ONCE = """#!/bin/sh
cd "$SF_PROJECT_ROOT/.."
[ -e pid ] && exit 0
echo $$ > pid.new; mv pid.new pid
exec sleep 60
"""


@pytest.fixture
def short(stage: Stage) -> Stage:
    """One task: written, proven, merged."""
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    planning.plan(stage.project, "make it", workflow="short", adhoc=True)
    return stage


def _hooked(stage: Stage, kind: str, script: str, more: str = "") -> None:
    stage.hook("slow", script)
    value = '["./.sf/hooks/slow.sh"]' if kind in ("pre_dispatch", "post_unit") else '"./.sf/hooks/slow.sh"'
    stage.configure(f"{CONFIG}[harness.hooks]\n{kind} = {value}\n{more}")


@contextmanager
def _live(stage: Stage) -> Iterator[subprocess.Popen[str]]:
    """`sf auto` as a process; killed at the latest when the block ends."""
    process = start_sf(stage.root, stage.home, "auto")
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _begun(stage: Stage) -> Callable[[], bool]:
    return (stage.root.parent / "begun").exists


def _go(stage: Stage) -> None:
    (stage.root.parent / "go").touch()


def _alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_run_that_winds_down_is_settled_as_it_ended(short: Stage) -> None:
    _hooked(short, "after_run", _SLOW.format(phase="execute"))
    with _live(short) as process:
        _until(_begun(short))
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        _go(short)
        assert process.wait(_PATIENCE) == 130
    (run,) = runs.of_unit(short.read, UNIT)
    assert (run.outcome, run.tree is not None) == ("success", True)
    assert short.unit(UNIT).claim_holder is None
    assert short.auto().ending == "done"
    assert ledger.count(short.read, short.unit(UNIT), Counter("interruptions", "execute")) == 0


def test_an_answer_whose_tools_are_cut_off_is_paid_for_as_it_was_used(short: Stage) -> None:
    slow = scene("execute", call("bash", command="sleep 30"), say())
    short.script(slow, *PASSING, price={"input": 0, "output": 100})
    with _live(short) as process:
        _until(lambda: [row["how"] for row in spending.endings(short.read, 0)] == ["answered"])
        assert runs.live(short.read), "its command still runs"
        process.kill()
    [row] = spending.endings(short.read, 0)
    assert (row["how"], row["requests"]) == ("answered", 1)
    account = spending.account(short.read, "unit", UNIT)
    assert (account.spent, account.reserved) == (row["cost_micro_usd"], 0)
    assert 0 < account.spent < 16_000 * 100


def test_what_is_called_off_while_it_winds_down_does_not_hold_the_others_up(stage: Stage) -> None:
    _hooked(stage, "after_run", _SLOW.format(phase="execute"))
    tasks = [task("T1"), task("T2", blocked_by=["T1"])]
    stage.script(
        plan_scene({"title": "A slice", "tasks": tasks}),
        *(scene("execute", write(f"{name}.txt"), say(), unit=name) for name in ("T1", "T2")),
        *PASSING,
    )
    stage.plan()
    with _live(stage) as process:
        _until(_begun(stage))
        for _ in range(2):
            stage.queue("abandon", unit_id="task/m1/s1/t1", reason="no", now=True)
        time.sleep(0.3)
        _go(stage)
        output, _ = process.communicate(timeout=_PATIENCE)
    assert "neither run nor wait" not in output and process.returncode in (0, 3), output
    assert stage.unit("task/m1/s1/t1").claim_holder is None
    assert not runs.live(stage.read)


def test_what_has_landed_is_not_called_off(short: Stage) -> None:
    _hooked(short, "after_run", _SLOW.format(phase="merge"))
    with _live(short) as process:
        _until(_begun(short))
        short.queue("abandon", unit_id=UNIT, reason="no", now=True)
        time.sleep(0.3)
        _go(short)
        process.communicate(timeout=_PATIENCE)
    assert short.git("log", "-1", "--format=%s", "main") == f"Merge {UNIT}: make it"
    assert short.unit(UNIT).succeeded


def test_nothing_is_begun_after_a_stop(short: Stage) -> None:
    for goal in ("another", "a third"):
        planning.plan(short.project, goal, workflow="short", adhoc=True)
    _hooked(short, "pre_dispatch", _SLOW.format(phase="execute"))
    with _live(short) as process:
        _until(_begun(short))
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        _go(short)
        assert process.wait(_PATIENCE) == 130
    assert runs.of_unit(short.read, UNIT) == []


def test_a_closed_terminal_is_a_stop_and_no_crash(short: Stage) -> None:
    short.script(scene("execute", call("bash", command="sleep 20"), write("a.txt"), say()), *PASSING)
    with _live(short) as process:
        _until(lambda: bool(runs.live(short.read)))
        process.send_signal(signal.SIGHUP)
        assert process.wait(_PATIENCE) == 130
    assert "interrupted" in short.sf("status").stdout
    assert not runs.live(short.read)
    assert ledger.count(short.read, short.unit(UNIT), Counter("interruptions", "execute")) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_while_the_end_is_told_ends_the_hook_and_says_what_was_not_told(
    short: Stage, number: signal.Signals
) -> None:
    _held_at_the_end(short, _ONCE)
    place = short.root.parent / "pid"
    with _live(short) as process:
        _until(lambda: place.exists() and _is_idle(short))
        process.send_signal(number)
        output, _ = process.communicate(timeout=_PATIENCE)
        assert process.returncode == 130, output
    assert "before 1 event(s) were told to their hooks: Held" in output
    assert "event not told to its hooks" in (short.project.dot / "log" / "sf.log").read_text()
    assert not _alive(int(place.read_text()))
    assert not list((short.project.runtime / "hooks").iterdir())
    assert not (short.project.dot / "auto.lock").exists()


def test_an_answer_given_while_the_end_is_told_is_applied_before_the_autopilot_goes(short: Stage) -> None:
    _held_at_the_end(short, _UNTIL_GO)
    with _live(short) as process:
        _until(lambda: _begun(short)() and _is_idle(short))
        short.queue("reply", question_id=UNIT, answer="blue")
        _go(short)
        output, _ = process.communicate(timeout=_PATIENCE)
    assert not sessions.open_intents(short.read)
    assert process.returncode == 3
    assert "waiting: a unit became ready at the very end: sf auto" in output
    assert "a unit became ready" in sessions.current(short.read)["detail"]  # type: ignore[index]
    short.script(scene("execute", write("a.txt"), say()), *PASSING)
    assert short.auto().ending == "done"


def test_a_goal_stated_while_the_end_is_told_is_there_for_the_next_start(short: Stage) -> None:
    short.hook("told", _UNTIL_GO)
    short.configure(f'{CONFIG}[harness.hooks]\non_event.phase_change = ["./.sf/hooks/told.sh"]\n')
    with _live(short) as process:
        _until(lambda: _begun(short)() and _is_idle(short))
        goal = {"goal": "more", "workflow": "short", "content": SHORT, "branch": "main", "adhoc": True}
        short.queue("plan", **goal)
        _go(short)
        output, _ = process.communicate(timeout=_PATIENCE)
    assert (process.returncode, "became ready" in output) == (3, True), output
    assert not short.unit("task/a2").terminal


def test_a_pause_asked_for_while_the_end_is_told_holds(short: Stage) -> None:
    _held_at_the_end(short, _UNTIL_GO)
    with _live(short) as process:
        _until(lambda: _begun(short)() and _is_idle(short))
        short.queue("reply", question_id=UNIT, answer="blue")
        short.queue("pause")
        _go(short)
        output, _ = process.communicate(timeout=_PATIENCE)
    assert (process.returncode, "became ready" in output) == (3, False), output
    assert sessions.current(short.read)["status"] == "paused"  # type: ignore[index]


def test_money_allowed_while_the_end_is_told_leaves_nothing_to_wait_for(short: Stage) -> None:
    short.script(scene("execute", write("a.txt"), say()), *PASSING, price={"input": 1000.0, "output": 1000.0})
    short.hook("told", _UNTIL_GO)
    hooks = '[harness.hooks]\non_event.worktree_create = ["./.sf/hooks/told.sh"]\n'
    short.configure(f"{CONFIG}{hooks}[budget]\nsession_usd = 0.5\n")
    with _live(short) as process:
        _until(lambda: _begun(short)() and _is_idle(short))
        [question] = attention.waiting(short.read)
        short.queue("reply", question_id=question.id, answer="20000")
        _go(short)
        output, _ = process.communicate(timeout=_PATIENCE)
    assert (process.returncode, "became ready" in output) == (3, True), output
    assert not attention.waiting(short.read)


def _is_idle(stage: Stage) -> bool:
    session = sessions.current(stage.read)
    return session is not None and session["status"] == "idle"


def _held_at_the_end(stage: Stage, script: str) -> None:
    """The agent asks, and a hook is told that it did."""
    stage.script(scene("execute", say("Which colour?\n<turn_status>blocked</turn_status>")), *PASSING)
    stage.hook("told", script)
    stage.configure(f'{CONFIG}[harness.hooks]\non_event.held = ["./.sf/hooks/told.sh"]\n')


def test_the_next_start_ends_what_a_called_off_run_left_at_work(short: Stage) -> None:
    _hooked(
        short,
        "before_run",
        '#!/bin/sh\nexec >/dev/null 2>&1\necho $$ > "$SF_PROJECT_ROOT/../pid"\n'
        "n=0\nwhile [ $n -lt 400 ]; do echo junk > junk.txt; sleep 0.05; n=$((n+1)); done\n",
    )
    place = short.root.parent / "pid"
    with _live(short) as process:
        _until(lambda: place.exists() and place.read_text().strip() != "")
        process.kill()
        process.wait()
    pid = int(place.read_text())
    assert _alive(pid)
    short.submit("abandon", unit_id=UNIT, reason="no")
    assert short.auto().ending == "done"
    assert not _alive(pid)


@pytest.mark.parametrize("kind", ["pre_dispatch", "on_event.phase_change", "before_remove", "post_unit"])
def test_the_next_start_ends_the_hook_that_a_killed_sf_was_waiting_for(short: Stage, kind: str) -> None:
    short.hook("slow", _ONCE)
    value = '"./.sf/hooks/slow.sh"' if kind == "before_remove" else '["./.sf/hooks/slow.sh"]'
    short.configure(f"{CONFIG}[harness.hooks]\n{kind} = {value}\n")
    place = short.root.parent / "pid"
    with _live(short) as process:
        _until(place.exists)
        process.kill()
        process.wait()
    pid = int(place.read_text())
    assert _alive(pid)
    assert short.auto().ending == "done"
    assert not _alive(pid)
    assert not list((short.project.runtime / "hooks").iterdir())


def test_a_post_unit_hook_that_hangs_ends_with_all_it_started_and_the_next_is_told(short: Stage) -> None:
    short.hook("second", '#!/bin/sh\ntouch "$SF_PROJECT_ROOT/../second"\n')
    short.hook("first", _DAEMON)
    hooks = '["./.sf/hooks/first.sh", "./.sf/hooks/second.sh"]'
    short.configure(f'{CONFIG}[harness.hooks]\npost_unit = {hooks}\ntimeouts.post_unit = "500ms"\n')
    told: list[str] = []
    short.auto(watch=lambda event: told.append(str(event.data.get("detail", ""))))
    assert (short.root.parent / "second").exists()
    assert not _alive(int((short.root.parent / "pid").read_text()))
    assert any("took longer" in line for line in told)


@pytest.mark.parametrize(
    ("script", "told"),
    [("#!/bin/sh\r\nexit 0\r\n", "CRLF"), ("#!/no/such/thing\nexit 0\n", "/no/such/thing")],
)
def test_a_gate_that_cannot_run_is_nobodys_failure(short: Stage, script: str, told: str) -> None:
    (short.root / ".sf/gates/check.sh").write_bytes(script.encode())
    assert told in short.sf("doctor").stdout
    ended = short.sf("auto")
    assert ended.returncode != 0 and told in ended.stdout + ended.stderr
    assert short.unit(UNIT).verdict is None
    assert all(run.outcome != "failure" for run in runs.of_unit(short.read, UNIT))


def test_what_another_hook_started_on_purpose_lives_on(short: Stage) -> None:
    short.hook("server", _DAEMON.replace("sleep 60\n", "sleep 0.3\n") + "exit 0\n")
    short.hook("slow", "#!/bin/sh\nsleep 60\n")
    hooks = '["./.sf/hooks/server.sh", "./.sf/hooks/slow.sh"]'
    short.configure(f'{CONFIG}[harness.hooks]\npost_unit = {hooks}\ntimeouts.post_unit = "900ms"\n')
    short.auto()
    pid = int((short.root.parent / "pid").read_text())
    short.auto()
    try:
        assert _alive(pid), "neither the next hook's end nor the next start takes it along"
    finally:
        os.kill(pid, signal.SIGKILL)
