"""Everything that is parked has a reason, a blocker, and a way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sf.app.templates import FEATURE
from sf.config.schema import Harness
from sf.domain import outcomes as o
from sf.domain.attention import ANSWERS as ANSWERED_BY
from sf.domain.attention import Patience
from sf.domain.phases import Phase
from sf.domain.spending import Caps
from sf.domain.units import BLOCKER_EVENT, BRANCH, PATHS, WAY_OUT, HoldKind, Status
from sf.harness import lifecycle
from sf.harness.rules import Rules
from sf.scheduler import intents, rechecks, replies, upkeep
from sf.scheduler.intents import INTENTS
from sf.store import attention, records, sessions, spending, units
from sf.store.tx import Tx
from tests.support.ground import GATED, Ground, Refused
from tests.support.samples import milestone_plan, piece, task_plan

A = "task/a1"


def to_merge(ground: Ground, workflow: str = "feature") -> None:
    ground.plant(workflow, adhoc=True)
    ground.run(A, o.Done(), o.Planned(task_plan()), *[o.Done()] * 4)


def park_uat(ground: Ground) -> None:
    to_merge(ground, "release")


def park_escalated(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, o.GaveUp("no"), o.Reassessed("escalate", "left or right?"))


def park_blocked(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, o.AskedHuman("which?"))


def park_conflict(ground: Ground) -> None:
    to_merge(ground)
    ground.run(A, o.Conflict("both"), *[o.Done()] * 4, o.Conflict("both again"))


def park_no_evidence(ground: Ground) -> None:
    to_merge(ground)
    ground.run(A, o.Held(HoldKind.NO_EVIDENCE, "no gate"))


def park_dirty(ground: Ground, data: dict[str, Any] | None = None) -> None:
    to_merge(ground)
    ground.run(A, o.Held(HoldKind.CHECKOUT_DIRTY, "a.txt", data or {}))


def park_crash_loop(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, *[o.Crashed()] * 20)


def park_run_limit(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, *[o.Interrupted("paused")] * 100)
    assert ground.claim(A) is None


def park_budget(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, o.Overspent("unit", A, "it may spend $1.00", 5))


PARKED: dict[HoldKind, Callable[[Ground], None]] = {
    HoldKind.UAT: park_uat,
    HoldKind.ESCALATED: park_escalated,
    HoldKind.BLOCKED: park_blocked,
    HoldKind.MERGE_CONFLICT: park_conflict,
    HoldKind.NO_EVIDENCE: park_no_evidence,
    HoldKind.CHECKOUT_DIRTY: park_dirty,
    HoldKind.CRASH_LOOP: park_crash_loop,
    HoldKind.RUN_LIMIT: park_run_limit,
    HoldKind.BUDGET: park_budget,
}
ANSWERS: dict[HoldKind, tuple[str, dict[str, str]]] = {
    HoldKind.UAT: ("uat_approve", {}),
    HoldKind.ESCALATED: ("reply", {"question_id": A, "answer": "left"}),
    HoldKind.BLOCKED: ("reply", {"question_id": A, "answer": "this"}),
    HoldKind.MERGE_CONFLICT: ("merge_resolve", {}),
    HoldKind.NO_EVIDENCE: ("merge_resolve", {}),
    HoldKind.CHECKOUT_DIRTY: ("merge_resolve", {}),
    HoldKind.BUDGET: ("reply", {"question_id": A, "answer": "5"}),
}
"""The intents that name the unit; the other holds are let go by `force_clear` of their blocker."""


@pytest.mark.parametrize("kind", list(HoldKind))
def test_a_parked_unit_has_one_blocker_and_is_not_ready(ground: Ground, kind: HoldKind) -> None:
    PARKED[kind](ground)
    unit = ground.unit(A)
    assert unit.hold_kind is kind
    assert unit.claim_holder is None
    assert not unit.terminal
    assert ground.ready() == []
    ground.clock.advance(seconds=365 * 24 * 3600)
    assert ground.ready() == []
    assert [row["event"] for row in ground.blockers(A)] == [BLOCKER_EVENT[kind]]
    assert kind in WAY_OUT
    assert [held.id for held in units.held(ground.read)] == [A]


@pytest.mark.parametrize("kind", list(HoldKind))
def test_every_hold_is_let_go_by_the_command_that_it_names(ground: Ground, kind: HoldKind) -> None:
    PARKED[kind](ground)
    blocker = ground.blockers(A)[0]["id"]
    intent, payload = ANSWERS.get(kind, ("force_clear", {"blocker_id": blocker}))
    named = re.findall(r"\bsf ([a-z-]+)", WAY_OUT[kind])
    command = next((name for name in named if name != "why"), "").replace("-", "_")
    assert intent == command or kind is HoldKind.CHECKOUT_DIRTY
    ground.intend(intent, unit_id=A, **payload)
    unit = ground.unit(A)
    assert unit.hold_kind is None
    assert ground.blockers(A) == []
    assert ground.ready() == [A]
    assert ground.claim(A) is not None, "it can really run again"


@pytest.mark.parametrize("kind", list(HoldKind))
def test_every_hold_can_be_cleared_by_force_and_never_passes_what_it_guards(
    ground: Ground, kind: HoldKind
) -> None:
    PARKED[kind](ground)
    before = ground.unit(A).phase
    ground.intend("force_clear", blocker_id=ground.blockers(A)[0]["id"][:24].lower())
    unit = ground.unit(A)
    assert unit.hold_kind is None
    assert ground.ready() == [A]
    assert unit.phase in (before, Phase.REASSESS, Phase.PLAN), "force never moves forward"


@pytest.mark.parametrize("kind", list(HoldKind))
def test_every_parked_unit_can_be_abandoned(ground: Ground, kind: HoldKind) -> None:
    PARKED[kind](ground)
    ground.intend("abandon", unit_id=A, reason="enough")
    assert ground.unit(A).status is Status.CANCELED
    assert ground.blockers(A) == []
    assert units.held(ground.read) == []
    assert units.open_count(ground.read) == 0


@pytest.mark.conforms("C-53")
def test_acceptance_halts_the_unit_until_it_is_approved(ground: Ground) -> None:
    park_uat(ground)
    assert ground.unit(A).phase is Phase.UAT
    answer = ground.intend("uat_approve", unit_id=A)
    assert answer["phase"] == "merge"
    ground.run(A, o.Done("merged"))
    assert ground.unit(A).succeeded


@pytest.mark.conforms("C-53")
def test_a_rejected_acceptance_goes_to_reassess_with_its_reason(ground: Ground) -> None:
    park_uat(ground)
    ground.intend("uat_reject", unit_id=A, reason="the button is green")
    unit = ground.unit(A)
    assert (unit.phase, unit.reassess_reason) == (Phase.REASSESS, "uat_rejected")
    assert "the button is green" in ground.feedback(A)


@pytest.mark.conforms("C-76")
def test_acceptance_has_no_time_limit(ground: Ground) -> None:
    assert float(Harness().timeout(Phase.UAT)) == 0
    park_uat(ground)
    unit = ground.unit(A)
    assert (unit.due_at, unit.claim_until) == (None, None)
    ground.clock.advance(seconds=10 * 365 * 24 * 3600)
    assert ground.ready() == []
    assert ground.unit(A).hold_kind is HoldKind.UAT


@pytest.mark.conforms("C-61")
def test_an_operators_answer_opens_a_new_plan_that_is_not_counted_as_a_replan(ground: Ground) -> None:
    park_escalated(ground)
    ground.intend("reassess_resolve", unit_id=A, answer="left")
    unit = ground.unit(A)
    assert (unit.phase, unit.plan_version) == (Phase.PLAN, 2)
    assert not any(kind == "replans" for _, _, kind, _ in ground.ledger())
    assert "left" in ground.feedback(A)


@pytest.mark.conforms("C-81")
def test_a_question_parks_the_unit_and_the_answer_reaches_the_same_phase(ground: Ground) -> None:
    park_blocked(ground)
    assert ground.unit(A).hold_detail == "which?"
    ground.intend("reassess_resolve", unit_id=A, answer="this one")
    unit = ground.unit(A)
    assert (unit.phase, unit.plan_version) == (Phase.RESEARCH, 1)
    assert "this one" in ground.feedback(A)


def test_a_run_limit_is_raised_only_by_a_person(ground: Ground) -> None:
    park_run_limit(ground)
    assert ground.unit(A).attempt == 100
    with pytest.raises(Refused):
        ground.intend("reassess_resolve", unit_id=A, answer="go on")
    ground.intend("force_clear", blocker_id=ground.blockers(A)[0]["id"])
    assert ground.unit(A).run_allowance == 200
    ground.run(A, *[o.Interrupted("paused")] * 100)
    assert ground.claim(A) is None
    assert ground.unit(A).hold_kind is HoldKind.RUN_LIMIT


def test_an_answer_to_the_wrong_hold_is_refused_and_changes_nothing(ground: Ground) -> None:
    park_blocked(ground)
    for intent in ("uat_approve", "uat_reject", "merge_resolve"):
        with pytest.raises(Refused) as refused:
            ground.intend(intent, unit_id=A, reason="x")
        assert refused.value.code == "wrong_state"
    assert ground.unit(A).hold_kind is HoldKind.BLOCKED
    with pytest.raises(Refused) as refused:
        ground.intend("abandon", unit_id="task/a9", reason="x")
    assert refused.value.code == "unknown_unit"
    with pytest.raises(Refused) as refused:
        ground.intend("force_clear", blocker_id="ZZZ")
    assert refused.value.code == "unknown_blocker"


def test_the_session_pauses_and_resumes(ground: Ground) -> None:
    ground.plant()
    assert ground.intend("pause", reason="lunch") == {"paused": True}
    assert ground.intend("pause")["already"] is True
    row = ground.read.one("SELECT status, detail FROM sessions")
    assert row is not None
    assert (row["status"], row["detail"]) == ("paused", "lunch")
    ground.intend("resume")
    row = ground.read.one("SELECT status FROM sessions")
    assert row is not None
    assert row["status"] == "idle"
    assert ground.read.all("SELECT 1 FROM session_blockers WHERE resolved_at IS NULL") == []


def entry(goal: str) -> dict[str, str]:
    """A milestone of a plan file."""
    return {"goal": goal, "workflow": "feature", "content": FEATURE, "branch": "main"}


def test_the_plan_file_adds_keeps_and_archives_milestones(ground: Ground) -> None:
    first = ground.intend("plan_reload", milestones=[entry("one"), entry("two"), entry("three")])
    assert first["added"] == ["milestone/m1", "milestone/m2", "milestone/m3"]
    assert (
        ground.intend("plan_reload", milestones=[entry("one"), entry("two"), entry("three")])["added"] == []
    )
    ground.run("milestone/m2", o.Done())
    second = ground.intend("plan_reload", milestones=[entry("three"), entry("four")])
    assert second == {
        "added": ["milestone/m4"],
        "archived": ["milestone/m1"],
        "in_flight": ["milestone/m2"],
    }


def test_what_is_put_back_into_the_plan_file_is_planned_again_unless_it_was_done(ground: Ground) -> None:
    ground.intend("plan_reload", milestones=[entry("done")])
    ground.run("milestone/m1", o.Done(), o.Planned(milestone_plan(piece("all"))))
    ground.finish()
    assert ground.unit("milestone/m1").succeeded
    every = [entry("done"), entry("removed"), entry("abandoned"), entry("stays")]
    assert len(ground.intend("plan_reload", milestones=every)["added"]) == 3
    ground.intend("abandon", unit_id="milestone/m3", reason="enough")
    assert ground.intend("plan_reload", milestones=every)["added"] == [], "the file still names them"
    assert ground.intend("plan_reload", milestones=[entry("stays")])["archived"] == ["milestone/m2"]
    assert ground.intend("plan_reload", milestones=every)["added"] == ["milestone/m5", "milestone/m6"]
    assert [ground.unit(f"milestone/m{number}").title for number in (5, 6)] == ["removed", "abandoned"]
    assert ground.intend("plan_reload", milestones=every)["added"] == []


def test_a_reload_leaves_alone_what_came_from_another_folders_plan_or_from_a_person(ground: Ground) -> None:
    def reload(folder: str, *goals: str) -> dict[str, Any]:
        milestones = [entry(goal) for goal in goals]
        return ground.intend("plan_reload", milestones=milestones, folder=folder, shared=True)

    assert reload("here", "one", "both")["added"] == ["milestone/m1", "milestone/m2"]
    ground.intend("plan", **entry("said"))
    there = reload("there", "two", "both")
    assert there == {"added": ["milestone/m4"], "archived": [], "in_flight": []}, "both want it done, once"
    assert reload("there", "both")["archived"] == ["milestone/m4"]
    assert reload("here", "three")["archived"] == ["milestone/m1", "milestone/m2"]
    assert reload("there", "both")["added"] == ["milestone/m6"], "nobody else's plan has it any more"
    assert not ground.unit("milestone/m3").terminal


def test_a_goal_that_an_older_sf_took_from_the_plan_file_is_this_folders_if_nobody_else_is_known(
    ground: Ground,
) -> None:
    def reload(folder: str, *goals: str) -> list[str]:
        milestones = [entry(goal) for goal in goals]
        archived: list[str] = ground.intend("plan_reload", milestones=milestones, folder=folder, shared=True)[
            "archived"
        ]
        return archived

    old = [entry(goal) for goal in ("one", "two", "three")]
    ground.intend("plan_reload", milestones=old)
    assert reload("here", "one", "three") == ["milestone/m2"]
    ground.intend("plan_reload", milestones=[*old, entry("four")])
    assert reload("there", "five") == [], "others are known"
    assert reload("here", "one", "four") == ["milestone/m3"], "what it had named became its own"
    assert reload("here", "one") == ["milestone/m5"]


def test_force_dispatch_says_what_it_overrides(ground: Ground) -> None:
    ground.plant(adhoc=True)
    assert ground.intend("force_dispatch", unit_id=A) == {"unit_id": A, "overrides": []}
    ground.claim(A)
    with pytest.raises(Refused):
        ground.intend("force_dispatch", unit_id=A)


@pytest.mark.parametrize(
    ("kind", "payload"), [("from_the_future", {}), ("abandon", {}), ("plan", {"goal": 1})]
)
def test_an_intent_that_cannot_be_understood_is_answered_and_does_not_stop_the_next(
    ground: Ground, kind: str, payload: dict[str, object]
) -> None:
    ground.plant()
    with pytest.raises(Refused):
        ground.intend(kind, **payload)
    ground.intend("pause")


def test_a_refused_intent_announces_nothing(ground: Ground) -> None:
    good = {"goal": "one", "workflow": "feature", "content": FEATURE, "branch": "main"}
    ground.intend("plan_reload", milestones=[good])
    ground.events.clear()
    with pytest.raises(Refused):
        ground.intend(
            "plan_reload", milestones=[{**good, "goal": "two", "content": 'name = "x"\nphases = ["nope"]'}]
        )
    assert ground.unit("milestone/m1").status is Status.PENDING
    assert [event.name for event in ground.events] == [], "what was rolled back must not be announced"


def test_the_intents_are_known_by_name() -> None:
    assert {"plan", "abandon", "pause", "resume", "uat_approve", "uat_reject"} <= set(INTENTS)


REPLIES: dict[HoldKind, str] = {
    HoldKind.UAT: "approve",
    HoldKind.ESCALATED: "left",
    HoldKind.BLOCKED: "this one",
    HoldKind.MERGE_CONFLICT: "retry",
    HoldKind.NO_EVIDENCE: "retry",
    HoldKind.CHECKOUT_DIRTY: "retry",
    HoldKind.CRASH_LOOP: "again",
    HoldKind.RUN_LIMIT: "again",
    HoldKind.BUDGET: "$2.50",
}


@pytest.mark.parametrize("kind", list(HoldKind))
def test_every_hold_is_a_question_that_a_reply_settles(ground: Ground, kind: HoldKind) -> None:
    PARKED[kind](ground)
    [question] = attention.waiting(ground.read)
    assert (question.kind, question.unit_id, question.due_at) == (kind.value, A, None)
    assert question.kind in ANSWERED_BY
    with pytest.raises(Refused, match="takes"):
        ground.intend("reply", question_id=A, answer=" ")
    assert ground.unit(A).hold_kind is kind, "an answer that means nothing changes nothing"
    ground.intend("reply", question_id=question.id[-6:].lower(), answer=REPLIES[kind])
    assert ground.unit(A).hold_kind is None
    assert attention.waiting(ground.read) == []
    assert ground.blockers(A) == []
    assert ground.ready() == [A]


@pytest.mark.parametrize("kind", list(HoldKind))
def test_every_question_about_a_unit_takes_abandon(ground: Ground, kind: HoldKind) -> None:
    PARKED[kind](ground)
    ground.intend("reply", question_id=A, answer="abandon")
    assert ground.unit(A).status is Status.CANCELED
    assert attention.waiting(ground.read) == []


def test_a_reply_to_no_name_at_all_answers_nothing(ground: Ground) -> None:
    park_blocked(ground)
    for name in ("", " "):
        with pytest.raises(Refused, match="no question waits as"):
            ground.intend("reply", question_id=name, answer="abandon")
    assert ground.unit(A).hold_kind is HoldKind.BLOCKED


def test_a_question_with_a_deadline_is_answered_by_its_default_and_no_other(tmp_path: Path) -> None:
    rules = replace(GATED, patience={"blocked": Patience("decide yourself", 60_000)})
    ground = Ground(tmp_path / "sf.db", rules)
    park_blocked(ground)
    ground.write(lambda tx: replies.answer_due(tx, rules, ground.now))
    assert ground.unit(A).hold_kind is HoldKind.BLOCKED, "not before its time"
    ground.clock.advance(seconds=61)
    assert len(ground.write(lambda tx: replies.answer_due(tx, rules, ground.now))) == 1
    assert ground.unit(A).hold_kind is None
    assert "decide yourself" in records.unread_feedback(ground.read, A)[0]


@pytest.mark.parametrize("later", [0, 61])
def test_more_runs_are_not_allowed_by_a_default_that_an_older_sf_took(tmp_path: Path, later: int) -> None:
    """At a start nothing waits for its time any more, and when that has come nobody answers it."""
    rules = replace(GATED, patience={"run_limit": Patience("again", 60_000)})
    ground = Ground(tmp_path / "sf.db", rules)
    PARKED[HoldKind.RUN_LIMIT](ground)
    ground.clock.advance(seconds=later)
    if later:
        assert ground.write(lambda tx: replies.answer_due(tx, rules, ground.now)) == []
    else:
        ground.write(lambda tx: upkeep.draw_in(tx, "", rules, ground.now))
    assert ground.unit(A).hold_kind is HoldKind.RUN_LIMIT
    [asked] = attention.waiting(ground.read)
    assert (asked.due_at, asked.default_answer) == (None, None)


def test_the_question_for_the_sessions_money_tells_the_largest_need_and_goes_when_there_is_room(
    ground: Ground,
) -> None:
    ground.plant(adhoc=True)
    lease = ground.claim(A)
    assert lease is not None
    by = spending.payer(ground.read, ground.unit(A))
    patience = {"session_budget": Patience("100", 60_000)}

    def rules(cap: int) -> Rules:
        return replace(GATED, caps=Caps(session=cap), patience=patience)

    def ask(wanted: int) -> None:
        ground.write(
            lambda tx: replies.ask_for_session(tx, ground.unit(A), wanted, rules(1_000_000), ground.now)
        )

    def withdraw(cap: int) -> bool:
        return ground.write(lambda tx: replies.withdraw_for_session(tx, rules(cap), ground.now))

    def shown() -> list[str]:
        return [str(row["detail"]) for row in ground.read.all("SELECT * FROM session_blockers")]

    ask(2_000_000)
    [first] = attention.waiting(ground.read)
    ground.write(
        lambda tx: spending.reserve(tx, lease, by, model="m", estimate=500_000, caps=Caps(), now=ground.now)
    )
    ask(3_000_000)
    ask(1_000_000)
    [asked] = attention.waiting(ground.read)
    assert (asked.id, asked.due_at) == (first.id, first.due_at)
    assert asked.question.endswith("$0.50 reserved, and what comes next may cost up to $3.00")
    assert shown() == [asked.question]
    assert not withdraw(3_400_000)
    assert withdraw(3_500_000)
    assert attention.waiting(ground.read) == []
    ask(2_000_000)
    ground.clock.advance(seconds=61)
    ground.write(lambda tx: replies.answer_due(tx, rules(9_000_000), ground.now))
    closed = ground.read.all("SELECT answer, answered_by FROM attention")
    assert [tuple(row) for row in closed] == [(None, "auto")] * 2, "nobody answered, nor had to"
    assert not ground.read.all("SELECT * FROM session_blockers WHERE resolved_at IS NULL")


def test_a_folder_with_more_money_does_not_withdraw_the_question_of_another(ground: Ground) -> None:
    """It was asked again at once, by a run more each time."""
    ground.plant(adhoc=True)
    unit = ground.unit(A)

    def rules(cap: int) -> Rules:
        return replace(GATED, caps=Caps(session=cap))

    def withdraw(cap: int, station: str) -> bool:
        return ground.write(lambda tx: replies.withdraw_for_session(tx, rules(cap), ground.now, station))

    ground.write(lambda tx: replies.ask_for_session(tx, unit, 2, rules(1), ground.now, "here"))
    assert not withdraw(0, "there") and not withdraw(9, "there")
    ground.write(lambda tx: replies.ask_for_session(tx, unit, 3, rules(2), ground.now, "there"))
    assert not withdraw(9, "there"), "here has no room yet"
    assert not withdraw(2, "here")
    [asked] = attention.waiting(ground.read)
    assert replies.askers(asked) == {"here", "there"}
    ground.write(lambda tx: replies.ask_for_session(tx, unit, 3, rules(9), ground.now, "there"))
    assert withdraw(3, "here"), "room for both"


def test_money_for_the_session_leaves_a_unit_parked_that_lacks_its_own(ground: Ground) -> None:
    park_budget(ground)
    unit = ground.unit(A)
    ground.write(lambda tx: replies.ask_for_session(tx, unit, 1, GATED, ground.now))
    asked = next(item for item in attention.waiting(ground.read) if item.unit_id is None)
    ground.intend("reply", question_id=asked.id, answer="5")
    assert [row["event"] for row in ground.blockers(A)] == ["BudgetReached"]


@pytest.mark.conforms("C-70")
def test_blockers_record_when_and_by_what_they_were_resolved(ground: Ground) -> None:
    def resolved() -> dict[str, str]:
        rows = ground.read.all("SELECT * FROM session_blockers WHERE resolved_at IS NOT NULL")
        return {row["event"]: row["resolved_by"] for row in rows}

    park_uat(ground)
    ground.intend("uat_approve", unit_id=A)
    assert resolved() == {"UATPending": "/sf uat-approve"}
    ground.intend("pause")
    ground.intend("resume")
    assert resolved()["Paused"] == "user"
    ground.run(A, o.GateFailed("unit", "no"))
    [open_one] = ground.read.all("SELECT * FROM session_blockers WHERE resolved_at IS NULL")
    assert (open_one["event"], ground.unit(A).phase) == ("GateBlocked", Phase.EXECUTE)
    ground.run(A, o.Done(), o.Done(), o.Done())
    assert resolved()["GateBlocked"] == "auto"
    while ground.unit(A).hold_kind is None:
        ground.run(A, o.Conflict("both") if ground.unit(A).phase is Phase.MERGE else o.Done())
        if ground.unit(A).hold_kind is HoldKind.UAT:
            ground.intend("uat_approve", unit_id=A)
    ground.intend("merge_resolve", unit_id=A)
    assert resolved()["MergeConflict"] == "/sf merge-resolve"


def test_a_gate_that_refused_is_shown_until_the_unit_is_reassessed(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, o.Done(), o.Planned(task_plan()), *[o.Done()] * 2)
    assert ground.unit(A).phase is Phase.VERIFY
    ground.run(A, o.GateFailed("unit", "no", final=True))
    assert ground.unit(A).phase is Phase.REASSESS
    assert ground.read.all("SELECT * FROM session_blockers WHERE resolved_at IS NULL") == []


def test_an_answer_leaves_the_blocker_of_a_gate_up_until_the_gate_passes(ground: Ground) -> None:
    def resolved() -> dict[str, str | None]:
        return {row["event"]: row["resolved_by"] for row in ground.read.all("SELECT * FROM session_blockers")}

    ground.plant(adhoc=True)
    ground.run(A, o.Done(), o.Planned(task_plan()), *[o.Done()] * 2, o.GateFailed("unit", "no"))
    ground.run(A, o.AskedHuman("staging or production?"))
    ground.intend("reply", question_id=A, answer="staging")
    assert resolved() == {"GateBlocked": None, "Question": "/sf reply"}
    ground.run(A, *[o.Done()] * 3)
    assert resolved() == {"GateBlocked": "auto", "Question": "/sf reply"}


@pytest.mark.parametrize(
    "answer", ["yes: but only once the button is fixed", "approve : not yet", "yes, but"]
)
def test_an_acceptance_with_a_condition_accepts_nothing(ground: Ground, answer: str) -> None:
    park_uat(ground)
    with pytest.raises(Refused, match='it takes "approve", or "reject: why"'):
        ground.intend("reply", question_id=A, answer=answer)
    assert ground.unit(A).hold_kind is HoldKind.UAT
    ground.intend("reply", question_id=A, answer=" Yes ")
    assert ground.unit(A).hold_kind is None


def test_a_look_that_finds_the_cause_still_there_asks_nothing_anew(ground: Ground) -> None:
    def look(outcome: o.AnyOutcome) -> None:
        ground.clock.advance(seconds=200)
        ground.write(lambda tx: lifecycle.look_again(tx, A, ground.now))
        assert attention.waiting(ground.read) == []
        ground.run(A, outcome)

    ground.rules = replace(GATED, patience={HoldKind.CHECKOUT_DIRTY.value: Patience("abandon", 600_000)})
    park_dirty(ground)
    [first], [blocker] = attention.waiting(ground.read), ground.blockers(A)
    for _ in range(2):
        look(o.Held(HoldKind.CHECKOUT_DIRTY, "a.txt"))
        assert attention.waiting(ground.read) == [first]
        assert [row["id"] for row in ground.blockers(A)] == [blocker["id"]]
    assert len([event for event in ground.events if event.name == "Held"]) == 1
    look(o.GateFailed("unit", "no"))
    while ground.unit(A).phase is not Phase.MERGE:
        ground.run(A, o.Done())
    ground.run(A, o.Held(HoldKind.CHECKOUT_DIRTY, "a.txt"))
    [again] = attention.waiting(ground.read)
    assert again.id != first.id, "it has moved meanwhile: another merge, another question"
    ground.intend("reply", question_id=A, answer="retry")
    ground.run(A, o.Held(HoldKind.CHECKOUT_DIRTY, "a.txt"))
    assert attention.waiting(ground.read)[0].id != again.id, "a person answered it"


@pytest.mark.parametrize(
    "other",
    [
        o.Held(HoldKind.CHECKOUT_DIRTY, "b.txt"),
        o.Held(HoldKind.CHECKOUT_DIRTY, "a.txt", {PATHS: ["a.txt"]}),
    ],
)
def test_a_look_that_meets_another_cause_asks_and_tells_anew(ground: Ground, other: o.Held) -> None:
    ground.rules = replace(GATED, patience={HoldKind.CHECKOUT_DIRTY.value: Patience("abandon", 600_000)})
    park_dirty(ground)
    [first] = attention.waiting(ground.read)
    ground.clock.advance(seconds=500)
    ground.write(lambda tx: lifecycle.look_again(tx, A, ground.now))
    ground.run(A, other)
    [second] = attention.waiting(ground.read)
    assert second.id != first.id and second.due_at == ground.now + 600_000
    assert [row["detail"] for row in ground.blockers(A)] == [other.detail]
    assert len([event for event in ground.events if event.name == "Held"]) == 2


def test_a_look_lets_nothing_go_that_is_held_for_another_cause_by_now(ground: Ground) -> None:
    park_dirty(ground)
    seen = ground.unit(A)
    [asked] = attention.waiting(ground.read)
    ground.intend("reply", question_id=A, answer="retry")
    ground.run(A, o.Held(HoldKind.CHECKOUT_DIRTY, "b.txt"))
    ground.write(lambda tx: rechecks.let_go(tx, seen, asked, "", ground.now))
    assert ground.unit(A).hold_detail == "b.txt" and len(attention.waiting(ground.read)) == 1
    ground.intend("abandon", unit_id=A, reason="no more")
    ground.write(lambda tx: rechecks.let_go(tx, seen, asked, "", ground.now))
    assert ground.unit(A).hold_detail == "no more"


def test_who_has_the_branch_that_a_unit_missed_has_the_unit(ground: Ground) -> None:
    """Another folder took it first whenever it was let go, and missed the branch again."""
    park_dirty(ground, {BRANCH: "release"})
    seen = ground.unit(A)
    [asked] = attention.waiting(ground.read)
    assert seen.station is None
    assert ground.write(lambda tx: rechecks.let_go(tx, seen, asked, "here", ground.now))
    assert (ground.unit(A).station, ground.unit(A).hold_kind) == ("here", None)


def test_an_intent_is_not_answered_with_the_failure_of_the_database(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.write(lambda tx: sessions.intend(tx, "abandon", {}, ground.now))
    ground.connection.begin()
    with pytest.raises(KeyError):
        intents.apply_open(Tx(ground.connection, lambda error: True), ground.rules, ground.now)
    ground.connection.rollback()
    assert len(sessions.open_intents(ground.read)) == 1
    ground.write(lambda tx: intents.apply_open(tx, ground.rules, ground.now))
    assert not sessions.open_intents(ground.read)


def test_a_default_that_answers_nothing_leaves_the_question_to_a_person(ground: Ground) -> None:
    """One of an sf that took more for an acceptance."""
    ground.rules = replace(GATED, patience={HoldKind.CHECKOUT_DIRTY.value: Patience("abandon: so be it", 1)})
    park_dirty(ground)
    ground.clock.advance(seconds=5)
    assert ground.write(lambda tx: replies.answer_due(tx, ground.rules, ground.now)) == []
    assert [item.due_at for item in attention.waiting(ground.read)] == [None]


def test_clearing_a_gates_blocker_leaves_the_question_that_holds_the_unit(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, o.Done(), o.Planned(task_plan()), *[o.Done()] * 2, o.GateFailed("unit", "no"))
    ground.run(A, o.AskedHuman("staging or production?"))
    [gate] = ground.read.all("SELECT id FROM session_blockers WHERE event = 'GateBlocked'")
    assert "unit_id" not in ground.intend("force_clear", blocker_id=gate["id"])
    assert (ground.unit(A).hold_kind, ground.ready()) == (HoldKind.BLOCKED, [])
    assert [item.question for item in attention.waiting(ground.read)] == ["staging or production?"]
    [left] = ground.read.all("SELECT event FROM session_blockers WHERE resolved_at IS NULL")
    assert left["event"] == "Question"
