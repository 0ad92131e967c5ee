"""Putting rows right that break an invariant: each repair once, until none is left that a rule names."""

from __future__ import annotations

from collections import Counter
from typing import Any, assert_never

from sf.domain import invariants as i
from sf.domain.clock import Instant
from sf.domain.decide import Move, settled
from sf.domain.runs import AttemptState, RunOutcome
from sf.domain.units import BLOCKER_EVENT, HoldKind, Status, Unit
from sf.harness import lifecycle
from sf.harness.rules import Rules
from sf.store import attention, blockers, invariants, relations, runs, spending, units
from sf.store.tx import Tx

_TIMES = 50
"""After so many repairs of one subject its rules contradict each other: the rest is a person's to say."""
_BY = "/sf doctor"


def mend(tx: Tx, rules: Rules, now: Instant) -> list[i.Fault]:
    """Repair every fault that has a repair; those that were, in order. Nobody else may hold a claim.

    What one repair sets off, such as a container that moves on, is looked at again: so only the first
    fault of a look that concerns a unit is acted on.
    """
    done: list[i.Fault] = []
    times: Counter[str] = Counter()
    while True:
        found = [fault for fault in i.faults(invariants.books(tx, now)) if times[fault.subject] < _TIMES]
        seen: set[str] = set()
        for fault in found:
            if fault.repair is not None and fault.subject not in seen:
                seen.add(fault.subject)
                done.append(fault)
                if _apply(tx, fault.repair, rules, now):
                    break
        if not seen:
            return done
        times.update(seen)


def _apply(tx: Tx, repair: i.Repair, rules: Rules, now: Instant) -> bool:
    """Whether rows of other units may have changed, so that what was found about them is old."""
    match repair:
        case i.SetColumn():
            invariants.set_column(tx, repair)
            return _follow(tx, repair, rules, now)
        case i.Interrupt(unit_id=unit_id):
            for run in invariants.books(tx).live:
                if run.unit_id == unit_id:
                    _end(tx, run.id, now)
            unit = units.get(tx, unit_id)
            units.settle(tx, unit.phase, settled(unit, Move(status=Status.INTERRUPTED), now))
        case i.EndRun(run_id=run_id):
            _end(tx, run_id, now)
        case i.Close(unit_id=unit_id):
            lifecycle.closed(tx, units.get(tx, unit_id), rules, now)
            return True
        case i.Ask():
            _ask(tx, repair, rules, now)
        case i.Withdraw(kind="blocker", id=blocker_id):
            blockers.resolve(tx, blocker_id, _BY, now)
        case i.Withdraw(id=question_id):
            attention.close(tx, question_id, "", _BY, now)
        case i.SetBalance():
            invariants.set_balance(tx, repair)
        case i.Settle(run_id=run_id):
            spending.settle_open(tx, run_id, "crashed", now)
        case _:
            assert_never(repair)
    return False


def _follow(tx: Tx, repair: i.SetColumn, rules: Rules, now: Instant) -> bool:
    """A count that is nothing after all lets its unit go on, as it would have when the last one ended."""
    if repair.column == "archived_at":
        # Who counts it, or waits for it, was found wrong for that alone.
        return True
    if repair.value != 0 or repair.column not in ("open_children", "open_blockers"):
        return False
    before = units.get(tx, repair.unit_id)
    if repair.column == "open_blockers":
        lifecycle.arrived(tx, repair.unit_id, rules, now)
    elif _waited_for_children(tx, before):
        lifecycle.advance_container(tx, repair.unit_id, rules, now)
    return units.get(tx, repair.unit_id) != before


def _waited_for_children(tx: Tx, unit: Unit) -> bool:
    """Whether a child has ended since the unit came to where its children run.

    A task has none, and a slice that came back with a finding has work of its own to do: what nobody did is
    not done because a count was wrong.
    """
    if unit.status is Status.RUNNING:
        return False
    entered = [
        row["transitioned_at"] for row in units.transitions(tx, unit.id) if row["to_phase"] == "execute"
    ]
    ended = [child.archived_at for child in relations.children(tx, unit.id) if child.archived_at is not None]
    return bool(entered and ended) and max(ended) >= max(entered)


def _end(tx: Tx, run_id: str, now: Instant) -> None:
    spending.settle_open(tx, run_id, "crashed", now)
    runs.finish(
        tx,
        run_id,
        outcome=RunOutcome.INTERRUPTED,
        state=AttemptState.FAILED,
        error_code="resumed_after_crash",
        detail="ended by sf doctor fix: nothing carried it any more",
        now=now,
    )


def _ask(tx: Tx, repair: i.Ask, rules: Rules, now: Instant) -> None:
    unit = units.get(tx, repair.unit_id)
    assert unit.hold_kind is not None
    event = BLOCKER_EVENT[unit.hold_kind]
    blocker_id = next(
        (
            str(row["id"])
            for row in blockers.open_blockers(tx)
            if row["unit_id"] == unit.id and row["event"] == event
        ),
        None,
    )
    if repair.blocker:
        blocker_id = blockers.open_blocker(tx, unit.session_id, event, unit.id, unit.hold_detail, now)
    if repair.question:
        attention.ask(
            tx,
            unit.session_id,
            unit.hold_kind.value,
            unit.hold_detail,
            now,
            unit_id=unit.id,
            blocker_id=blocker_id,
            data=_data(tx, unit, unit.hold_kind, rules),
            patience=rules.patience.get(unit.hold_kind.value),
        )


def _data(tx: Tx, unit: Unit, kind: HoldKind, rules: Rules) -> dict[str, Any]:
    """What the lost question carried: as the last of its kind did, else the least that its answer needs."""
    last = attention.last(tx, unit.id, kind.value)
    if last is not None:
        return last.data
    if kind is HoldKind.BUDGET:
        return {"scope": "unit", "key": unit.id, "wanted": 1}
    return {"gates": list(rules.merge_gates(unit))} if kind is HoldKind.NO_EVIDENCE else {}
