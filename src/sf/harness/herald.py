"""Tells the operator's commands what has happened. Nothing waits for them, and they can refuse nothing."""

from __future__ import annotations

import asyncio
import re

from sf.domain.events import Event
from sf.errors import HookFailed, HookTimeout
from sf.harness.attempt import hook_variables, unit_payload
from sf.harness.desk import Desk
from sf.store import units

_PATIENCE = 30.0


class Herald:
    """A subscriber of the bus: runs the `on_event` hooks one after the other, in the order of the events."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: asyncio.Queue[Event] = asyncio.Queue()
        self._task = asyncio.create_task(self._serve(), name="herald")

    def __call__(self, event: Event) -> None:
        """Take an event if a hook wants it."""
        if self._commands(event):
            self._waiting.put_nowait(event)

    async def aclose(self) -> None:
        """Tell what is still to be told, within bounds, and stop."""
        told = asyncio.ensure_future(self._waiting.join())
        await asyncio.wait({told, self._task}, timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        self._task.cancel()
        await asyncio.gather(told, self._task, return_exceptions=True)

    def _commands(self, event: Event) -> tuple[str, ...]:
        key = re.sub(r"(?<!^)([A-Z])", r"_\1", event.name).lower()
        return {str(name): commands for name, commands in self._desk.hooks.hooks.on_event.items()}.get(
            key, ()
        )

    async def _serve(self) -> None:
        while True:
            event = await self._waiting.get()
            for command in self._commands(event):
                await self._tell(event, command)
            self._waiting.task_done()

    async def _tell(self, event: Event, command: str) -> None:
        unit = units.find(self._desk.database.read, event.unit_id)
        payload = {
            "event": event.name,
            "at": event.at,
            "unit_id": event.unit_id,
            "data": event.data,
            "unit": unit_payload(unit) if unit else None,
        }
        try:
            await self._desk.hooks.one(
                "on_event",
                command,
                payload,
                cwd=self._desk.project.root,
                trace_id=event.unit_id,
                variables=hook_variables(self._desk, unit, "", unit.workspace or "") if unit else {},
            )
        except (HookFailed, HookTimeout) as error:
            self._desk.log.warning("hook failed", unit_id=event.unit_id, error=error.line())
