"""How units hang together: containers and children, the lanes of a slice, and who waits for whom."""

from __future__ import annotations

import msgspec

from sf.domain.clock import Instant
from sf.domain.units import Unit
from sf.store import sql, units
from sf.store.tx import Tx

_Q = sql.load("relations")


def children(tx: Tx, unit_id: str) -> list[Unit]:
    """The unit's children, oldest first, superseded ones too."""
    return [units.unit_of(row) for row in tx.all(_Q["children"], id=unit_id)]


def below(tx: Tx, unit_id: str) -> list[Unit]:
    """Everything below the unit, superseded ones too; parents before their children."""
    found = []
    for child in children(tx, unit_id):
        found += [child, *below(tx, child.id)]
    return found


def count_children(tx: Tx, unit_id: str) -> int:
    """How many children the unit has ever had."""
    row = tx.one(_Q["count_children"], id=unit_id)
    return int(row["n"]) if row else 0


def add_children(tx: Tx, unit_id: str, number: int, now: Instant) -> None:
    """Count open children up or down."""
    tx.run(_Q["add_children"], id=unit_id, n=number, now=now)


def ready_children(tx: Tx, unit_id: str, *, is_ready: bool) -> None:
    """Tell the children whether their container is in execute."""
    tx.run(_Q["ready_children"], id=unit_id, ready=int(is_ready))


def take_lane(tx: Tx, task: Unit) -> None:
    """Make a task the owner of its slice's worktree, unless another one is."""
    if task.in_slice and tx.run(_Q["take_lane"], slice=task.parent_id, task=task.id) == 1:
        tx.run(_Q["close_lane"], slice=task.parent_id, task=task.id)


def free_lane(tx: Tx, task: Unit) -> None:
    """Let the siblings of a task use the worktree, if this task owned it."""
    if task.in_slice and tx.run(_Q["free_lane"], slice=task.parent_id, task=task.id) == 1:
        tx.run(_Q["open_lane"], slice=task.parent_id)


def lane_owner(tx: Tx, slice_id: str) -> str | None:
    """The task that owns the slice's worktree, if one does."""
    row = tx.one(_Q["lane_owner"], id=slice_id)
    return row["lane_owner"] if row else None


class Ties(msgspec.Struct, frozen=True):
    """How many rows of others hang on a unit."""

    questions: int
    """Open questions and blockers of its own."""
    dependents: int
    """Units that wait for it, or waited."""


def ties(tx: Tx, unit_id: str) -> Ties:
    """What hangs on a unit, in one look."""
    row = tx.one(_Q["ties"], id=unit_id)
    assert row is not None
    return Ties(row["questions"], row["dependents"])


def downstream(tx: Tx, unit_id: str) -> list[str]:
    """The ids of the units that wait for this one."""
    return [row["id"] for row in tx.all(_Q["downstream"], id=unit_id)]


def upstream(tx: Tx, unit_id: str) -> list[Unit]:
    """Units that this one waits for, or waited for."""
    return [units.unit_of(row) for row in tx.all(_Q["upstream"], id=unit_id)]


def unblock(tx: Tx, unit_id: str, now: Instant) -> None:
    """One of the unit's blockers is terminal now."""
    tx.run(_Q["unblock"], id=unit_id, now=now)


def forget_blockers(tx: Tx, unit_id: str) -> None:
    """The operator overrides what the unit waits for, for good."""
    tx.run(_Q["forget_blockers"], id=unit_id)
    tx.run(_Q["no_blockers"], id=unit_id)
