"""The ten phases, their order, and which of them a model reasons in."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """A stage of a unit's life. Only `harness.transition` changes one."""

    # Equal to its name, so found by it as well; and quickly: the enum's own is a call of Python.
    __hash__ = str.__hash__

    RESEARCH = "research"
    PLAN = "plan"
    EXECUTE = "execute"
    TDD = "tdd"
    VERIFY = "verify"
    REVIEW = "review"
    UAT = "uat"
    MERGE = "merge"
    COMPLETE = "complete"
    REASSESS = "reassess"


FORWARD: tuple[Phase, ...] = (
    Phase.RESEARCH,
    Phase.PLAN,
    Phase.EXECUTE,
    Phase.TDD,
    Phase.VERIFY,
    Phase.REVIEW,
    Phase.UAT,
    Phase.MERGE,
    Phase.COMPLETE,
)
"""The order in which a workflow may name phases; reassess is entered, never named."""

RANK: dict[Phase, int] = {phase: rank for rank, phase in enumerate((*FORWARD, Phase.REASSESS))}

DISPATCHED = (*FORWARD[:-1], Phase.REASSESS)
"""The phases that have runs."""

WRITING = frozenset({Phase.EXECUTE, Phase.TDD})
"""Phases in which the agent may change files."""
