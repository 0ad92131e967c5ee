"""The submit_* tools: structured answers. An accepted one ends the agent's run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypeVar

import msgspec

from sf.domain.plans import Plan, SliceEntry, TaskEntry
from sf.errors import Mistake
from sf.tools.base import Answer, Site, Tool, ToolResponse, failure

S = TypeVar("S", bound=msgspec.Struct)


class TaskPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task's plan."""

    goal: str
    approach: str
    deliverables: tuple[str, ...]
    verification: tuple[str, ...]
    allowed_areas: tuple[str, ...] = ()
    forbidden_areas: tuple[str, ...] = ()
    notes: str = ""

    def plan(self) -> Plan:
        """As a plan."""
        return Plan(**msgspec.structs.asdict(self))


class SlicePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A slice's plan: its tasks."""

    goal: str
    approach: str
    deliverables: tuple[str, ...]
    tasks: tuple[TaskEntry, ...]
    verification: tuple[str, ...] = ()
    notes: str = ""

    def plan(self) -> Plan:
        """As a plan."""
        return Plan(**{name: getattr(self, name) for name in self.__struct_fields__})


class MilestonePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A milestone's plan: its slices and their tasks."""

    goal: str
    approach: str
    deliverables: tuple[str, ...]
    slices: tuple[SliceEntry, ...]
    verification: tuple[str, ...] = ()
    notes: str = ""

    def plan(self) -> Plan:
        """As a plan."""
        return Plan(**{name: getattr(self, name) for name in self.__struct_fields__})


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing a reviewer found."""

    severity: Literal["blocker", "major", "minor"]
    file: str
    what: str
    fix: str = ""


class ReviewNotes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chunk's findings."""

    findings: tuple[Finding, ...]


class Synthesis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The review's verdict."""

    verdict: Literal["pass", "request_changes", "block"]
    summary: str
    findings: tuple[Finding, ...] = ()


class Reassessment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of a unit that is stuck."""

    outcome: Literal["replan", "abandon", "escalate"]
    explanation: str
    questions: tuple[str, ...] = ()


class Submit(Tool[S], Generic[S]):
    """A structured answer, checked before it is accepted."""

    needs = "submit"
    approval = "submit"

    def __init__(
        self, name: str, description: str, parameters: type[S], check: Callable[[S], None] | None = None
    ) -> None:
        self.name = name
        self.description = description
        self.parameters = parameters
        self._check = check

    async def run(self, site: Site, arguments: S) -> Answer:
        """Accept it, or say every rule that it breaks."""
        try:
            if self._check is not None:
                self._check(arguments)
        except Mistake as error:
            return failure(f"not accepted: {error.message}")
        return Answer(ToolResponse(True, "accepted"), submission=arguments)
