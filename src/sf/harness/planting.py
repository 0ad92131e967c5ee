"""Making units: milestones from goals, ad-hoc tasks from prompts, children from plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from sf.domain.clock import Instant
from sf.domain.ids import UnitType, child_id
from sf.domain.phases import Phase
from sf.domain.plans import Plan, SliceEntry, TaskEntry, plan_of_entry
from sf.domain.units import RESOLVES, Unit
from sf.domain.workflows import Workflow
from sf.harness import lifecycle
from sf.harness.rules import Rules
from sf.store import relations, sessions, units
from sf.store.tx import Tx

E = TypeVar("E", SliceEntry, TaskEntry)


def plant_goal(
    tx: Tx,
    rules: Rules,
    *,
    title: str,
    description: str,
    workflow: Workflow,
    content: str,
    session_id: str,
    now: Instant,
    adhoc: bool = False,
    priority: int | None = None,
    station: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> str:
    """A milestone for a goal, or one task with no slice for an ad-hoc prompt; its id."""
    digest = sessions.pin(tx, workflow, content, now)
    prefix = "task/a" if adhoc else "milestone/m"
    kind: UnitType = "task" if adhoc else "milestone"
    unit_id = f"{prefix}{units.next_number(tx, kind, prefix)}"
    units.insert(
        tx,
        unit_id=unit_id,
        unit_type=kind,
        session_id=session_id,
        workflow=workflow.name,
        workflow_hash=digest,
        phase=workflow.phases[0],
        title=title,
        description=description,
        priority=priority,
        station=station,
        metadata=metadata,
        run_allowance=rules.base.max_runs,
        now=now,
    )
    lifecycle.arrived(tx, unit_id, rules, now)
    return unit_id


def plant_plan(tx: Tx, container: Unit, plan: Plan, workflow: Workflow, rules: Rules, now: Instant) -> None:
    """Make the children that an accepted plan names; what an earlier plan left open is superseded."""
    for child in relations.children(tx, container.id):
        if not child.terminal:
            lifecycle.supersede(tx, child, rules, now)
    if container.type == "milestone":
        _plant_slices(tx, container, plan.slices, workflow, rules, now)
    elif container.type == "slice":
        _plant_tasks(tx, container, plan.tasks, workflow, rules, now)


def _plant_slices(
    tx: Tx, milestone: Unit, entries: Sequence[SliceEntry], workflow: Workflow, rules: Rules, now: Instant
) -> None:
    first = relations.count_children(tx, milestone.id) + 1
    ids = {entry.title: child_id(milestone.id, first + index) for index, entry in enumerate(entries)}
    before: list[str] = []
    for entry in _in_order(entries, lambda item: item.code_depends_on):
        needs = [ids[title] for title in dict.fromkeys(entry.code_depends_on)]
        if milestone.metadata.get("worktree_mode", rules.mode) == "milestone-per-worktree":
            # One worktree for all: slices follow each other.
            needs = list(dict.fromkeys([*needs, *before[-1:]]))
        before.append(ids[entry.title])
        _plant_child(
            tx, milestone, ids[entry.title], entry.title, entry.description, needs, workflow, rules, now
        )
        _plant_tasks(tx, units.get(tx, ids[entry.title]), entry.tasks, workflow, rules, now)
        lifecycle.arrived(tx, ids[entry.title], rules, now)


def _plant_tasks(
    tx: Tx, parent: Unit, entries: Sequence[TaskEntry], workflow: Workflow, rules: Rules, now: Instant
) -> None:
    first = relations.count_children(tx, parent.id) + 1
    ids = {entry.title: child_id(parent.id, first + index) for index, entry in enumerate(entries)}
    for entry in _in_order(entries, lambda item: item.blocked_by):
        needs = [ids[title] for title in dict.fromkeys(entry.blocked_by)]
        unit_id = ids[entry.title]
        plan = plan_of_entry(entry)
        _plant_child(tx, parent, unit_id, entry.title, entry.description, needs, workflow, rules, now, plan)
        lifecycle.arrived(tx, unit_id, rules, now)


def _plant_child(
    tx: Tx,
    parent: Unit,
    unit_id: str,
    title: str,
    description: str,
    needs: Sequence[str],
    workflow: Workflow,
    rules: Rules,
    now: Instant,
    plan: Plan | None = None,
) -> None:
    units.insert(
        tx,
        unit_id=unit_id,
        unit_type="slice" if parent.type == "milestone" else "task",
        session_id=parent.session_id,
        workflow=parent.workflow,
        workflow_hash=parent.workflow_hash,
        phase=workflow.phases[0],
        title=title,
        description=description,
        parent_id=parent.id,
        made_under=parent.plan_version,
        priority=parent.priority,
        metadata=parent.metadata,
        plan=plan,
        parent_ready=parent.phase is Phase.EXECUTE,
        lane_open=relations.lane_owner(tx, parent.id) is None,
        run_allowance=rules.base.max_runs,
        station=parent.station,
        blocked_by=needs,
        now=now,
    )
    relations.add_children(tx, parent.id, 1, now)


def _in_order(entries: Sequence[E], needs: Callable[[E], Sequence[str]]) -> list[E]:
    """Dependencies first, otherwise as given: a blocker must exist before what it blocks."""
    done: list[E] = []
    names: set[str] = set()
    waiting = list(entries)
    while waiting:
        entry = next(item for item in waiting if names.issuperset(needs(item)))
        waiting.remove(entry)
        done.append(entry)
        names.add(entry.title)
    return done


def plant_fix(
    tx: Tx, milestone: Unit, reason: str, finding: str, workflow: Workflow, rules: Rules, now: Instant
) -> None:
    """The one new slice that a milestone gets when it comes back to execute with a finding."""
    task = TaskEntry(
        title=f"Fix: {reason}",
        description=finding,
        deliverables=(f"what was found is fixed: {reason}",),
        verification=("the gates of the milestone pass",),
    )
    if milestone.merging:
        # The merge that failed is laid out in the milestone's worktree, for this fix alone.
        resolves = {**milestone.metadata, RESOLVES: milestone.merging.parent}
        milestone = msgspec.structs.replace(milestone, metadata=resolves)
    _plant_slices(tx, milestone, [SliceEntry(title=f"Fix: {reason}", tasks=(task,))], workflow, rules, now)
