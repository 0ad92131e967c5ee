"""What follows from how a run ended: `(unit, outcome, counters, limits) -> Move`.

Pure. `harness.settle` reads the counters, asks here, and writes the move in one transaction.
"""

from __future__ import annotations

from typing import Any, Literal, assert_never

import msgspec

from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.facts import Facts, applies
from sf.domain.limits import Limits, backoff_ms, outage_ms
from sf.domain.phases import Phase
from sf.domain.units import HoldKind, Status, Unit, Verdict
from sf.domain.workflows import Workflow

CounterKind = Literal["tries", "gate", "fixes", "conflicts", "replans", "interruptions", "waits"]
Reason = Literal[
    "gate_exhausted",
    "tries_exhausted",
    "fixes_exhausted",
    "giving_up",
    "fail_phase",
    "merge_conflict",
    "uat_rejected",
    "child_abandoned",
    "stale",
    "supervisor",
]


PASSED = "passed: does not apply"
"""The reason of a step into a phase that the harness passes."""


class Counter(msgspec.Struct, frozen=True):
    """One counter of a unit: what is counted, and for which phase or gate."""

    kind: CounterKind
    key: str = ""


class Step(msgspec.Struct, frozen=True):
    """One change of phase."""

    to: Phase
    reason: str


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that changes for the unit."""

    status: Status
    steps: tuple[Step, ...] = ()
    delay_ms: int | None = None
    hold: HoldKind | None = None
    hold_detail: str = ""
    hold_data: dict[str, Any] = {}
    """What the one who looks at the hold again must know."""
    raised: Counter | None = None
    cleared: CounterKind | None = None
    returns_run: bool = False
    """The run does not count against those that the unit may have."""
    feedback: str = ""
    replan: bool = False
    verdict: Verdict | None = None
    reassess_reason: Reason | None = None


def settled(unit: Unit, move: Move, now: Instant) -> Unit:
    """The unit as it stands after a move, with no claim; one that has ended is archived."""
    phase = move.steps[-1].to if move.steps else unit.phase
    has_ended = phase is Phase.COMPLETE or move.status is Status.CANCELED
    return msgspec.structs.replace(
        unit,
        phase=phase,
        status=move.status,
        due_at=Instant(now + move.delay_ms) if move.delay_ms is not None else None,
        hold_kind=move.hold,
        hold_detail=move.hold_detail,
        verdict=move.verdict or unit.verdict,
        reassess_reason=move.reassess_reason or unit.reassess_reason,
        plan_version=unit.plan_version + move.replan,
        claim_holder=None,
        claim_until=None,
        archived_at=now if has_ended else unit.archived_at,
        updated_at=now,
    )


UNCOUNTED = (o.Done, o.Planned, o.Interrupted, o.CalledOff)
"""Outcomes of which no counter is asked."""


class Counts(msgspec.Struct, frozen=True):
    """The counters of the unit's current plan_version, before this outcome."""

    tries: int = 0
    gate: int = 0
    fixes: int = 0
    conflicts: int = 0
    replans: int = 0
    interruptions: int = 0
    waits: int = 0


def forward(unit: Unit, workflow: Workflow, facts: Facts, reason: str) -> Move:
    """To the next phase that applies; what does not apply is passed, one step each."""
    steps = []
    phase = workflow.after(unit.phase)
    while phase is not Phase.COMPLETE and not applies(phase, unit, facts):
        steps.append(Step(phase, PASSED))
        phase = workflow.after(phase)
    move = _arrive((*steps, Step(phase, reason)))
    if unit.phase is Phase.VERIFY and phase is not Phase.COMPLETE and not _merges(unit, workflow, facts):
        return msgspec.structs.replace(move, cleared="gate")
    return move


def _merges(unit: Unit, workflow: Workflow, facts: Facts) -> bool:
    """Whether gates judge this unit once more after verify."""
    return workflow.has(Phase.MERGE) and applies(Phase.MERGE, unit, facts)


def arrive(unit: Unit, workflow: Workflow, facts: Facts) -> Move | None:
    """Pass the phase that a unit stands in, if it does not apply; None when it does."""
    if applies(unit.phase, unit, facts):
        return None
    return forward(unit, workflow, facts, "begins")


def _arrive(steps: tuple[Step, ...]) -> Move:
    last = steps[-1].to
    if last is Phase.COMPLETE:
        return Move(status=Status.SUCCEEDED, steps=steps, verdict="success")
    if last is Phase.UAT:
        return Move(status=Status.PENDING, steps=steps, hold=HoldKind.UAT, hold_detail="waits for acceptance")
    return Move(status=Status.PENDING, steps=steps)


def back(to: Phase, reason: str, *, raised: Counter | None = None, feedback: str = "") -> Move:
    """Back to an earlier phase with a finding."""
    return Move(status=Status.PENDING, steps=(Step(to, reason),), raised=raised, feedback=feedback)


def reassess(reason: Reason, *, raised: Counter | None = None, feedback: str = "") -> Move:
    """Into reassess with a typed reason."""
    return Move(
        status=Status.PENDING,
        steps=(Step(Phase.REASSESS, reason),),
        raised=raised,
        feedback=feedback,
        reassess_reason=reason,
    )


def replan(unit: Unit, workflow: Workflow, feedback: str, *, counted: bool) -> Move:
    """From reassess to plan under a new plan_version; an operator's answer is not counted."""
    return Move(
        status=Status.PENDING,
        steps=(Step(workflow.at_or_after(Phase.PLAN), "replan" if counted else "answered"),),
        raised=Counter("replans") if counted else None,
        feedback=feedback,
        replan=True,
    )


def decide(
    unit: Unit, outcome: o.AnyOutcome, counts: Counts, limits: Limits, workflow: Workflow, facts: Facts
) -> Move:
    """The move that follows from the outcome of a run."""
    match outcome:
        case o.Done(note=note):
            return forward(unit, workflow, facts, note or "done")
        case o.Planned():
            return forward(unit, workflow, msgspec.structs.replace(facts, plan_complete=True), "planned")
        case o.GateFailed():
            return _gate_failed(outcome, counts, limits)
        case o.ChangesWanted(findings=findings, reason=why):
            counter = Counter("fixes")
            if counts.fixes + 1 >= limits.max_fix_attempts:
                return reassess("fixes_exhausted", raised=counter, feedback=findings)
            return back(Phase.EXECUTE, why, raised=counter, feedback=findings)
        case o.Conflict(detail=detail):
            counter = Counter("conflicts")
            if counts.conflicts + 1 >= limits.max_conflicts:
                return Move(
                    status=Status.PENDING, hold=HoldKind.MERGE_CONFLICT, hold_detail=detail, raised=counter
                )
            return back(Phase.EXECUTE, "merge conflict", raised=counter, feedback=detail)
        case o.Failed():
            return _failed(unit, outcome, counts, limits)
        case o.Interrupted() | o.Unconfigured():
            return Move(status=Status.INTERRUPTED)
        case o.Crashed():
            return _crashed(unit, counts, limits)
        case o.Waiting():
            return _waits(outcome, counts, limits)
        case o.CalledOff():
            return Move(status=Status.CANCELED)
        case o.AskedHuman(question=question):
            return _hold(HoldKind.BLOCKED, question)
        case o.GaveUp(reason=text) | o.WentStale(detail=text):
            reason: Reason = "giving_up" if isinstance(outcome, o.GaveUp) else "stale"
            return _stuck(unit, reason, text, counts, limits)
        case o.Overspent():
            return _overspent(outcome)
        case o.Reassessed():
            return _reassessed(unit, outcome, counts, limits, workflow)
        case o.Held():
            return _held(outcome, counts, limits)
        case _:
            assert_never(outcome)


def _gate_failed(outcome: o.GateFailed, counts: Counts, limits: Limits) -> Move:
    counter = Counter("gate", outcome.gate)
    text = f"gate {outcome.gate} failed:\n{outcome.output}"
    limit = limits.max_retries if outcome.limit is None else outcome.limit
    if outcome.final or counts.gate + 1 >= max(1, limit):
        return reassess("gate_exhausted", raised=counter, feedback=text)
    return back(Phase.EXECUTE, f"gate {outcome.gate} failed", raised=counter, feedback=text)


def _failed(unit: Unit, outcome: o.Failed, counts: Counts, limits: Limits) -> Move:
    counter = Counter("tries", unit.phase)
    text = f"{outcome.code}: {outcome.message}"
    tries = counts.tries + 1
    if tries < limits.max_attempts:
        return Move(status=Status.FAILED, delay_ms=backoff_ms(tries, limits), raised=counter, feedback=text)
    if unit.phase is Phase.REASSESS:
        return Move(
            status=Status.PENDING, hold=HoldKind.ESCALATED, hold_detail=text, raised=counter, feedback=text
        )
    return reassess("tries_exhausted", raised=counter, feedback=text)


def _stuck(unit: Unit, reason: Reason, text: str, counts: Counts, limits: Limits) -> Move:
    """An agent that gets nowhere: to reassess, where it is already there a try."""
    if unit.phase is Phase.REASSESS:
        return _failed(unit, o.Failed(reason, text), counts, limits)
    return reassess(reason, feedback=text)


def _overspent(outcome: o.Overspent) -> Move:
    """Out of the session's money, the loop itself stops; a smaller scope parks the unit that asked."""
    if outcome.scope == "session":
        return Move(status=Status.INTERRUPTED)
    data = {
        "scope": outcome.scope,
        "key": outcome.key,
        "wanted": outcome.wanted,
        "terms": list(outcome.terms),
    }
    return Move(status=Status.PENDING, hold=HoldKind.BUDGET, hold_detail=outcome.detail, hold_data=data)


def _waits(outcome: o.Waiting, counts: Counts, limits: Limits) -> Move:
    """Until it may go better."""
    named = outcome.seconds
    delay = outage_ms(outcome.times, limits) if named is None else max(1, int(named * 1000))
    move = Move(status=Status.PENDING, delay_ms=delay)
    return _given_back(move, counts, limits) if outcome.unanswered else move


def _held(outcome: o.Held, counts: Counts, limits: Limits) -> Move:
    """Parked. A run that a person's checkout kept from landing has done nothing, and may be one of many."""
    move = _hold(outcome.kind, outcome.detail, outcome.data)
    return _given_back(move, counts, limits) if outcome.kind is HoldKind.CHECKOUT_DIRTY else move


def _given_back(move: Move, counts: Counts, limits: Limits) -> Move:
    """The move after a run in which nothing was done: it is given back, but not for ever."""
    if counts.waits >= limits.max_waits:
        return move
    return msgspec.structs.replace(move, raised=Counter("waits"), returns_run=True)


def _crashed(unit: Unit, counts: Counts, limits: Limits) -> Move:
    counter = Counter("interruptions", unit.phase)
    times = counts.interruptions + 1
    if times >= limits.max_interruptions:
        return Move(
            status=Status.INTERRUPTED,
            hold=HoldKind.CRASH_LOOP,
            hold_detail=f"sf died {times} times during {unit.phase}",
            raised=counter,
        )
    return Move(status=Status.INTERRUPTED, raised=counter, feedback="resumed_after_crash")


def _reassessed(
    unit: Unit, outcome: o.Reassessed, counts: Counts, limits: Limits, workflow: Workflow
) -> Move:
    match outcome.verdict:
        case "replan":
            if counts.replans >= limits.max_reassess:
                spent = f"re-planned {counts.replans} times already; only abandon or escalate are left"
                return _failed(unit, o.Failed("replans_exhausted", spent), counts, limits)
            return replan(unit, workflow, outcome.text, counted=True)
        case "abandon":
            return Move(
                status=Status.SUCCEEDED,
                steps=(Step(Phase.COMPLETE, "abandoned"),),
                verdict="abandoned",
                hold_detail=outcome.text,
            )
        case "escalate":
            return _hold(HoldKind.ESCALATED, outcome.text)
        case _:
            assert_never(outcome.verdict)


def _hold(kind: HoldKind, detail: str, data: dict[str, Any] | None = None) -> Move:
    return Move(status=Status.PENDING, hold=kind, hold_detail=detail, hold_data=data or {})
