"""Every change of phase: one function, one transaction with its record, announced after the commit."""

from __future__ import annotations

from itertools import pairwise

from sf.domain import decide, events, moves
from sf.domain.clock import Instant
from sf.domain.decide import Move
from sf.domain.phases import Phase
from sf.domain.units import Unit
from sf.domain.workflows import Workflow
from sf.errors import InvalidTransition
from sf.store import relations, units
from sf.store.tx import Tx


def transition(tx: Tx, unit: Unit, move: Move, workflow: Workflow, now: Instant) -> Unit:
    """Take a unit through the steps of a move, a record for each, to where it stands then.

    The unit is given as this transaction has read it.
    Raises InvalidTransition and writes nothing if a step is not permitted, or the unit is elsewhere by now.
    """
    phases = (unit.phase, *(step.to for step in move.steps))
    for origin, to in pairwise(phases):
        moves.require(workflow, origin, to)
    settled = decide.settled(unit, move, now)
    if not units.settle(tx, unit.phase, settled):
        raise InvalidTransition(f"{unit.id} is no longer in {unit.phase}")
    for origin, step in zip(phases[:-1], move.steps, strict=True):
        _record(tx, unit, origin, step.to, step.reason, now)
    if move.steps and unit.type != "task":
        relations.ready_children(tx, unit.id, is_ready=settled.phase is Phase.EXECUTE)
    return settled


def _record(tx: Tx, unit: Unit, origin: Phase, to: Phase, reason: str, now: Instant) -> None:
    units.record_transition(tx, unit.id, origin, to, reason, now)
    tx.announce(
        events.Event(
            events.PHASE_CHANGE,
            now,
            unit.id,
            {
                "from": origin.value,
                "to": to.value,
                "reason": reason,
                "title": unit.title,
                "type": unit.type,
            },
        )
    )
