"""Plans: what `submit_plan` carries, the rules it must keep, and plan.md."""

from __future__ import annotations

import graphlib
import re
from collections.abc import Mapping, Sequence

import msgspec

from sf.domain.clock import rfc3339
from sf.domain.ids import UnitType
from sf.errors import InvalidPlan

_SECTIONS = ("Goal", "Approach", "Deliverables", "Verification", "Notes")
_WILD = frozenset("*?[")
_REQUIRED_FIELDS = ("unit_id", "created_at", "written_by", "plan_version")


class TaskEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task of a slice. `blocked_by` names titles of the same slice."""

    title: str
    description: str = ""
    deliverables: tuple[str, ...] = ()
    verification: tuple[str, ...] = ()
    allowed_areas: tuple[str, ...] = ()
    forbidden_areas: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()


class SliceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One slice of a milestone. `code_depends_on` names titles of the same milestone."""

    title: str
    tasks: tuple[TaskEntry, ...]
    description: str = ""
    code_depends_on: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan for one unit: slices for a milestone, tasks for a slice, areas for a task."""

    goal: str
    deliverables: tuple[str, ...]
    approach: str = ""
    verification: tuple[str, ...] = ()
    notes: str = ""
    slices: tuple[SliceEntry, ...] = ()
    tasks: tuple[TaskEntry, ...] = ()
    allowed_areas: tuple[str, ...] = ()
    forbidden_areas: tuple[str, ...] = ()


def plan_of_entry(entry: TaskEntry) -> Plan:
    """A task's plan as its container's plan gave it."""
    return Plan(
        goal=entry.description or entry.title,
        deliverables=entry.deliverables,
        verification=entry.verification,
        allowed_areas=entry.allowed_areas,
        forbidden_areas=entry.forbidden_areas,
    )


def check(plan: Plan, unit_type: UnitType, max_children: int, inherited: Plan | None = None) -> None:
    """Raise InvalidPlan with every rule that the plan breaks. `inherited` is what it may only narrow."""
    problems = []
    if not plan.goal.strip():
        problems.append("goal is empty")
    if not plan.deliverables:
        problems.append("deliverables is empty")
    if unit_type == "milestone":
        problems += _milestone_problems(plan, max_children)
    elif unit_type == "slice":
        problems += _task_list_problems(plan.tasks, "this slice", max_children)
    elif inherited is not None:
        problems += _widening(plan, inherited)
    if unit_type != "milestone" and plan.slices:
        problems.append(f"a {unit_type} cannot have slices")
    if unit_type != "slice" and plan.tasks:
        problems.append("tasks belong into slices" if unit_type == "milestone" else "a task has no tasks")
    if problems:
        raise InvalidPlan("; ".join(problems))


def _milestone_problems(plan: Plan, max_children: int) -> list[str]:
    problems = _graph_problems(
        {entry.title: entry.code_depends_on for entry in plan.slices},
        "slice",
        "code_depends_on",
        len(plan.slices),
    )
    if not plan.slices:
        problems.append("a milestone needs at least one slice")
    if len(plan.slices) > max_children:
        problems.append(f"{len(plan.slices)} slices; at most {max_children}")
    for entry in plan.slices:
        problems += _task_list_problems(entry.tasks, f"slice {entry.title!r}", max_children)
    return problems


def _task_list_problems(tasks: Sequence[TaskEntry], where: str, max_children: int) -> list[str]:
    problems = _graph_problems(
        {task.title: task.blocked_by for task in tasks}, "task", "blocked_by", len(tasks)
    )
    if not tasks:
        problems.append(f"{where} needs at least one task")
    if len(tasks) > max_children:
        problems.append(f"{where} has {len(tasks)} tasks; at most {max_children}")
    return problems


def _graph_problems(edges: Mapping[str, Sequence[str]], noun: str, key: str, count: int) -> list[str]:
    problems = []
    if len(edges) != count:
        problems.append(f"{noun} titles must differ from each other")
    if any(not title.strip() for title in edges):
        problems.append(f"a {noun} has no title")
    if any(not title.isprintable() or len(title) > 200 for title in edges):
        problems.append(f"{noun} titles must be one line of at most 200 printable characters")
    for title, needs in edges.items():
        problems += [f"{noun} {title!r}: {key} names unknown {need!r}" for need in needs if need not in edges]
    cycle = find_cycle(edges)
    if cycle:
        problems.append(f"{key} has a cycle: {' → '.join(cycle)}")
    return problems


def find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """One cycle in the graph, closed (`a → b → a`), or an empty list."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle[::-1]
    return []


def _widening(plan: Plan, inherited: Plan) -> list[str]:
    if not inherited.allowed_areas:
        return []
    wider = [area for area in plan.allowed_areas if not _within(area, inherited.allowed_areas)]
    if not plan.allowed_areas:
        return [
            "allowed_areas must be given: the plan above limits them to " + ", ".join(inherited.allowed_areas)
        ]
    return [f"allowed area {area!r} is wider than the plan above" for area in wider]


def _within(area: str, allowed: Sequence[str]) -> bool:
    """Whether an area lies inside one of the allowed ones; where globs make that unclear, it does not."""
    for limit in allowed:
        if limit in ("**", "**/*") or area == limit:
            return True
        stem = limit.removesuffix("/**").removesuffix("/")
        if not _WILD.intersection(stem) and (area == stem or area.startswith(stem + "/")):
            return True
    return False


def narrowed(plan: Plan, inherited: Plan | None) -> Plan:
    """The plan with the areas that still bind it from above."""
    if inherited is None:
        return plan
    return msgspec.structs.replace(
        plan,
        allowed_areas=plan.allowed_areas or inherited.allowed_areas,
        forbidden_areas=tuple(dict.fromkeys((*inherited.forbidden_areas, *plan.forbidden_areas))),
    )


def render(plan: Plan, *, unit_id: str, created_at: int, written_by: str, plan_version: int) -> str:
    """plan.md."""
    lines = [
        "---",
        f"unit_id: {unit_id}",
        f"created_at: {rfc3339(created_at)}",
        f"written_by: {written_by}",
        f"plan_version: {plan_version}",
        "---",
        "",
        "# Goal",
        _escaped(plan.goal),
        "",
        "# Approach",
        _escaped(plan.approach) or "As the deliverables say.",
        "",
        "# Deliverables",
        *(f"- [ ] {_flat(item)}" for item in plan.deliverables),
        "",
        "# Verification",
        *(f"- {_flat(item)}" for item in plan.verification),
        "",
        "# Notes",
        _escaped(plan.notes),
        *_outline(plan),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _escaped(text: str) -> str:
    """Free text whose own headings are not taken for the file's sections."""
    return re.sub(r"^(?=# )", r"\\", text.strip(), flags=re.MULTILINE)


def _outline(plan: Plan) -> list[str]:
    lines = []
    for area, items in (("Allowed areas", plan.allowed_areas), ("Forbidden areas", plan.forbidden_areas)):
        if items:
            lines.append(f"{area}: " + ", ".join(items))
    for entry in plan.slices:
        needs = f" (after {', '.join(entry.code_depends_on)})" if entry.code_depends_on else ""
        lines += ["", f"## {_flat(entry.title)}{needs}", *(_task_line(task) for task in entry.tasks)]
    lines += [_task_line(task) for task in plan.tasks]
    return lines


def _task_line(task: TaskEntry) -> str:
    needs = f" (after {', '.join(task.blocked_by)})" if task.blocked_by else ""
    return f"- {_flat(task.title)}{needs}"


def _flat(text: str) -> str:
    return " ".join(text.split())


class PlanFile(msgspec.Struct, frozen=True):
    """plan.md as read back."""

    fields: dict[str, str]
    sections: dict[str, str]


def parse(text: str) -> PlanFile:
    """Read plan.md. Raises InvalidPlan when a required field or section is missing."""
    match = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if match is None:
        raise InvalidPlan("plan.md has no frontmatter")
    fields = {}
    for line in match.group(1).splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields[key.strip()] = value.strip()
    parts = re.split(r"^# (.+)$", text[match.end() :], flags=re.MULTILINE)
    sections = {
        parts[i].strip(): re.sub(r"^\\(?=# )", "", parts[i + 1].strip(), flags=re.MULTILINE)
        for i in range(1, len(parts) - 1, 2)
    }
    problems = [f"frontmatter lacks {name}" for name in _REQUIRED_FIELDS if not fields.get(name)]
    problems += [f"section # {name} is missing" for name in _SECTIONS if name not in sections]
    problems += [
        f"section # {name} is empty" for name in ("Goal", "Deliverables") if not sections.get(name, "x")
    ]
    if problems:
        raise InvalidPlan("plan.md: " + "; ".join(problems))
    return PlanFile(fields=fields, sections=sections)
