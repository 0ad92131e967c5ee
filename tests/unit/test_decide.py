"""The decision function: every outcome leads somewhere, and no walk goes on for ever."""

from __future__ import annotations

from collections import Counter as Tally

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sf.domain import decide, moves
from sf.domain import outcomes as o
from sf.domain.decide import Counter, Counts, Move
from sf.domain.facts import Facts, WorktreeMode
from sf.domain.limits import Limits, backoff_ms
from sf.domain.phases import FORWARD, RANK, Phase
from sf.domain.queue import eligible, standing
from sf.domain.runs import AttemptState, RunOutcome, ending_of
from sf.domain.units import WAY_OUT, HoldKind, Status, Unit
from sf.domain.workflows import Workflow
from sf.errors import InvalidTransition
from sf.harness.rules import Rules
from sf.testing.clock import START, FakeClock
from tests.support.samples import WORKFLOWS, task_plan, unit

GATES = ("unit", "lint")
LIMITS = Limits(max_attempts=3, max_interruptions=4, max_waits=5)


class Walk:
    """A unit walked by moves alone, with its counters kept as the ledger keeps them."""

    def __init__(self, workflow: Workflow, start: Unit, facts: Facts) -> None:
        self.workflow = workflow
        self.limits = Rules(base=LIMITS).limits(workflow)
        self.unit = start
        self.facts = facts
        self.tally: Tally[tuple[int, Counter]] = Tally()
        self.clock = FakeClock()
        self.runs = 0
        self.allowance = LIMITS.max_runs
        first = decide.arrive(start, workflow, facts)
        if first is not None:
            self.apply(first)

    def count(self, counter: Counter) -> int:
        version = 0 if counter.kind == "replans" else self.unit.plan_version
        return self.tally[version, counter]

    def counts(self, gate: str) -> Counts:
        phase = self.unit.phase
        return Counts(
            tries=self.count(Counter("tries", phase)),
            gate=self.count(Counter("gate", gate)),
            fixes=self.count(Counter("fixes")),
            conflicts=self.count(Counter("conflicts")),
            replans=self.count(Counter("replans")),
            interruptions=self.count(Counter("interruptions", phase)),
            waits=self.count(Counter("waits")),
        )

    def outcome(self, outcome: o.AnyOutcome) -> Move:
        self.runs += 1
        gate = outcome.gate if isinstance(outcome, o.GateFailed) else ""
        move = decide.decide(self.unit, outcome, self.counts(gate), self.limits, self.workflow, self.facts)
        self.apply(move)
        return move

    def apply(self, move: Move) -> None:
        if move.raised is not None:
            version = 0 if move.raised.kind == "replans" else self.unit.plan_version
            self.tally[version, move.raised] += 1
        self.allowance += move.returns_run
        for version, counter in list(self.tally):
            if move.cleared == counter.kind and version == self.unit.plan_version:
                self.tally[version, counter] = 0
        phase = self.unit.phase
        for step in move.steps:
            moves.require(self.workflow, phase, step.to)
            phase = step.to
        due = None if move.delay_ms is None else self.clock.now() + move.delay_ms
        self.unit = msgspec.structs.replace(
            self.unit,
            phase=phase,
            status=move.status,
            due_at=due,
            hold_kind=move.hold,
            verdict=move.verdict or self.unit.verdict,
            plan_version=self.unit.plan_version + move.replan,
        )

    def rest(self) -> str:
        """Terminal, held with a way out, or eligible once its time has come; anything else is a dead end."""
        if self.unit.terminal:
            return "terminal"
        if self.unit.hold_kind is not None:
            assert WAY_OUT[self.unit.hold_kind]
            return "held"
        self.clock.advance(milliseconds=LIMITS.max_backoff_ms)
        assert eligible(self.unit, self.clock.now()), standing(self.unit, self.clock.now())
        return "eligible"

    def bound(self) -> int:
        """The most runs of a walk in which every run is counted or moves on."""
        phases = len(self.workflow.phases) + 1
        charges = (
            phases * (LIMITS.max_attempts + LIMITS.max_interruptions)
            # Cleared on the way to a review that may want changes, so often as it may.
            + len(GATES) * max(1, self.limits.max_retries) * (self.limits.max_fix_attempts + 1)
            + self.limits.max_fix_attempts
            + LIMITS.max_conflicts
        )
        return (self.limits.max_reassess + 1) * (charges + 1) * phases


FAULTS: list[o.AnyOutcome] = [
    o.Failed("turn_failed", "dropped"),
    o.Failed("unit_timeout", "slow"),
    o.Crashed(),
    o.AskedHuman("which?"),
    o.GaveUp("no"),
    o.WentStale("nothing changed"),
    o.CalledOff("canceled_by_supervisor"),
]
BY_PHASE: dict[Phase, list[o.AnyOutcome]] = {
    Phase.PLAN: [o.Planned(task_plan())],
    Phase.VERIFY: [
        o.Done(),
        *(o.GateFailed(gate, "red", final=last) for gate in GATES for last in (False, True)),
    ],
    Phase.REVIEW: [o.Done(), o.ChangesWanted("rename it")],
    Phase.MERGE: [
        o.Done(),
        o.Conflict("both"),
        o.GateFailed("unit", "red on the merged tree"),
        o.Held(HoldKind.CHECKOUT_DIRTY, "a.txt"),
        o.Held(HoldKind.NO_EVIDENCE, "no gate"),
    ],
    Phase.REASSESS: [
        o.Reassessed("replan", "x"),
        o.Reassessed("abandon", "x"),
        o.Reassessed("escalate", "x"),
    ],
}


def possible(phase: Phase) -> list[o.AnyOutcome]:
    return [*BY_PHASE.get(phase, [o.Done()]), *FAULTS]


STARTS = {
    "milestone": unit(id="milestone/m1", type="milestone"),
    "slice": unit(id="slice/m1/s1", type="slice", parent_id="milestone/m1"),
    "task": unit(id="task/m1/s1/t1", parent_id="slice/m1/s1"),
    "adhoc": unit(),
}
FACTS = st.builds(
    Facts,
    mode=st.sampled_from(["branch-per-slice", "milestone-per-worktree"]),
    has_children=st.booleans(),
    plan_complete=st.booleans(),
    planned_above=st.booleans(),
    gates=st.sampled_from([(), GATES]),
)


def begin(workflow: str, start: str, facts: Facts) -> Walk:
    template = WORKFLOWS[workflow]
    return Walk(template, msgspec.structs.replace(STARTS[start], phase=template.phases[0]), facts)


@settings(max_examples=300)
@given(st.sampled_from(sorted(WORKFLOWS)), st.sampled_from(sorted(STARTS)), FACTS, st.data())
def test_every_walk_comes_to_rest_within_its_bound_and_lowers_no_counter_but_a_gates(
    workflow: str, start: str, facts: Facts, data: st.DataObject
) -> None:
    walk = begin(workflow, start, facts)
    while walk.rest() == "eligible":
        before, phase = dict(walk.tally), walk.unit.phase
        walk.outcome(data.draw(st.sampled_from(possible(walk.unit.phase))))
        lowered = {key[1].kind for key, value in before.items() if walk.tally[key] < value}
        assert lowered <= ({"gate"} if phase is Phase.VERIFY else set())
        assert walk.runs <= walk.bound()


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(WORKFLOWS)),
    st.sampled_from(sorted(STARTS)),
    FACTS,
    st.randoms(use_true_random=False),
)
def test_the_most_stubborn_walk_ends_too(workflow: str, start: str, facts: Facts, random: object) -> None:
    """The outcomes that go on longest: never canceled, never asked, re-planned whenever that is offered."""
    walk = begin(workflow, start, facts)
    stubborn = (
        o.Failed,
        o.GateFailed,
        o.ChangesWanted,
        o.Conflict,
        o.Crashed,
        o.Done,
        o.Planned,
        o.Reassessed,
    )
    while walk.rest() == "eligible":
        choices = [
            outcome
            for outcome in possible(walk.unit.phase)
            if isinstance(outcome, stubborn) and getattr(outcome, "verdict", "replan") == "replan"
        ]
        walk.outcome(random.choice(choices))  # type: ignore[attr-defined]
        assert walk.runs <= walk.bound()


@pytest.mark.parametrize(
    ("first", "longest", "waited"),
    [
        (10_000, 300_000, [10_000, 20_000, 40_000, 300_000]),
        (0, 300_000, [1000, 2000, 4000, 300_000]),
        (10_000, 0, [1000, 1000, 1000, 1000]),
    ],
)
def test_the_pauses_of_an_outage_grow_up_to_the_cap_and_are_never_none(
    first: int, longest: int, waited: list[int]
) -> None:
    limits = Limits(first_backoff_ms=first, max_backoff_ms=longest)
    workflow, facts = WORKFLOWS["feature"], Facts()
    found = [
        decide.decide(
            unit(), o.Waiting(None, "away", times=times), Counts(), limits, workflow, facts
        ).delay_ms
        for times in (1, 2, 3, 1000)
    ]
    assert found == waited


@settings(max_examples=50)
@given(st.sampled_from(sorted(WORKFLOWS)), FACTS, st.randoms(use_true_random=False))
def test_a_quota_that_never_opens_ends_at_the_limit_of_runs(
    workflow: str, facts: Facts, random: object
) -> None:
    walk = begin(workflow, "adhoc", facts)
    shut = [o.Waiting(named, "later", unanswered=True) for named in (31, None)] * 10
    while walk.rest() == "eligible" and walk.runs < walk.allowance:
        walk.outcome(random.choice([*shut, *possible(walk.unit.phase)]))  # type: ignore[attr-defined]
        assert walk.runs <= LIMITS.max_runs + (walk.limits.max_reassess + 1) * LIMITS.max_waits


@pytest.mark.parametrize(
    ("start", "mode", "cleared"),
    [
        ("slice", "milestone-per-worktree", "gate"),
        ("slice", "branch-per-slice", None),
        ("task", "branch-per-slice", None),
        ("milestone", "branch-per-slice", None),
    ],
)
def test_gate_retries_end_with_verify_where_no_merge_follows(
    start: str, mode: WorktreeMode, cleared: str | None
) -> None:
    judged = msgspec.structs.replace(STARTS[start], phase=Phase.VERIFY)
    facts, template = Facts(mode=mode, gates=GATES), WORKFLOWS["feature"]
    move = decide.decide(judged, o.Done(), Counts(gate=2), Limits(), template, facts)
    assert move.cleared == cleared
    refused = decide.decide(judged, o.GateFailed("unit", "red"), Counts(), Limits(), template, facts)
    assert refused.cleared is None, "they survive the way back"


@settings(max_examples=100)
@given(st.sampled_from(sorted(WORKFLOWS)), st.sampled_from(sorted(STARTS)), FACTS)
def test_when_everything_succeeds_the_unit_completes_in_order(
    workflow: str, start: str, facts: Facts
) -> None:
    walk = begin(workflow, start, facts)
    ranks = []
    while not walk.unit.terminal:
        if walk.unit.hold_kind is HoldKind.UAT:
            walk.apply(decide.forward(walk.unit, walk.workflow, walk.facts, "accepted"))
            continue
        assert walk.unit.hold_kind is None
        ranks.append(RANK[walk.unit.phase])
        walk.outcome(possible(walk.unit.phase)[0])
    assert ranks == sorted(set(ranks))
    assert walk.unit.succeeded


@pytest.mark.conforms("C-61")
def test_only_a_replan_uses_up_a_replan() -> None:
    template = WORKFLOWS["feature"]
    stuck = unit(phase=Phase.REASSESS)
    for verdict in ("abandon", "escalate"):
        move = decide.decide(stuck, o.Reassessed(verdict, "x"), Counts(), Limits(), template, Facts())
        assert move.raised is None
        assert not move.replan
    move = decide.decide(stuck, o.Reassessed("replan", "x"), Counts(), Limits(), template, Facts())
    assert (move.raised, move.replan, move.steps[-1].to) == (Counter("replans"), True, Phase.PLAN)


@pytest.mark.conforms("C-61")
def test_at_the_limit_only_abandon_and_escalate_are_accepted() -> None:
    spent = Counts(replans=2)
    stuck = unit(phase=Phase.REASSESS)
    move = decide.decide(stuck, o.Reassessed("replan", "x"), spent, Limits(), WORKFLOWS["feature"], Facts())
    assert not move.replan
    assert move.raised == Counter("tries", "reassess")
    last = msgspec.structs.replace(spent, tries=5)
    move = decide.decide(stuck, o.Reassessed("replan", "x"), last, Limits(), WORKFLOWS["feature"], Facts())
    assert move.hold is HoldKind.ESCALATED
    move = decide.decide(stuck, o.Reassessed("abandon", "x"), spent, Limits(), WORKFLOWS["feature"], Facts())
    assert move.verdict == "abandoned"


@pytest.mark.conforms("C-85")
def test_a_gate_is_retried_up_to_its_own_limit_and_a_final_refusal_is_not_retried() -> None:
    verifying = unit(phase=Phase.VERIFY)

    def after(counts: Counts, outcome: o.GateFailed) -> Move:
        return decide.decide(verifying, outcome, counts, Limits(max_retries=3), WORKFLOWS["feature"], Facts())

    assert after(Counts(gate=1), o.GateFailed("unit", "red")).steps[-1].to is Phase.EXECUTE
    assert after(Counts(gate=2), o.GateFailed("unit", "red")).reassess_reason == "gate_exhausted"
    assert after(Counts(gate=2), o.GateFailed("unit", "red", limit=5)).steps[-1].to is Phase.EXECUTE
    assert after(Counts(), o.GateFailed("unit", "red", limit=0)).reassess_reason == "gate_exhausted"
    assert after(Counts(), o.GateFailed("unit", "red", final=True)).reassess_reason == "gate_exhausted"
    assert after(Counts(), o.GateFailed("unit", "red")).raised == Counter("gate", "unit")


@pytest.mark.conforms("C-81")
def test_giving_up_leads_to_reassess_and_a_question_to_a_hold() -> None:
    working = unit(phase=Phase.EXECUTE)
    gave_up = decide.decide(working, o.GaveUp("no"), Counts(), Limits(), WORKFLOWS["feature"], Facts())
    assert gave_up.reassess_reason == "giving_up"
    stale = decide.decide(working, o.WentStale("idle"), Counts(), Limits(), WORKFLOWS["feature"], Facts())
    assert (stale.reassess_reason, stale.feedback) == ("stale", "idle")
    asked = decide.decide(working, o.AskedHuman("?"), Counts(), Limits(), WORKFLOWS["feature"], Facts())
    assert (asked.hold, asked.steps, asked.raised) == (HoldKind.BLOCKED, (), None)


@pytest.mark.conforms("C-30")
@given(st.sampled_from(sorted(WORKFLOWS)), FACTS, st.lists(st.integers(0, 200), min_size=7, max_size=7))
def test_no_counter_decides_what_follows_from_an_outcome_that_is_uncounted(
    workflow: str, facts: Facts, numbers: list[int]
) -> None:
    template = WORKFLOWS[workflow]
    samples: list[o.AnyOutcome] = [
        o.Done("x"),
        o.Planned(task_plan()),
        o.Interrupted("shutdown"),
        o.CalledOff("canceled"),
    ]
    assert {type(sample) for sample in samples} == set(decide.UNCOUNTED)
    counts = Counts(**dict(zip(Counts.__struct_fields__, numbers, strict=True)))
    for phase in template.phases[:-1]:
        for outcome in samples:
            found = [
                decide.decide(unit(phase=phase), outcome, each, LIMITS, template, facts)
                for each in (counts, Counts())
            ]
            assert found[0] == found[1]


@given(st.integers(1, 200), st.integers(1, 60_000), st.integers(1, 1_000_000))
def test_backoff_doubles_from_its_first_step_up_to_its_cap(tries: int, first: int, cap: int) -> None:
    limits = Limits(first_backoff_ms=first, max_backoff_ms=cap)
    wait = backoff_ms(tries, limits)
    assert wait == min(cap, first * 2 ** (tries - 1))
    assert backoff_ms(tries + 1, limits) >= wait


@pytest.mark.conforms("C-30")
def test_the_default_backoff_is_ten_seconds_doubled_up_to_five_minutes() -> None:
    waits = [backoff_ms(tries, Limits()) // 1000 for tries in range(1, 8)]
    assert waits == [10, 20, 40, 80, 160, 300, 300]


@pytest.mark.conforms("C-04")
def test_an_attempt_has_eleven_states_and_canceled_is_not_failed() -> None:
    assert len(AttemptState) == 11
    assert len({state.value for state in AttemptState}) == 11
    assert {"canceled", "failed"} <= {state.value for state in AttemptState}
    assert ending_of("stalled") == (RunOutcome.STALLED, AttemptState.STALLED)
    assert ending_of("turn_timeout") == (RunOutcome.TURN_TIMEOUT, AttemptState.TIMED_OUT)
    assert ending_of("unit_timeout") == (RunOutcome.UNIT_TIMEOUT, AttemptState.TIMED_OUT)
    assert ending_of("anything") == (RunOutcome.FAILURE, AttemptState.FAILED)


@pytest.mark.conforms("C-04")
def test_a_canceled_unit_is_never_tried_again() -> None:
    move = decide.decide(
        unit(phase=Phase.EXECUTE), o.CalledOff("x"), Counts(), Limits(), WORKFLOWS["feature"], Facts()
    )
    assert (move.status, move.delay_ms, move.raised) == (Status.CANCELED, None, None)
    canceled = unit(phase=Phase.EXECUTE, status=Status.CANCELED)
    assert canceled.terminal
    assert not eligible(canceled, FakeClock().now())


@pytest.mark.conforms("C-02")
@pytest.mark.parametrize("workflow", sorted(WORKFLOWS))
def test_only_the_named_changes_of_phase_are_permitted(workflow: str) -> None:
    template = WORKFLOWS[workflow]
    assert len(Phase) == 10
    for origin in Phase:
        for to in Phase:
            following = next((p for p in template.phases if RANK[p] > RANK[origin]), None)
            expected = (
                origin is not Phase.COMPLETE
                and origin is not to
                and (
                    to is Phase.REASSESS
                    or (origin is Phase.REASSESS and to in (Phase.COMPLETE, template.at_or_after(Phase.PLAN)))
                    or (origin is not Phase.REASSESS and to is following)
                    or (origin in (Phase.VERIFY, Phase.REVIEW, Phase.MERGE) and to is Phase.EXECUTE)
                )
            )
            assert moves.permitted(template, origin, to) == expected, (origin, to)
            if not expected:
                with pytest.raises(InvalidTransition):
                    moves.require(template, origin, to)


def test_the_order_of_phases_is_that_of_the_workflows() -> None:
    for template in WORKFLOWS.values():
        assert list(template.phases) == [phase for phase in FORWARD if phase in template.phases]
    assert FakeClock().now() == START
