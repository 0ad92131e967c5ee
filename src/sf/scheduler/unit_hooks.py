"""The operator's hooks around a unit: asked before each dispatch, told when it has ended."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from sf.domain import events
from sf.domain.units import HEARD, PUT_AWAY, Unit
from sf.errors import HookFailed, HookTimeout, HookUntold
from sf.harness.desk import Desk
from sf.harness.notice import hook_variables
from sf.harness.results import unit_result
from sf.store import units


async def ask(desk: Desk, unit: Unit) -> None:
    """Ask the PreDispatch hooks. Raises HookFailed at the first that refuses."""
    if desk.hooks.commands("pre_dispatch"):
        payload = unit_result(desk, unit, verdict="pending")
        for command in desk.hooks.commands("pre_dispatch"):
            await _one(desk, "pre_dispatch", command, unit, payload)


async def tell(desk: Desk, unit: Unit, payload: dict[str, Any]) -> None:
    """Tell every PostUnit hook. Raises the first HookFailed, when all of them have been told.

    Raises HookUntold where one of them could not be: those that have heard it are not told again.
    """
    heard: list[str] = list(unit.metadata.get(HEARD, ()))
    # By number: a command that is listed twice is told twice.
    before = Counter(heard)
    untold: HookUntold | None = None
    refused: HookFailed | None = None
    commands = desk.hooks.commands("post_unit")
    for number, command in enumerate(commands, 1):
        if before[command]:
            before[command] -= 1
            continue
        try:
            await _one(desk, "post_unit", command, unit, payload)
        except HookUntold as error:
            untold = untold or error
            continue
        except HookFailed as error:
            desk.log.warning("hook failed", unit_id=unit.id, unit_type=unit.type, error=error.line())
            refused = refused or error
        heard.append(command)
        if number < len(commands):
            # Whoever dies while the next one is told does not tell this one again.
            await _note(desk, unit, heard)
    if untold is not None:
        await _note(desk, unit, heard)
        raise untold
    if refused is not None:
        raise refused


async def _note(desk: Desk, unit: Unit, heard: list[str]) -> None:
    noted = {PUT_AWAY: unit.metadata.get(PUT_AWAY), HEARD: heard}
    await desk.database.write(
        lambda tx: units.set_metadata(tx, unit.id, {**units.get(tx, unit.id).metadata, **noted})
    )


async def _one(
    desk: Desk, kind: Literal["pre_dispatch", "post_unit"], command: str, unit: Unit, payload: dict[str, Any]
) -> None:
    """Run one of them; one that hangs is killed and told of, and refuses nothing."""
    try:
        await desk.hooks.one(
            kind,
            command,
            payload,
            cwd=desk.project.root,
            trace_id=unit.id,
            variables=hook_variables(desk, unit, "", unit.workspace or ""),
            parent=unit.id,
        )
    except HookTimeout as error:
        desk.log.warning("hook failed", unit_id=unit.id, unit_type=unit.type, error=error.line())
        desk.announce(events.WARNING, unit.id, detail=error.message)
