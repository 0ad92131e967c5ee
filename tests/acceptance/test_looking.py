"""What `sf status` and `sf why` tell of units that wait: each its one reason, none left out in silence."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sf.app import reports
from sf.app.stores import place_of
from sf.domain import events
from sf.domain.clock import Instant
from sf.domain.events import Event
from sf.scheduler import lock
from sf.scheduler.admission import Selection
from sf.store import units
from sf.store.connection import transact
from sf.store.tx import Tx
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

SLOW = CONFIG.replace('"10ms"', '"60s"').replace('"20ms"', '"5m"')


def _adhoc(stage: Stage, *goals: str) -> list[str]:
    stage.workflow("short", SHORT)
    return [str(stage.plan(goal, adhoc=True, workflow="short")) for goal in goals]


def _why(stage: Stage, unit_id: str) -> tuple[str, str]:
    report = reports.why(stage.project, unit_id)
    assert report.unit.standing == report.reason.partition(":")[0], "status and why agree"
    return report.reason, report.way_out


def test_a_unit_that_is_ready_says_who_brings_it_on(stage: Stage) -> None:
    [unit] = _adhoc(stage, "one")
    assert _why(stage, unit) == ("ready", "sf auto")
    assert reports.status(stage.project).way_on == "sf auto"
    with lock.hold(stage.project, "sf clean"):
        assert _why(stage, unit) == ("ready", "sf auto")
    with lock.hold(stage.project, lock.AUTOPILOT):
        assert _why(stage, unit) == ("ready", "")
        assert reports.status(stage.project).way_on == ""


def test_a_pause_is_the_reason_of_what_would_run(stage: Stage) -> None:
    [unit] = _adhoc(stage, "one")
    stage.submit("pause", reason="holiday")
    assert _why(stage, unit) == ("paused: holiday", "sf resume")
    stage.submit("resume")
    assert _why(stage, unit)[0] == "ready"


def test_what_was_asked_for_and_not_applied_is_shown_and_applied_by_the_next_start(stage: Stage) -> None:
    stage.script(*PASSING)
    [unit] = _adhoc(stage, "one")
    stage.submit("pause", reason="holiday")
    assert reports.status(stage.project).asked == []
    stage.queue("resume")
    stage.queue("abandon", unit_id=unit, reason="not needed")
    words = ("sf resume", f"sf abandon ({unit} not needed)")
    told = [f"{each}: sf auto, or any command, applies it" for each in words]
    assert reports.status(stage.project).asked == told
    assert f"Asked for:  {told[1]}" in stage.sf("status").stdout
    with lock.hold(stage.project, lock.AUTOPILOT):
        assert (
            reports.status(stage.project).asked[0] == "sf resume: the autopilot applies it as soon as it can"
        )
    assert stage.sf("auto").returncode != 3, "it is paused no more"
    assert (reports.status(stage.project).asked, stage.unit(unit).terminal) == ([], True)


def test_the_sessions_budget_is_the_reason_of_what_would_run(stage: Stage) -> None:
    stage.configure(CONFIG + "[budget]\nsession_usd = 0.01\n")
    [unit] = _adhoc(stage, "one")
    stage.script(scene("execute", write("a.txt"), say()), *PASSING, price={"input": 3, "output": 15})
    assert stage.auto().ending == "budget"
    reason, way_out = _why(stage, unit)
    assert reason.startswith("waits for budget: the session")
    assert way_out == "sf attention"


def test_a_disk_quota_is_the_reason_of_what_has_not_begun(stage: Stage) -> None:
    stage.configure(CONFIG + "[housekeeping]\nmax_worktrees_gb = 0.000001\n")
    first, second = _adhoc(stage, "one", "two")
    stage.script(scene("execute", write("a.txt"), say("Which?\n<turn_status>blocked</turn_status>")))
    assert stage.auto(Selection(most=1)).held == (first,)
    assert stage.auto().ending == "waiting"
    assert _why(stage, second)[0].startswith("waits for disk room: the worktrees take")


def test_a_wait_with_a_known_end_is_no_retry(stage: Stage) -> None:
    stage.configure(SLOW)
    quota, broken = _adhoc(stage, "quota", "broken")
    shut, failing = {"fault": "rate_limit", "seconds": 90}, {"fault": "server_error"}
    stage.script(scene("execute", shut, unit="quota"), scene("execute", failing, unit="broken"), *PASSING)
    stage.auto(Selection(most=2))
    assert _why(stage, quota)[0].startswith("waits for a quota: due in 1m")
    assert _why(stage, broken)[0].startswith("retry: due in ")
    transact(place_of(stage.project), lambda tx: tx.run("UPDATE runs SET error_code = 'branch_moved'"))
    assert _why(stage, broken)[0].startswith("waits for main to settle: due in ")


def test_what_runs_or_is_held_is_always_shown_and_what_is_left_out_is_counted(stage: Stage) -> None:
    [first] = _adhoc(stage, "goal 1")
    goal, running, held = stage.unit(first), "task/a240", "task/a239"

    def grow(tx: Tx) -> None:
        for number in range(2, 241):
            units.insert(
                tx,
                unit_id=f"task/a{number}",
                unit_type="task",
                session_id=goal.session_id,
                workflow=goal.workflow,
                workflow_hash=goal.workflow_hash,
                phase=goal.phase,
                title=f"goal {number}",
                now=Instant(goal.created_at + number),
            )
        tx.run("UPDATE units SET phase_status = 'running' WHERE id = :id", id=running)
        tx.run("UPDATE units SET hold_kind = 'blocked', hold_detail = 'Which?' WHERE id = :id", id=held)

    transact(place_of(stage.project), grow)
    report = reports.status(stage.project)
    assert [(line.id, line.standing) for line in report.running] == [(running, "cut off")], (
        "nobody is at work"
    )
    assert report.way_on == "sf auto"
    assert [line.id for line in report.waiting] == [held, *(f"task/a{n}" for n in range(1, 201))]
    assert report.waiting_in_all == 239
    assert len(reports.status(stage.project, most=None).waiting) == 239
    lines = stage.sf("status").stdout.splitlines()
    assert sum(line.startswith("Waiting:") for line in lines) == 21
    assert "            and 218 more → sf status --all" in lines
    assert [line for line in lines if running in line] == [
        f"Cut off:    {running} execute 0 $0.0000 "
        "(sf ended in the middle of the run; what it wrote is kept)  goal 240"
    ]


def test_the_way_on_of_what_is_cut_off_in_a_pause_is_the_end_of_the_pause(stage: Stage) -> None:
    [unit] = _adhoc(stage, "one")
    change = "UPDATE units SET phase_status = 'running' WHERE id = :id"
    transact(place_of(stage.project), lambda tx: tx.run(change, id=unit))
    cut_off = "cut off: sf ended in the middle of the run; what it wrote is kept"
    assert _why(stage, unit) == (cut_off, "sf auto")
    stage.sf("pause")
    assert _why(stage, unit) == (cut_off, "sf resume")
    assert reports.status(stage.project).way_on == ""
    stage.sf("resume")
    assert _why(stage, unit) == (cut_off, "sf auto")


def test_after_a_stop_and_a_kill_it_is_told_what_happened_and_what_is_kept(stage: Stage) -> None:
    [unit] = _adhoc(stage, "one")
    stage.script(scene("execute", call("bash", command="sleep 60"), say()), *PASSING)
    kept = "all that was done is kept, and each unit goes on in its phase"
    for number, happened, run in (
        (signal.SIGINT, "stopped by Ctrl-C or a closed terminal", "interrupted [shutdown]"),
        (signal.SIGKILL, "sf was killed or crashed", "cut off"),
    ):
        with start_sf(stage.root, stage.home, "auto") as process:
            deadline = time.monotonic() + 30
            while not reports.status(stage.project).running and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(number)
        lines = stage.sf("status").stdout.splitlines()
        assert lines[1:3] == ["Session:    interrupted → sf auto", f"            {happened}; {kept}"]
        assert run in stage.sf("why", unit).stdout.split("runs:")[1]


def test_a_session_that_was_ended_is_not_told_as_none_yet(stage: Stage) -> None:
    assert reports.status(stage.project).session == "none yet"
    _adhoc(stage, "one")
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    assert stage.auto().ending == "done"
    stage.sf("session", "end")
    assert reports.status(stage.project).session == "none open"


def test_a_blocker_is_cleared_by_the_id_that_status_shows(stage: Stage) -> None:
    [unit] = _adhoc(stage, "one")
    stage.script(scene("execute", say("Which?\n<turn_status>blocked</turn_status>")), *PASSING)
    stage.auto()
    lines = stage.sf("status").stdout.splitlines()
    [found] = [line.split() for line in lines if line.startswith("Blocker:")]
    assert found[2:] == ["Question", unit, "Which?"]
    cleared = stage.sf("force-clear", found[1].lower()).stdout
    assert cleared == f"cleared; {unit} goes on in execute (→ sf auto, unless one runs)\n"
    assert "Blocker:    none" in stage.sf("status").stdout


def test_what_can_begin_comes_before_what_waits_for_others(stage: Stage) -> None:
    first, second = _adhoc(stage, "one", "two")
    change = "UPDATE units SET open_children = 1 WHERE id = :id"
    transact(place_of(stage.project), lambda tx: tx.run(change, id=first))
    assert [line.id for line in reports.status(stage.project).waiting] == [second, first]


def test_a_wait_for_other_units_names_them_and_the_question_that_holds_them(stage: Stage) -> None:
    stage.script(
        plan_scene(
            {"title": "First", "tasks": [task("One"), task("Two", blocked_by=["One"])]},
            {"title": "Second", "tasks": [task("Three")], "code_depends_on": ["First"]},
        ),
        scene("execute", say("Which?\n<turn_status>blocked</turn_status>"), unit="One", visits=[1]),
        *(
            scene(phase, write(f"{folder}/{name}.txt"), say(), unit=name)
            for phase, folder in (("execute", "src"), ("tdd", "tests"))
            for name in ("One", "Two", "Three")
        ),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "waiting"
    answer = 'sf reply task/m1/s1/t1 "your answer"'
    assert _why(stage, "m1") == ("waiting for children: slice/m1/s1, slice/m1/s2", answer)
    assert _why(stage, "m1/s1") == ("waiting for children: task/m1/s1/t1, task/m1/s1/t2", answer)
    assert _why(stage, "m1/s1/t2") == ("blocked: after task/m1/s1/t1", answer)
    assert _why(stage, "m1/s2") == ("blocked: after slice/m1/s1", answer)
    assert _why(stage, "m1/s2/t1") == ("waiting for its container: slice/m1/s2 is blocked", answer)
    assert reports.why(stage.project, "m1/s1/t2").blocked_by == ["task/m1/s1/t1 (held:blocked)"]
    stage.submit("reassess_resolve", unit_id="m1/s1/t1", answer="this")
    assert stage.auto().ending == "done"
    told = stage.sf("why", "m1/s1/t2").stdout
    assert "waits for" not in told, "what it waited for"
    assert "workspace:" not in told, "a folder that is cleared away"


def test_a_unit_that_only_waits_for_a_slot_says_how_many_there_are(stage: Stage) -> None:
    _, second, third = _adhoc(stage, "one", "two", "three")
    change = "UPDATE units SET phase_status = 'running' WHERE id = 'task/a1'"
    transact(place_of(stage.project), lambda tx: tx.run(change))
    one = "[harness.concurrency]\nmax_agents = 1\n"
    phase = "[harness.concurrency]\nmax_agents_by_phase.execute = 1\n"
    with lock.hold(stage.project, lock.AUTOPILOT):
        assert _why(stage, second) == ("ready", ""), "there is room, and a moment later it runs"
        stage.configure(CONFIG + one)
        assert _why(stage, second) == ("waits for a slot: 1 of 1 in use", "")
        stage.configure(CONFIG + phase)
        assert _why(stage, third) == ("waits for a slot: 1 of 1 in execute in use", "")
        assert f"{third} execute: waits for a slot (1 of 1 in execute in use)" in stage.sf("status").stdout
    assert _why(stage, second) == ("ready", "sf auto")


def test_what_was_called_off_and_still_ends_is_in_the_list(stage: Stage) -> None:
    [unit] = _adhoc(stage, "one")
    stage.script(scene("execute", call("bash", command="sleep 60"), say()), *PASSING)
    line = f"Ending:     {unit} execute (called off: not needed)  one"
    with start_sf(stage.root, stage.home, "auto") as process:
        deadline = time.monotonic() + 30
        while not reports.status(stage.project).running and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "still ending" in stage.sf("abandon", unit, "not needed").stdout
        assert line in stage.sf("status").stdout.splitlines()
        assert _why(stage, unit) == ("ending: called off: not needed", "")
        process.kill()
    lines = stage.sf("status").stdout.splitlines()
    assert line in lines
    assert "Session:    interrupted → sf auto" in lines
    stage.auto()
    assert reports.status(stage.project).ending == []
    assert _why(stage, unit) == ("canceled: not needed", "")


def test_every_counter_of_the_ledger_is_shown_with_its_limit(stage: Stage) -> None:
    [unit] = _adhoc(stage, "one")
    rows = [
        (1, "tries", "execute", 2),
        (1, "gate", "check", 0),
        (2, "gate", "check", 3),
        (0, "replans", "", 1),
    ]

    def count(tx: Tx) -> None:
        tx.run("UPDATE units SET plan_version = 2 WHERE id = :id", id=unit)
        for version, kind, key, number in rows:
            tx.run(
                "INSERT INTO attempt_ledger (unit_id, plan_version, kind, key, count)"
                " VALUES (:id, :version, :kind, :key, :number)",
                **{"id": unit, "version": version, "kind": kind, "key": key, "number": number},
            )

    transact(place_of(stage.project), count)
    assert reports.why(stage.project, unit).counters == {
        "runs": 0, "plan_version": 2, "gate check": 3, "tries execute (plan 1)": 2, "replans": 1,
    }  # fmt: skip
    told = "counters: runs 0 of 100, plan_version 2, gate check 3 of {}, "
    told += "tries execute (plan 1) 2, replans 1 of 2"
    assert told.format(3) in stage.sf("why", unit).stdout.splitlines()
    stage.configure(CONFIG + "[harness.gates.max_retries]\ncheck = 7\n")
    assert told.format(7) in stage.sf("why", unit).stdout.splitlines()
    stage.configure("nonsense")
    assert reports.why(stage.project, unit).limits == {"runs": 100}


def test_the_branches_that_goals_land_on_are_named(stage: Stage) -> None:
    stage.git("branch", "dev")
    [one] = _adhoc(stage, "one")
    assert stage.sf("status").stdout.splitlines()[0].endswith(" → main")
    stage.git("switch", "-q", "dev")
    [two] = _adhoc(stage, "two")
    lines = stage.sf("status").stdout.splitlines()
    assert lines[0].endswith(" → dev, main")
    assert [line.endswith(" → main") for line in lines if one in line] == [True]
    assert [line.endswith(" → dev") for line in lines if two in line] == [True]


def test_whoever_takes_over_a_lock_logs_it(stage: Stage) -> None:
    killed = (
        "import os, pathlib, sys; from sf.scheduler.lock import ProjectLock;"
        "ProjectLock(pathlib.Path(sys.argv[1]), 'x').__enter__(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", killed, str(stage.project.lock)], check=False)
    assert stage.sf("plan", "a goal").returncode == 0
    assert "stale lock taken over" in stage.project.log_file("").read_text(encoding="utf-8")


def test_why_looks_behind_each_unit_once_however_many_wait_for_it(stage: Stage) -> None:
    """Twenty-five layers of two, each after both before it, have 2 ** 25 ways from the last to the first."""
    layers = [[f"{side} {number}" for side in ("left", "right")] for number in range(25)]
    slices = [
        {"title": name, "tasks": [task(f"T {name}")], "code_depends_on": layers[number - 1] if number else []}
        for number, layer in enumerate(layers)
        for name in layer
    ]
    stage.script(plan_scene(*slices), *PASSING)
    stage.plan()
    stage.auto(Selection(most=2))
    began = time.monotonic()
    assert stage.sf("why", "slice/m1/s50").returncode == 0
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("look", [("doctor",), ("rescue", "list")])
def test_who_only_looks_does_not_decide_what_is_ignored(
    stage: Stage, tmp_path: Path, look: tuple[str, ...]
) -> None:
    """Beside a session, from where other settings of the user's hold: its snapshots went by those."""
    [unit] = _adhoc(stage, "one")
    stage.script(scene("execute", write("mine.txt"), say()), *PASSING)
    ignore = tmp_path / "elsewhere" / "git" / "ignore"
    ignore.parent.mkdir(parents=True)
    ignore.write_text("*.txt\n")
    looked: list[int] = []

    def watch(event: Event) -> None:
        if event.name == events.RUN_STARTED and event.data["phase"] == "execute":
            looked.append(stage.sf(*look, env={"XDG_CONFIG_HOME": str(ignore.parents[1])}).returncode)

    assert stage.auto(watch=watch).ending == "done", unit
    assert looked == [0]
    assert "mine.txt" in stage.git("ls-tree", "--name-only", "main").split()
