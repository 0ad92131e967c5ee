"""Every change of phase: one function, one transaction with its record, announced after the commit."""

from __future__ import annotations

import msgspec

from sf.domain import events, moves
from sf.domain.clock import Instant
from sf.domain.phases import Phase
from sf.domain.units import Unit
from sf.domain.workflows import Workflow
from sf.errors import InvalidTransition
from sf.store import relations, units
from sf.store.tx import Tx


def transition(tx: Tx, unit: Unit, to: Phase, reason: str, workflow: Workflow, now: Instant) -> Unit:
    """Move a unit to another phase. Raises InvalidTransition and writes nothing if that is not permitted."""
    moves.require(workflow, unit.phase, to)
    if not units.write_phase(tx, unit, to, reason, now):
        raise InvalidTransition(f"{unit.id} is no longer in {unit.phase}")
    if unit.type != "task":
        relations.ready_children(tx, unit.id, is_ready=to is Phase.EXECUTE)
    tx.announce(
        events.Event(
            events.PHASE_CHANGE,
            now,
            unit.id,
            {
                "from": unit.phase.value,
                "to": to.value,
                "reason": reason,
                "title": unit.title,
                "type": unit.type,
            },
        )
    )
    return msgspec.structs.replace(unit, phase=to)
