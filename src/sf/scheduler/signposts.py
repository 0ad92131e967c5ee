"""Small files that tell other tools what the loop does: auto.lock, gate-state.json, paused-session.json.

They are hints. Nothing in sf reads them; the database is the authority.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from sf import files
from sf.domain import events
from sf.paths import Project

AUTO_LOCK = "auto.lock"
GATE_STATE = "gate-state.json"
PAUSED = "paused-session.json"


class Signposts:
    """Follows the bus of one autopilot; a disk that refuses them stops nothing."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._gates: dict[str, dict[str, Any]] = {}

    def __call__(self, event: events.Event) -> None:
        """Take an event in."""
        if event.name == events.GATE_RESULT:
            self._gates[event.unit_id] = {**event.data, "at": event.at}
            self._write(GATE_STATE, self._gates)

    def started(self, holder: str) -> None:
        """Auto-mode is active."""
        with contextlib.suppress(OSError):
            (self._project.runtime / PAUSED).unlink(missing_ok=True)
            (self._project.dot / AUTO_LOCK).write_text(holder + "\n", encoding="utf-8")

    def paused(self, detail: str) -> None:
        """The operator paused the session."""
        self._write(PAUSED, {"detail": detail})

    def ended(self) -> None:
        """Auto-mode is over, however it ended."""
        with contextlib.suppress(OSError):
            (self._project.dot / AUTO_LOCK).unlink(missing_ok=True)

    def _write(self, name: str, data: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            files.put(self._project.runtime / name, msgspec.json.encode(data))
