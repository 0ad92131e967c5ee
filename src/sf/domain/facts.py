"""What the rules must know about a unit's surroundings to say which phases apply to it."""

from __future__ import annotations

from typing import Literal

import msgspec

from sf.domain.phases import Phase
from sf.domain.units import Unit

WorktreeMode = Literal["branch-per-slice", "milestone-per-worktree"]


class Facts(msgspec.Struct, frozen=True):
    """The surroundings of one unit at the moment of a decision."""

    mode: WorktreeMode = "branch-per-slice"
    has_children: bool = False
    plan_complete: bool = False
    """The unit came with a plan of its own: deliverables and verification are known."""
    planned_above: bool = False
    """The unit came out of its container's plan, and so inherits its research."""
    gates: tuple[str, ...] = ()
    """The gates that `verify` would run for it."""


def applies(phase: Phase, unit: Unit, facts: Facts) -> bool:
    """Whether work is done for this unit in this phase; otherwise the harness passes it."""
    match unit.type, phase:
        case (_, Phase.EXECUTE | Phase.COMPLETE | Phase.REASSESS):
            return True
        case ("task", Phase.RESEARCH):
            return not facts.planned_above
        case ("task", Phase.PLAN):
            return not (facts.plan_complete and unit.plan_version == 1)
        case ("task", Phase.TDD):
            return True
        case ("task", Phase.REVIEW | Phase.UAT):
            return not unit.in_slice
        case ("slice", Phase.RESEARCH | Phase.TDD):
            return False
        case ("slice", Phase.PLAN):
            return not facts.has_children or unit.plan_version > 1
        case ("slice", Phase.MERGE):
            return facts.mode == "branch-per-slice"
        case ("milestone", Phase.TDD | Phase.REVIEW):
            return False
        case ("milestone", Phase.MERGE):
            return facts.mode == "milestone-per-worktree"
        case (_, Phase.VERIFY):
            return bool(facts.gates)
        case _:
            return True
