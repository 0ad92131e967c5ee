"""What `sf status` and `sf why` tell of units that wait: each its one reason, none left out in silence."""

from __future__ import annotations

import subprocess
import sys

from sf.app import reports
from sf.app.stores import place_of
from sf.domain.clock import Instant
from sf.scheduler import lock
from sf.scheduler.admission import Selection
from sf.store import units
from sf.store.connection import transact
from sf.store.tx import Tx
from tests.support.stage import CONFIG, PASSING, SHORT, Stage, say, scene, write

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
        f"Cut off:    {running} execute 0 $0.0000  goal 240"
    ]


def test_the_way_on_of_what_is_cut_off_in_a_pause_is_the_end_of_the_pause(stage: Stage) -> None:
    [unit] = _adhoc(stage, "one")
    change = "UPDATE units SET phase_status = 'running' WHERE id = :id"
    transact(place_of(stage.project), lambda tx: tx.run(change, id=unit))
    assert _why(stage, unit) == ("cut off", "sf auto")
    stage.sf("pause")
    assert _why(stage, unit) == ("cut off", "sf resume")
    assert reports.status(stage.project).way_on == ""
    stage.sf("resume")
    assert _why(stage, unit) == ("cut off", "sf auto")


def test_what_can_begin_comes_before_what_waits_for_others(stage: Stage) -> None:
    first, second = _adhoc(stage, "one", "two")
    change = "UPDATE units SET open_children = 1 WHERE id = :id"
    transact(place_of(stage.project), lambda tx: tx.run(change, id=first))
    assert [line.id for line in reports.status(stage.project).waiting] == [second, first]


def test_every_counter_of_the_ledger_is_shown(stage: Stage) -> None:
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
