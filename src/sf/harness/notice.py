"""What hooks and gates are told of a unit: on their standard input, and in their environment."""

from __future__ import annotations

from sf.domain.units import HEARD, PUT_AWAY, Unit
from sf.harness.desk import Desk


def unit_payload(unit: Unit) -> dict[str, object]:
    """A unit as hooks and gates are told of it."""
    fields = ("id", "type", "title", "description", "priority", "workflow", "parent_id")
    # How far its end has come is sf's own to remember.
    metadata = {key: value for key, value in unit.metadata.items() if key not in (PUT_AWAY, HEARD)}
    return {name: getattr(unit, name) for name in fields} | {"metadata": metadata}


def hook_variables(desk: Desk, unit: Unit, run_id: str, workspace: str) -> dict[str, str]:
    """The environment variables that hooks and gates get."""
    return {
        "SF_PROJECT_ROOT": str(desk.project.root),
        "SF_HOME": str(desk.project.home),
        "SF_UNIT_ID": unit.id,
        "SF_UNIT_TYPE": unit.type,
        "SF_RUN_ID": run_id,
        "SF_PHASE": unit.phase.value,
        "SF_ATTEMPT": str(unit.attempt),
        "SF_WORKSPACE": workspace,
        "SF_TRACE_FILE": str(desk.tracer.current_file()),
    }
