"""Brings what was learned to the memory, behind the work: with patience, and never in anybody's way."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import msgspec

from sf.domain import events
from sf.domain.clock import Instant, rfc3339
from sf.domain.events import Event
from sf.domain.knowledge import verdicts
from sf.errors import MemoryRefused, MemoryUnavailable, SfError
from sf.harness.desk import Desk
from sf.memory import Memory
from sf.paths import Project
from sf.store import knowledge, records
from sf.store.knowledge import Pending
from sf.store.tx import Tx

LOST_AFTER_MS = 7 * 24 * 3600 * 1000
LOST = "lost-learnings.jsonl"
_FIRST_MS = 5_000
_LONGEST_MS = 3600 * 1000
_PORTION = 50
_LOOK = 5.0
_PATIENCE = 5.0
"""Seconds that the end of a session waits for what is still to be delivered; the rest stays in the queue."""
_TEACHING = frozenset({events.RUN_ENDED, events.UNIT_CLOSED, events.POST_UNIT, events.TURN_ENDED})


class Courier:
    """A subscriber of the bus: delivers what waits whenever something may have been learned."""

    def __init__(self, desk: Desk, memory: Memory) -> None:
        self._desk = desk
        self._memory = memory
        self._wake = asyncio.Event()
        self._ended: list[str] = []
        self._task = asyncio.create_task(self._serve(), name="courier")

    def __call__(self, event: Event) -> None:
        """Look again soon."""
        if event.name == events.UNIT_CLOSED and event.data["verdict"] == "success":
            self._ended.append(event.unit_id)
        if event.name in _TEACHING:
            self._wake.set()

    async def aclose(self) -> None:
        """Deliver what is due once more, within bounds, and stop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._round()

    async def _serve(self) -> None:
        while True:
            await self._round()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._wake.wait()
            self._wake.clear()

    async def _round(self) -> None:
        try:
            await self._give_up_old()
            await self._deliver()
            await self._tell_what_helped()
        except SfError as error:
            # The store refused: the loop meets that itself, and stops the session for it.
            self._desk.log.warning("lessons not delivered", error=error.line())
        except OSError as error:
            # The archive cannot be written: what is to go there stays in the queue.
            self._desk.log.warning("lessons not archived", error=str(error))

    async def _deliver(self) -> None:
        read, clock, station = self._desk.database.read, self._desk.clock, self._desk.station
        while found := knowledge.due(read, clock.now(), _PORTION, station, longest=_LONGEST_MS):
            for bank in dict.fromkeys(each.bank for each in found):
                portion = [each for each in found if each.bank == bank]
                if not await self._bring(bank, portion):
                    return

    async def _bring(self, bank: str, portion: list[Pending]) -> bool:
        """Hand lessons of one bank over; False when the memory is away and waiting is all that is left."""
        try:
            kept = await self._memory.retain(bank, [each.lesson for each in portion])
        except MemoryUnavailable as error:
            await self._postpone(portion, error.message)
            return False
        except MemoryRefused as error:
            # One of them is at fault: alone, each shows whether it is the one.
            if len(portion) > 1:
                return all([await self._bring(bank, [each]) for each in portion])
            await self._refused(portion[0], error.message)
            return True
        for answer in kept:
            if answer.refused:
                self._desk.log.info("lesson refused", bank=bank, reason=answer.refused)
        now = self._desk.clock.now()
        await self._desk.database.write(lambda tx: _arrived(tx, portion, now))
        return True

    async def _postpone(self, portion: list[Pending], error: str) -> None:
        now = self._desk.clock.now()

        def write(tx: Tx) -> None:
            for each in portion:
                wait = min(_LONGEST_MS, _FIRST_MS * 2 ** min(each.attempts, 20))
                knowledge.postpone(tx, each.id, Instant(now + wait), error)

        await self._desk.database.write(write)
        self._desk.log.warning("memory away, lessons wait", count=len(portion), error=error)

    async def _refused(self, each: Pending, reason: str) -> None:
        self._desk.log.warning("lesson refused", bank=each.bank, reason=reason)
        await self._desk.database.write(lambda tx: knowledge.delivered(tx, each.id))

    async def _give_up_old(self) -> None:
        now = self._desk.clock.now()
        old = knowledge.older(self._desk.database.read, now - LOST_AFTER_MS, self._desk.project.key)
        if old:
            archive_lost(self._desk.project, old)
            await self._desk.database.write(lambda tx: give_up(tx, old))
            self._desk.log.warning("lessons lost: the memory was away too long", count=len(old), file=LOST)
            detail = f"{len(old)} lesson(s) could not be kept for a week: .sf/archive/{LOST}"
            self._desk.announce(events.WARNING, detail=detail)

    async def _tell_what_helped(self) -> None:
        """What agents said of their memories counts once their work is proven; a lost word is no harm."""
        while self._ended:
            unit_id = self._ended.pop()
            read = self._desk.database.read
            told = knowledge.told_to(read, unit_id)
            for row in records.evidence(read, unit_id):
                for entry_id, signal in verdicts(row["summary"]).items() if row["kind"] == "claim" else ():
                    if entry_id in told:
                        await self._tell(told[entry_id], entry_id, signal)

    async def _tell(self, bank: str, entry_id: str, signal: int) -> None:
        try:
            await self._memory.feedback(entry_id, signal, bank=bank)
            if signal > 0:
                await self._memory.validate(entry_id, bank=bank)
        except (MemoryUnavailable, MemoryRefused) as error:
            self._desk.log.info("feedback not delivered", entry=entry_id, error=error.line())


def _arrived(tx: Tx, portion: list[Pending], now: Instant) -> None:
    give_up(tx, portion)
    for each in portion:
        if each.lesson.document_id.startswith("anti-"):
            knowledge.synced(tx, each.lesson.document_id, now)


def give_up(tx: Tx, portion: list[Pending]) -> None:
    """These wait no longer."""
    for each in portion:
        knowledge.delivered(tx, each.id)


def archive_lost(project: Project, old: list[Pending]) -> Path:
    """Write lessons that nobody took to `.sf/archive/`, before their rows go; the file."""
    file = project.dot / "archive" / LOST
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        for each in old:
            line = {
                "bank": each.bank,
                "lesson": msgspec.to_builtins(each.lesson),
                "since": rfc3339(each.created_at),
                "attempts": each.attempts,
                "error": each.last_error,
            }
            out.write(msgspec.json.encode(line) + b"\n")
    return file
