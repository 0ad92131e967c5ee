"""Where a unit may write, by its plan or its tasks' plans."""

from __future__ import annotations

import msgspec

from sf.domain.units import Unit
from sf.store import relations
from sf.store.tx import Tx


class Areas(msgspec.Struct, frozen=True):
    """Where a task may write, and where it may not."""

    allowed: tuple[str, ...]
    forbidden: tuple[str, ...]

    @classmethod
    def of(cls, task: Unit) -> Areas:
        """The areas of a task's plan."""
        plan = task.plan or {}
        return cls(tuple(plan.get("allowed_areas", ())), tuple(plan.get("forbidden_areas", ())))


def area_sets(tx: Tx, unit: Unit) -> list[Areas]:
    """The areas that bind a unit: its own plan's, or those of each task that its present plan kept.

    What a container's own run changes must be lawful for at least one of its tasks.
    """
    if unit.type == "task":
        return [Areas.of(unit)]
    kept = [task for task in _tasks(tx, unit) if task.succeeded or not task.terminal]
    return [Areas.of(task) for task in kept] or [Areas((), ())]


def allowed_in_all(sets: list[Areas]) -> tuple[str, ...]:
    """The areas of all sets; none when one of them is not bounded."""
    if not all(each.allowed for each in sets):
        return ()
    return tuple(dict.fromkeys(area for each in sets for area in each.allowed))


def _tasks(tx: Tx, unit: Unit) -> list[Unit]:
    """The tasks below a container."""
    found = []
    for child in relations.children(tx, unit.id):
        found += [child] if child.type == "task" else _tasks(tx, child)
    return found
