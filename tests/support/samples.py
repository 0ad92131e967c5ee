"""Small builders of domain data."""

from __future__ import annotations

from typing import Any

from sf.app.templates import BUILT_IN
from sf.domain.clock import Instant
from sf.domain.phases import Phase
from sf.domain.plans import Plan, SliceEntry, TaskEntry
from sf.domain.units import Status, Unit
from sf.domain.workflows import Workflow, parse
from sf.testing.clock import START

WORKFLOWS: dict[str, Workflow] = {name: parse(text, name) for name, text in BUILT_IN.items()}


def unit(**changes: Any) -> Unit:
    """A pending ad-hoc task in research, with the given fields changed."""
    values: dict[str, Any] = {
        "id": "task/a1",
        "session_id": "session",
        "type": "task",
        "workflow": "feature",
        "workflow_hash": "hash",
        "phase": Phase.RESEARCH,
        "status": Status.PENDING,
        "title": "a task",
        "created_at": Instant(START),
        "updated_at": Instant(START),
    }
    return Unit(**{**values, **changes})


def task(title: str, *blocked_by: str, complete: bool = True) -> TaskEntry:
    """A task of a plan; one that is not complete must plan for itself."""
    return TaskEntry(
        title=title,
        description=f"do {title}",
        deliverables=("it works",) if complete else (),
        verification=("the tests pass",) if complete else (),
        blocked_by=blocked_by,
    )


def piece(title: str, *tasks: TaskEntry, after: tuple[str, ...] = ()) -> SliceEntry:
    """A slice of a plan."""
    return SliceEntry(title=title, tasks=tasks or (task(f"{title} task"),), code_depends_on=after)


def milestone_plan(*slices: SliceEntry) -> Plan:
    """A milestone's plan."""
    return Plan(goal="the goal", deliverables=("it is there",), slices=slices)


def slice_plan(*tasks: TaskEntry) -> Plan:
    """A slice's plan."""
    return Plan(goal="the slice", deliverables=("it is there",), tasks=tasks)


def task_plan() -> Plan:
    """A task's plan."""
    return Plan(goal="the task", deliverables=("it is there",), verification=("tests",))
