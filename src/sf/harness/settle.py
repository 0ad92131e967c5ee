"""The end of a run: its outcome becomes a move, and both are written in one transaction under the lease."""

from __future__ import annotations

from typing import assert_never

import msgspec

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.decide import UNCOUNTED, Counts, decide
from sf.domain.phases import Phase
from sf.domain.runs import AttemptState, Lease, RunOutcome, ending_of
from sf.domain.units import Status, Unit
from sf.harness import lessons, lifecycle, planting
from sf.harness.rules import Rules
from sf.store import leases, ledger, records, runs, sessions, spending, units
from sf.store.tx import Tx

_UNREAD = (o.Failed, o.Interrupted, o.Waiting, o.Crashed, o.Unconfigured, o.AskedHuman, o.Overspent)
"""Outcomes after which what the run was told must be told again."""


class Ending(msgspec.Struct, frozen=True):
    """What a run leaves behind besides its outcome."""

    tree: str | None = None
    feedback_read: str = ""
    """The id of the last feedback that the run was shown."""


def settle(tx: Tx, lease: Lease, outcome: o.AnyOutcome, ending: Ending, rules: Rules, now: Instant) -> Unit:
    """End the run and move its unit. Raises LeaseLost, writing nothing, when the claim has ended."""
    unit = leases.leased(tx, lease)
    # What has landed has landed, even if it was called off while the branch moved.
    called_off = unit.status is Status.CANCELED and not (
        unit.phase is Phase.MERGE and isinstance(outcome, o.Done)
    )
    if called_off:
        outcome = outcome if isinstance(outcome, o.CalledOff) else o.CalledOff("canceled_by_operator")
    spending.settle_open(tx, lease.run_id, "crashed" if isinstance(outcome, o.Crashed) else "cut", now)
    _finish(tx, lease, outcome, ending, now)
    if called_off:
        leases.release_claim(tx, unit.id)
        lifecycle.closed(tx, unit, rules, now)
        return units.get(tx, unit.id)
    if not isinstance(outcome, _UNREAD):
        records.mark_read(tx, unit.id, ending.feedback_read, lease.run_id)
    if isinstance(outcome, o.Waiting):
        outcome = msgspec.structs.replace(
            outcome,
            unanswered=not spending.booked(tx, lease.run_id),
            times=runs.in_a_row(tx, unit.id, outcome.code),
        )
    if isinstance(outcome, o.Overspent):
        outcome = msgspec.structs.replace(outcome, wanted=wanted_anew(tx, lease, outcome))
    workflow = sessions.pinned(tx, unit.workflow_hash)
    gate = outcome.gate if isinstance(outcome, o.GateFailed) else ""
    counts = Counts() if isinstance(outcome, UNCOUNTED) else ledger.counts(tx, unit, gate)
    move = decide(unit, outcome, counts, rules.limits(workflow), workflow, rules.facts(tx, unit))
    if isinstance(outcome, o.GateFailed):
        lessons.mistake_made(tx, unit, outcome, rules, now)
    if isinstance(outcome, o.Planned):
        units.set_plan(tx, unit.id, outcome.plan, now)
        planting.plant_plan(tx, unit, outcome.plan, workflow, rules, now)
        unit = units.get(tx, unit.id)
    settled = lifecycle.apply(tx, unit, move, workflow, rules, now)
    if move.delay_ms:
        tx.announce(events.Event(events.DELAYED, now, unit.id, {"due_in_ms": move.delay_ms}))
    if unit.type == "milestone" and move.feedback and move.steps and move.steps[-1].to is Phase.EXECUTE:
        planting.plant_fix(tx, settled, move.steps[-1].reason, move.feedback, workflow, rules, now)
        return units.get(tx, unit.id)
    return settled


def wanted_anew(tx: Tx, lease: Lease, refused: o.Overspent) -> int:
    """What a run that begins anew may need to come as far as one that was refused, and one step on.

    With room for the step alone it would be refused before it, over and over, for money.
    """
    run = runs.get(tx, lease.run_id)
    return refused.wanted + (run.cost_micro_usd if run is not None else 0)


def _finish(tx: Tx, lease: Lease, outcome: o.AnyOutcome, ending: Ending, now: Instant) -> None:
    result, state, code, detail = _recorded(outcome)
    runs.finish(
        tx,
        lease.run_id,
        outcome=result,
        state=state,
        now=now,
        error_code=code,
        detail=detail,
        tree=ending.tree,
    )
    tx.announce(
        events.Event(
            events.RUN_ENDED,
            now,
            lease.unit_id,
            {"run_id": lease.run_id, "outcome": result.value, "error_code": code, "detail": detail[:500]},
        )
    )


def _recorded(outcome: o.AnyOutcome) -> tuple[RunOutcome, AttemptState, str | None, str]:
    success = (RunOutcome.SUCCESS, AttemptState.SUCCEEDED)
    match outcome:
        case o.Done(note=note):
            return *success, None, note
        case o.Planned(plan=plan):
            return *success, None, plan.goal
        case o.Reassessed(verdict=verdict, text=text):
            return *success, None, f"{verdict}: {text}"
        case o.AskedHuman(question=question):
            return *success, "question", question
        case o.GaveUp(reason=reason):
            return RunOutcome.FAILURE, AttemptState.FAILED, "giving_up", reason
        case o.WentStale(detail=detail):
            return RunOutcome.FAILURE, AttemptState.FAILED, "stale", detail
        case o.GateFailed(gate=gate, code=code, output=output):
            return RunOutcome.FAILURE, AttemptState.FAILED, code, f"{gate}: {output}"
        case o.ChangesWanted(findings=findings):
            return *success, "changes_wanted", findings
        case o.Conflict(detail=detail):
            return RunOutcome.FAILURE, AttemptState.FAILED, "merge_conflict", detail
        case o.Failed(code=code, message=message):
            return *ending_of(code), code, message
        case o.Interrupted(code=code):
            return RunOutcome.INTERRUPTED, AttemptState.FAILED, code, ""
        case o.Crashed():
            return RunOutcome.INTERRUPTED, AttemptState.FAILED, "resumed_after_crash", ""
        case o.Unconfigured(code=code, message=message):
            return RunOutcome.INTERRUPTED, AttemptState.FAILED, code, message
        case o.Waiting(message=message, code=code):
            return RunOutcome.INTERRUPTED, AttemptState.FAILED, code, message
        case o.Overspent(detail=detail):
            return RunOutcome.INTERRUPTED, AttemptState.FAILED, "budget_reached", detail
        case o.CalledOff(code=code):
            return RunOutcome.CANCELED, AttemptState.CANCELED, code, ""
        case o.Held(kind=kind, detail=detail):
            return RunOutcome.FAILURE, AttemptState.FAILED, kind.value, detail
        case _:
            assert_never(outcome)
