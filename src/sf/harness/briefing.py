"""What a prompt is told of its unit, from rows and artifacts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sf.domain.decide import Counter
from sf.domain.excerpt import one_line
from sf.domain.units import Unit
from sf.harness import artifacts
from sf.harness.bounds import allowed_in_all, area_sets
from sf.harness.chapters import where_it_stood
from sf.harness.desk import Desk
from sf.store import ledger, records, units


def variables(desk: Desk, unit: Unit, run_id: str, feedback: str) -> dict[str, Any]:
    """What every phase's template is given."""
    sets = area_sets(desk.database.read, unit)
    return {
        "unit_id": unit.id,
        "unit_type": unit.type,
        "phase": unit.phase.value,
        "attempt": _tries(desk, unit) or None,
        "session_id": unit.session_id,
        "issue": issue(unit),
        "last_error": artifacts.error_for_prompt(desk.project, unit.id, feedback) or None,
        "context": _context(desk, unit),
        "attempts": artifacts.read(desk.project, unit.id, artifacts.ATTEMPTS, 4000),
        "research": _inherited(desk, unit, artifacts.RESEARCH),
        "plan": artifacts.read(desk.project, unit.id, artifacts.PLAN),
        "gates": [Path(name).name for name in desk.rules.gates(unit)],
        "allowed_areas": allowed_in_all(sets),
        "forbidden_areas": sets[0].forbidden if len(sets) == 1 else (),
        "folder": str(desk.project.active(unit.id)),
        "chapters": where_it_stood(desk, unit, run_id),
    }


def subject(desk: Desk, unit: Unit) -> str:
    """What a run is about, as a question to the memory."""
    goal = str((unit.plan or {}).get("goal", ""))
    error = one_line(records.unread_feedback(desk.database.read, unit.id)[0], 300)
    return "\n".join(part for part in (unit.title, one_line(unit.description, 600), goal, error) if part)


def _tries(desk: Desk, unit: Unit) -> int:
    return ledger.count(desk.database.read, unit, Counter("tries", unit.phase.value))


def issue(unit: Unit) -> dict[str, Any]:
    """A unit as templates and hooks are told of it."""
    fields = ("id", "type", "title", "description", "priority", "metadata", "workflow")
    return {name: getattr(unit, name) for name in fields}


def _context(desk: Desk, unit: Unit) -> str:
    """The titles above a unit, nearest last."""
    titles: list[str] = []
    parent_id = unit.parent_id
    while parent_id is not None:
        parent = units.get(desk.database.read, parent_id)
        titles.insert(0, parent.title)
        parent_id = parent.parent_id
    return " › ".join(titles)


def _inherited(desk: Desk, unit: Unit, name: str) -> str:
    """A unit's own artifact, or the nearest one above it."""
    current: Unit | None = unit
    while current is not None:
        text = artifacts.read(desk.project, current.id, name, 6000)
        if text:
            return text
        current = units.get(desk.database.read, current.parent_id) if current.parent_id else None
    return ""
