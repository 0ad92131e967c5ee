"""Winding terminal units up, one after the other, and marking those for which that is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sf.domain import events
from sf.errors import HookFailed, HookUntold
from sf.harness.desk import Desk
from sf.scheduler import closing
from sf.store import units
from sf.store.tx import Tx

T = TypeVar("T")


class Winding:
    """What of a session has ended; `abort` is told when a hook refuses."""

    def __init__(self, desk: Desk, abort: Callable[[str], None]) -> None:
        self._desk = desk
        self._abort = abort
        self._seen: set[str] = set()
        self._to_mark: set[str] = set()

    async def wind_up(self) -> None:
        """Wind up what has ended since the last time."""
        for unit in await closing.due(self._desk, self._seen):
            self._seen.add(unit.id)
            try:
                await closing.close(self._desk, unit)
            except HookUntold as error:
                # Not marked: the next session tells it.
                self._abort(f"a PostUnit hook could not be told of {unit.id}: {error.message}")
                continue
            except HookFailed as error:
                self._abort(f"a PostUnit hook refused {unit.id}: {error.message}")
            except OSError as error:
                # Not marked: the next session tries again.
                self._desk.log.error(
                    "winding up failed", unit_id=unit.id, unit_type=unit.type, error=str(error)
                )
                self._desk.announce(events.WARNING, unit.id, detail=f"could not be wound up: {error}")
                continue
            self._to_mark.add(unit.id)
            if self._desk.hooks.commands("post_unit"):
                # At once, so that whoever dies while another unit's are told does not tell these again.
                await self.mark()

    async def mark(self) -> None:
        """Mark them in a transaction of their own, unless another one has done so."""
        if self._to_mark:
            await self.marking(lambda tx: None)

    async def marking(self, work: Callable[[Tx], T]) -> T:
        """Carry out a write and mark them in its transaction: a mark needs no commit of its own."""
        marks, now = tuple(self._to_mark), self._desk.clock.now()

        def write(tx: Tx) -> T:
            units.wound_up(tx, marks, now)
            return work(tx)

        done = await self._desk.database.write(write)
        self._to_mark.difference_update(marks)
        return done
