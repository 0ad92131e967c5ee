"""Budgets from outside: a run that may not spend asks nobody, says so, and goes on when it may."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest

from sf.app import reports
from sf.domain.events import AUTO_LOOP, TURN_ENDED, Event
from sf.domain.spending import Caps
from sf.domain.units import HoldKind
from sf.scheduler.admission import Selection
from sf.store import attention, blockers, runs, spending
from sf.store.connection import transact
from sf.surfaces.cli.look import parse_date
from tests.support.stage import (
    CONFIG,
    PASSING,
    Scene,
    Stage,
    call,
    plan_scene,
    say,
    scene,
    start_sf,
    task,
    write,
)

ONE = {"title": "S", "tasks": [task("T")]}
SHORT = CONFIG.replace("[harness]", "[harness]\nmax_output_tokens = 1000", 1)
UNITS = ("milestone/m1", "slice/m1/s1", "task/m1/s1/t1")
NO_FILTER = dict.fromkeys(("since", "phase", "verdict", "workflow", "model")) | {"most": 20}
SCENES: tuple[Scene, ...] = (plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)


def _priced(stage: Stage, budget: str) -> None:
    stage.configure(SHORT + f"[budget]\n{budget}\n")
    stage.script(*SCENES, price={"input": 0, "output": 1000})
    stage.plan()


def test_a_session_without_money_stops_with_its_own_exit_code_and_goes_on_when_allowed(stage: Stage) -> None:
    _priced(stage, "session_usd = 2.0")
    stopped = stage.sf("auto")
    assert stopped.returncode == 4, stopped.stdout
    assert "may spend $2.00" in stopped.stdout
    account = spending.account(stage.read, "session", stage.unit("milestone/m1").session_id)
    assert account.spent <= 2_000_000
    assert account.reserved == 0
    assert stage.sf("auto").returncode == 4, "it does not begin again by itself"
    asked = json.loads(stage.sf("attention", "--json").stdout)
    assert [item["kind"] for item in asked] == ["session_budget"]
    assert stage.sf("reply", asked[0]["id"][-6:], "100").returncode == 0
    done = stage.sf("auto")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (stage.root / "a.txt").exists()


def _answered_later(stage: Stage, deadline: str) -> None:
    (stage.home / "config.toml").write_text(
        '[memory]\nmode = "off"\n[attention]\n'
        f'defaults.session_budget = "100"\ndeadlines.session_budget = "{deadline}"\n'
    )


def test_a_session_without_money_waits_for_the_default_that_gives_it_more(stage: Stage) -> None:
    _answered_later(stage, "300ms")
    _priced(stage, "session_usd = 2.0")
    assert stage.auto().ending == "done"
    [asked] = stage.read.all("SELECT answer, answered_by FROM attention")
    assert tuple(asked) == ("100", "default")


def test_money_that_nobody_allowed_in_time_is_there_at_the_next_start(stage: Stage) -> None:
    _answered_later(stage, "1h")
    _priced(stage, "session_usd = 2.0")

    def watch(event: Event) -> None:
        if event.name == AUTO_LOOP and not event.data["running"] and attention.waiting(stage.read):
            os.kill(os.getpid(), signal.SIGINT)

    assert stage.auto(watch=watch).ending == "interrupted"
    [asked] = attention.waiting(stage.read)
    runs_before = stage.read.one("SELECT COUNT(*) AS n FROM runs")
    assert stage.auto(watch=watch).ending == "interrupted"
    [again] = attention.waiting(stage.read)
    assert (again.id, again.due_at) == (asked.id, asked.due_at), "a start puts nothing off"
    assert stage.read.one("SELECT COUNT(*) AS n FROM runs") == runs_before, "nor does it try once more"
    hour = 3_600_000
    transact(stage.project.database, lambda tx: tx.run("UPDATE attention SET due_at = due_at - :by", by=hour))
    assert stage.auto().ending == "done"
    assert [row["answer"] for row in stage.read.all("SELECT answer FROM attention")] == ["100"]
    assert spending.account(stage.read, "session", asked.session_id).allowance == 100_000_000


def test_nobody_is_asked_for_money_when_nothing_is_left_to_spend_it_on(stage: Stage) -> None:
    _priced(stage, "session_usd = 1.05")
    stage.plan("another")
    assert stage.auto().ending == "budget"
    stage.sf("abandon", "m1", "no")
    [asked] = attention.waiting(stage.read)
    stage.sf("abandon", "m2", "no")
    assert attention.waiting(stage.read) == [] and list(blockers.open_blockers(stage.read)) == []
    shown = stage.sf("status").stdout
    assert "BudgetReached" not in shown and asked.question not in shown


def test_a_limit_that_was_raised_takes_the_question_with_it(stage: Stage) -> None:
    """There is room for one request at a time: what cannot be paid is not tried again, and nobody answers."""
    tier = '[tiers.standard]\nmodels = ["script:{}"]'
    dear = SHORT.replace(tier.format("test"), tier.format("dear"))
    stage.configure(dear + "[budget]\nsession_usd = 0.5\n")
    two = [{"title": name, "tasks": [task(name)]} for name in ("S1", "S2")]
    stage.script(plan_scene(*two), *SCENES[1:], price={"input": 0, "output": 1000})
    cheap = stage.project.dot / "playbooks" / "test.toml"
    text = cheap.read_text().replace('"test"', '"dear"', 1).replace("output = 1000", "output = 5000")
    cheap.with_name("dear.toml").write_text(text.replace("latency_ms = 0", "latency_ms = 150"))
    stage.plan()
    assert stage.auto().ending == "budget"
    stage.configure(dear + "[budget]\nsession_usd = 8.0\n")
    assert stage.auto().ending == "budget", "a review is dearer still"
    tasks = ("task/m1/s1/t1", "task/m1/s2/t1")
    refused = [run for unit in tasks for run in runs.of_unit(stage.read, unit) if run.error_code]
    assert len(refused) <= 3, refused
    [asked] = attention.waiting(stage.read)
    [shown] = blockers.open_blockers(stage.read)
    assert "may spend $8.00" in asked.question and float(asked.question.rpartition("$")[2]) >= 10
    assert shown["detail"] == asked.question
    stage.configure(dear + "[budget]\nsession_usd = 50.0\n")
    assert stage.auto(Selection(most=1)).ending == "done"
    assert attention.waiting(stage.read) == [] and list(blockers.open_blockers(stage.read)) == []
    assert spending.account(stage.read, "session", asked.session_id).allowance == 0


def test_a_unit_without_money_is_parked_and_a_raised_limit_lets_it_go(stage: Stage) -> None:
    _priced(stage, "unit_usd = 0.5")
    result = stage.auto()
    assert result.ending == "waiting"
    unit = stage.unit("milestone/m1")
    assert unit.hold_kind is HoldKind.BUDGET
    assert runs.of_unit(stage.read, unit.id)[-1].error_code == "budget_reached"
    assert "sf reply milestone/m1" in stage.sf("status").stdout
    stage.configure(stage.project.config.read_text().replace("unit_usd = 0.5", "unit_usd = 50.0"))
    assert stage.auto().ending == "done", "sf looks at the limit by itself"


def test_a_unit_without_money_is_let_go_when_its_next_step_is_cheaper(stage: Stage) -> None:
    _priced(stage, "unit_usd = 0.5")
    assert stage.auto().ending == "waiting"
    text = stage.project.config.read_text()
    for limit, visits in ((2000, 1), (900, 2), (900, 2)):
        stage.configure(text.replace("max_output_tokens = 1000", f"max_output_tokens = {limit}"))
        assert stage.auto().ending == "waiting", "it is dearer, or not cheap enough"
        assert len(runs.of_unit(stage.read, "milestone/m1")) == visits
    stage.configure(text.replace("max_output_tokens = 1000", "max_output_tokens = 100"))
    stage.auto(Selection(most=1))
    assert stage.unit("milestone/m1").hold_kind is None


@pytest.mark.parametrize("tick", ["100ms", "1s"])
def test_a_unit_is_let_go_when_its_next_step_became_cheaper_while_it_was_refused(
    stage: Stage, tick: str
) -> None:
    """The limit is lowered under a run, whose requests are still priced by the old one.

    With a long tick the run has begun and ended between two of them.
    """
    text = SHORT.replace('tick = "100ms"', f'tick = "{tick}"') + "[budget]\nunit_usd = 1.3\n"
    stage.configure(text)
    dear = call("bash", command="sleep 0.3 # " + "x" * 1600)
    turns = (write("a.txt"), dear, write("c.txt"), say())
    stage.script(plan_scene(ONE), scene("execute", *turns), *PASSING, price={"input": 0, "output": 1000})
    stage.plan()

    def watch(event: Event) -> None:
        if event.name == TURN_ENDED and event.unit_id == UNITS[2] and event.data["turn"] == 1:
            stage.configure(text.replace("max_output_tokens = 1000", "max_output_tokens = 100"))

    assert stage.auto(watch=watch).ending == "done", "the last look is after the last run"
    codes = [run.error_code for run in runs.of_unit(stage.read, UNITS[2])]
    assert codes[0] == "budget_reached" and set(codes[1:]) == {None}


def test_cost_is_shown_by_unit_phase_model_and_day(stage: Stage) -> None:
    _priced(stage, "session_usd = 0")
    assert stage.auto().ending == "done"
    totals = set()
    for by in ("unit", "phase", "model", "day"):
        report = json.loads(stage.sf("cost", "--by", by, "--json").stdout)
        assert report["rows"]
        totals.add(report["cost_micro_usd"])
    spent = sum(run.cost_micro_usd for unit in UNITS for run in runs.of_unit(stage.read, unit))
    assert totals == {spent}
    assert "milestone/m1" in stage.sf("cost").stdout
    assert "day (UTC)" in stage.sf("cost", "--by", "day").stdout


def test_a_time_with_an_offset_is_that_instant_and_a_bare_one_is_utc() -> None:
    written = ("2026-11-16T23:00:00-08:00", "2026-11-17T07:00:00", "2026-11-17T07:00:00Z")
    assert {parse_date(text) for text in written} == {1_794_898_800_000}


def test_a_request_that_was_cut_off_counts_at_its_estimate(stage: Stage) -> None:
    stage.configure(CONFIG.replace("[harness]", '[harness]\nturn_timeout = "300ms"\nmax_attempts = 1', 1))
    stage.script(
        plan_scene(ONE),
        scene("execute", {"fault": "stall", "seconds": 5}),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="no")),
        *PASSING,
        price={"input": 0, "output": 100},
    )
    stage.plan()
    stage.auto()
    report = json.loads(stage.sf("cost", "--json").stdout)
    assert report["estimated_micro_usd"] == 16_000 * 100
    everywhere = {
        "status": reports.status(stage.project).cost_micro_usd,
        "outcome": sum(line.cost_micro_usd for line in reports.outcome(stage.project)),
        "runs": sum(run["cost_micro_usd"] for unit in UNITS for run in reports.why(stage.project, unit).runs),
    }
    assert everywhere == dict.fromkeys(everywhere, report["cost_micro_usd"])
    assert "of which $1.60 at most: cut off before the answer → sf cost" in stage.sf("status").stdout
    for row in reports.history(stage.project, **NO_FILTER):
        assert row["cost_micro_usd"] == spending.account(stage.read, "unit", row["unit_id"]).spent


def test_what_is_only_reserved_is_not_told_as_spent(stage: Stage) -> None:
    stage.script(scene("research", {"fault": "stall", "seconds": 60}), price={"input": 0, "output": 100})
    stage.plan()
    with start_sf(stage.root, stage.home, "auto") as process:
        deadline = time.monotonic() + 30
        while not reports.status(stage.project).reserved_micro_usd and time.monotonic() < deadline:
            time.sleep(0.05)
        told = stage.sf("status").stdout
        process.kill()
    assert "0 tokens, $0.0000 + $1.60 reserved" in told
    assert next(line for line in told.splitlines() if line.startswith("Running:")).endswith(
        " 0 $0.0000 + $1.60 reserved  do it"
    )
    assert "at most" not in told


def test_a_review_is_priced_as_a_whole_before_its_first_part(stage: Stage) -> None:
    """Five parts of 300 lines: there is money for one part, not for all."""
    stage.configure(SHORT + "[budget]\nunit_usd = 3.0\n")
    files = [write(f"f{number}.txt", "x\n" * 290) for number in range(5)]
    stage.script(
        plan_scene(ONE), scene("execute", *files, say()), *PASSING, price={"input": 0, "output": 1000}
    )
    stage.plan()
    stage.auto()
    unit = stage.unit("slice/m1/s1")
    assert unit.hold_kind is HoldKind.BUDGET
    assert unit.phase == "review"
    asked = spending.report(stage.read, "phase", 0)
    assert [row["requests"] for row in asked if row["name"] == "review"] == [1], "only the context pass"


def _two_slices(stage: Stage, milestone_usd: float, *work: Any, latency_ms: int) -> None:
    """Two slices side by side; a request may cost up to $1.00."""
    stage.configure(SHORT + f"[budget]\nmilestone_usd = {milestone_usd}\n")
    stage.script(
        plan_scene(*({"title": name, "tasks": [task(name)]} for name in ("S1", "S2"))),
        *(scene("execute", *work, write(f"{name}.txt"), say(), unit=name) for name in ("S1", "S2")),
        *PASSING,
        latency_ms=latency_ms,
        price={"input": 0, "output": 1000},
    )
    stage.plan()


def test_units_under_one_cap_do_not_cut_each_other_off(stage: Stage) -> None:
    """Who was parked took the room of a run between two requests, in turns: all was spent, nothing done."""
    work = [call("bash", command="sleep 0.5") for _ in range(6)]
    _two_slices(stage, 2.05, *work, latency_ms=100)
    stage.auto()
    tasks = ("task/m1/s1/t1", "task/m1/s2/t1")
    made = [run for unit in tasks for run in runs.of_unit(stage.read, unit)]
    # Who begins a phase may meet the other between two requests; who was parked waits its turn.
    beginnings = len(tasks) * len({run.phase for run in made if run.turns})
    assert len([run for run in made if run.error_code == "budget_reached"]) <= beginnings
    assert all(stage.unit(unit).succeeded for unit in tasks)


def test_the_loop_does_not_end_beside_a_parked_unit_that_has_room_by_now(stage: Stage) -> None:
    _two_slices(stage, 2.05, latency_ms=40)
    stage.auto()
    room = spending.account(stage.read, "milestone", "milestone/m1").room(Caps(milestone=2_050_000))
    left = [item for item in attention.waiting(stage.read) if str(item.unit_id).startswith("task/")]
    assert room is not None and not [item for item in left if item.data["wanted"] <= room]


def test_a_default_amount_is_given_once_for_all_who_wait_for_it(stage: Stage) -> None:
    (stage.home / "config.toml").write_text(
        '[memory]\nmode = "off"\n[attention]\ndefaults.budget = "20"\ndeadlines.budget = "1500ms"\n'
    )
    stage.configure(SHORT + "[budget]\nmilestone_usd = 1.5\n")
    names = ("S1", "S2", "S3")
    stage.script(
        scene("research", say("x" * 1850 + "\n<turn_status>complete</turn_status>")),
        plan_scene(*({"title": name, "tasks": [task(name)]} for name in names)),
        *(scene("execute", write(f"{name}.txt"), say(), unit=name) for name in names),
        *PASSING,
        price={"input": 0, "output": 1000},
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert spending.account(stage.read, "milestone", "milestone/m1").allowance == 20_000_000
