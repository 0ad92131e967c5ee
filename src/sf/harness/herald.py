"""Tells the operator's commands what has happened. Nothing waits for them, and they can refuse nothing."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque

from sf.domain import events
from sf.domain.events import Event
from sf.errors import SfError
from sf.harness.desk import Desk
from sf.harness.notice import hook_variables, unit_payload
from sf.store import units

_PATIENCE = 30.0
_PATIENCE_FOR_HELD = 120.0
"""How long after the end of a session, in seconds, events are still told: a person waits for `held`."""


class Herald:
    """A subscriber of the bus: runs the `on_event` hooks one after the other, in the order of the events."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._serve(), name="herald")

    def __call__(self, event: Event) -> None:
        """Take an event if a hook wants it."""
        if self._commands(event):
            self._waiting.append(event)
            self._arrived.set()

    async def aclose(self) -> None:
        """Tell what is still to be told, `held` first, within bounds; say what was not told, and stop."""
        began = time.monotonic()
        self._closing = True
        self._arrived.set()
        untold: list[Event] = []
        try:
            if not await _within(self._patience(), self._task) and self._waiting:
                untold.append(self._waiting.popleft())
            self._waiting = deque(sorted(self._waiting, key=lambda event: event.name != events.HELD))
            while self._waiting:
                left = began + self._patience() - time.monotonic()
                if left <= 0 or not await _within(left, asyncio.create_task(self._tell_all())):
                    untold.append(self._waiting.popleft())
        finally:
            # Also when a person does not want to wait.
            self._say_untold([*untold, *self._waiting])

    def _patience(self) -> float:
        """How long the first of those that wait, which may be being told, is worth waiting for."""
        held = self._waiting and self._waiting[0].name == events.HELD
        return _PATIENCE_FOR_HELD if held else _PATIENCE

    def _commands(self, event: Event) -> tuple[str, ...]:
        configured = self._desk.hooks.hooks.on_event
        if not configured:
            return ()
        key = re.sub(r"(?<!^)([A-Z])", r"_\1", event.name).lower()
        return {str(name): commands for name, commands in configured.items()}.get(key, ())

    async def _serve(self) -> None:
        while not self._closing:
            if self._waiting:
                await self._tell_all()
            else:
                self._arrived.clear()
                await self._arrived.wait()

    async def _tell_all(self) -> None:
        """Tell the first event to all its hooks; until then it is counted among those that wait."""
        event = self._waiting[0]
        for command in self._commands(event):
            await self._tell(event, command)
        self._waiting.popleft()

    def _say_untold(self, untold: list[Event]) -> None:
        for (name, unit_id), count in Counter((event.name, event.unit_id) for event in untold).items():
            self._desk.log.warning("event not told to its hooks", event=name, unit_id=unit_id, count=count)
        if untold:
            names = ", ".join(sorted({event.name for event in untold}))
            told = f"the session ended before {len(untold)} event(s) were told to their hooks: {names}"
            self._desk.announce(events.WARNING, detail=told)

    async def _tell(self, event: Event, command: str) -> None:
        try:
            unit = units.find(self._desk.database.read, event.unit_id)
            payload = {
                "event": event.name,
                "at": event.at,
                "unit_id": event.unit_id,
                "data": event.data,
                "unit": unit_payload(unit) if unit else None,
            }
            await self._desk.hooks.one(
                "on_event",
                command,
                payload,
                cwd=self._desk.project.root,
                trace_id=event.unit_id,
                variables=hook_variables(self._desk, unit, "", unit.workspace or "") if unit else {},
            )
        except SfError as error:
            self._desk.log.warning("hook failed", unit_id=event.unit_id, error=error.line())


async def _within(seconds: float, task: asyncio.Task[None]) -> bool:
    """Wait for a task at most so long, and end it, also when nobody waits any more; whether it had ended."""
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
        [error] = await asyncio.gather(task, return_exceptions=True)
    return error is None
