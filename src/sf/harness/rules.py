"""What the configuration says about how units move, as the rules need it."""

from __future__ import annotations

import msgspec

from sf.domain.attention import Patience
from sf.domain.facts import Facts, WorktreeMode
from sf.domain.ids import UnitType
from sf.domain.limits import Limits
from sf.domain.spending import Caps
from sf.domain.units import Unit
from sf.domain.workflows import Workflow
from sf.store import relations
from sf.store.tx import Tx


class Rules(msgspec.Struct, frozen=True):
    """Limits, gates by level, and the worktree mode of this session."""

    mode: WorktreeMode = "branch-per-slice"
    base: Limits = Limits()
    post_task: tuple[str, ...] = ()
    post_slice: tuple[str, ...] = ()
    post_milestone: tuple[str, ...] = ()
    max_children: int = 50
    patience: dict[str, Patience] = {}
    """By kind of question: what is answered when nobody does, and when."""
    caps: Caps = Caps()
    bank: str = ""
    """The memory's bank of this project; empty when nothing is to be remembered."""

    def limits(self, workflow: Workflow) -> Limits:
        """The limits of a unit under its pinned workflow."""
        return msgspec.structs.replace(
            self.base,
            max_retries=workflow.max_retries,
            max_reassess=workflow.max_reassess,
            max_fix_attempts=workflow.max_fix_attempts,
        )

    def gates(self, unit: Unit) -> tuple[str, ...]:
        """The gate scripts of the unit's verify phase."""
        if unit.type == "task":
            return self.post_task if unit.in_slice else _joined(self.post_task, self.post_slice)
        return self.level(unit.type)

    def merge_gates(self, unit: Unit) -> tuple[str, ...]:
        """The gate scripts that the merged tree must pass before the integration branch moves."""
        if unit.type == "milestone":
            return _joined(self.post_slice, self.post_milestone)
        return self.gates(unit) if unit.type == "task" else self.post_slice

    def level(self, unit_type: UnitType) -> tuple[str, ...]:
        """The gates configured for one level."""
        return {"task": self.post_task, "slice": self.post_slice, "milestone": self.post_milestone}[unit_type]

    def facts(self, tx: Tx, unit: Unit) -> Facts:
        """The surroundings of a unit."""
        plan = unit.plan or {}
        return Facts(
            mode=unit.metadata.get("worktree_mode", self.mode),
            has_children=unit.type != "task" and relations.count_children(tx, unit.id) > 0,
            plan_complete=bool(plan.get("deliverables")) and bool(plan.get("verification")),
            planned_above=unit.parent_id is not None,
            gates=self.gates(unit),
        )


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
