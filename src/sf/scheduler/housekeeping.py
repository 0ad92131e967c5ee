"""What a running loop keeps in order besides its units: room on the disk, and the artifacts of what ended."""

from __future__ import annotations

import asyncio
import time

from sf.harness import artifacts
from sf.harness.desk import Desk
from sf.observe import disk
from sf.observe.disk import DiskUse
from sf.scheduler.leftovers import folder_owners
from sf.store import units

_EVERY = 60.0
_EVERY_UNDER_QUOTA = 5.0
_SHARE = 20
"""Looking may take at most one part in so many of the time."""


class Housekeeper:
    """Measures now and then what the worktrees take, and says when that is too much."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._use: DiskUse | None = None
        self._next = 0.0

    async def look(self, *, idle: bool = False) -> None:
        """Measure when it is due; when nothing runs and there was too little room, always."""
        if time.monotonic() < self._next and not (idle and self.crowded):
            return
        quota = int(self._desk.config.housekeeping.max_worktrees_gb * disk.GIB)
        began = time.monotonic()
        self._use = await asyncio.to_thread(disk.measure, self._desk.project, self._desk.clock.now(), quota)
        disk.keep(self._desk.project, self._use)
        took = time.monotonic() - began
        self._next = began + max(_EVERY_UNDER_QUOTA if quota else _EVERY, _SHARE * took)

    @property
    def crowded(self) -> str:
        """Why nothing new may begin; empty when it may."""
        return disk.crowded(self._use)


def archive_ended(desk: Desk) -> list[str]:
    """Move to the archive what lies in `.sf/active` of units that were wound up; their ids.

    What a revert put back stays.
    """
    read = desk.database.read
    due = {unit.id for unit in units.to_wind_up(read)}
    moved = []
    for unit in folder_owners(desk.project, read):
        needed = unit.claim_holder or unit.id in due or unit.reverted_at is not None
        if unit.terminal and unit.archived_at is not None and not needed:
            artifacts.archive(desk.project, unit.id, unit.archived_at)
            moved.append(unit.id)
    return moved
