"""What a revert means for the units: marked as not done any more, and their containers told.

Everything here runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sf.domain import decide
from sf.domain.clock import Instant
from sf.domain.phases import Phase
from sf.domain.units import BLOCKER_EVENT, HoldKind, Unit
from sf.harness import lifecycle
from sf.harness.rules import Rules
from sf.store import blockers, records, relations, sessions, units
from sf.store.tx import Tx

BY = "/sf revert"
_BEFORE_CHILDREN = frozenset({Phase.RESEARCH, Phase.PLAN, Phase.REASSESS})


class Reverted(msgspec.Struct, frozen=True):
    """A commit that was undone, and the one that undid it; None when its change was gone already."""

    commit: str
    subject: str
    by: str | None


def affected(tx: Tx, unit: Unit) -> list[Unit]:
    """The units that a revert of this one marks: itself if it has ended, and what succeeded below it."""
    own = [unit] if unit.terminal and unit.reverted_at is None else []
    return own + [below for below in relations.below(tx, unit.id) if below.succeeded]


def record(
    tx: Tx, unit: Unit, reverted: Sequence[Reverted], tree: str, rules: Rules, now: Instant
) -> list[str]:
    """Record that a unit's commits were reverted; the ids that are marked."""
    marked = affected(tx, unit)
    for item in marked:
        units.set_reverted(tx, item.id, now)
        told = f"{item.id} ({item.title}), which this work builds on, was reverted: it is not there any more."
        lifecycle.tell_dependents(tx, item.id, told, now)
    for step in reverted:
        told = f"reverted {step.commit[:12]} {step.subject}" + ("" if step.by else " (it was undone already)")
        records.add_evidence(tx, unit.id, "", "revert", told, now, tree=tree, commit=step.by)
    for item in (units.get(tx, unit.id), *relations.below(tx, unit.id)):
        if item.hold_kind is HoldKind.MERGE_CONFLICT:
            lifecycle.release(tx, item.id, BY, now)
        blockers.resolve_event(tx, BLOCKER_EVENT[HoldKind.MERGE_CONFLICT], BY, now, item.id)
    _reconsider(tx, unit, rules, now)
    return [item.id for item in marked]


def _reconsider(tx: Tx, unit: Unit, rules: Rules, now: Instant) -> None:
    """Tell the open container that work it counted on is gone; past its children's time it is reassessed.

    One that still has open children is reassessed when the last of them closes.
    """
    container = _open_container(tx, unit)
    if container is None:
        return
    told = f"{unit.id} ({unit.title}) was reverted by the operator: its work is not on the branch any more."
    if container.open_children or container.phase in _BEFORE_CHILDREN:
        records.give_feedback(tx, container.id, told, now)
        return
    workflow = sessions.pinned(tx, container.workflow_hash)
    move = decide.reassess("child_abandoned", feedback=told)
    lifecycle.apply(tx, container, move, workflow, rules, now, by=BY)


def _open_container(tx: Tx, unit: Unit) -> Unit | None:
    found: Unit | None = units.get(tx, unit.id)
    while found is not None and found.terminal:
        found = units.get(tx, found.parent_id) if found.parent_id else None
    return found
