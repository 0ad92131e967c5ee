"""What earlier work taught, for the prompts: two banks, and the mistakes to avoid. It never holds work up."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import msgspec

from sf.config.schema import Memory as Settings
from sf.domain import events
from sf.domain.clock import Clock, Instant
from sf.domain.excerpt import one_line, printable
from sf.domain.knowledge import GLOBAL_BANK, TELLING, Entry, anti_pattern_text, merged
from sf.domain.runs import Lease
from sf.errors import MemoryOpening, MemoryRefused, MemoryUnavailable
from sf.memory import Memory, Recalled
from sf.observe.bus import Bus
from sf.observe.log import Log
from sf.observe.trace import Tracer
from sf.store import knowledge
from sf.store.database import Database
from singularity_memory.door import redacted

_MISTAKES = {"collection": "anti_patterns"}
_MOST_MISTAKES = 5
_LONGEST = 1200
_LONGEST_QUERY = 4000
_NAME = re.compile(r"[0-9A-Za-z._:-]{1,128}")
"""What an id looks like; it stands in the prompt, and a server may say anything."""
_MARK = re.compile(r"<(?=[\s/]*(?:memory|anti_patterns|turn_status)\b)", re.IGNORECASE)
_GRACE = 0.25
"""Seconds beyond the deadline after which an answer is not waited for."""


class Known(msgspec.Struct, frozen=True):
    """What a prompt is told from memory."""

    memories: tuple[Entry, ...] = ()
    mistakes: tuple[str, ...] = ()
    degraded: str = ""

    def variables(self) -> dict[str, Any]:
        """As the templates name it."""
        shown = [{"id": entry.id, "text": _harmless(entry.content)} for entry in self.memories]
        return {"memories": shown, "mistakes": [_harmless(text) for text in self.mistakes]}


class Knowledge:
    """The memory of one project, as its runs see it. Without a memory it knows nothing, and says nothing."""

    def __init__(
        self,
        memory: Memory | None,
        bank: str,
        settings: Callable[[], Settings],
        database: Database,
        bus: Bus,
        log: Log,
        tracer: Tracer,
        clock: Clock,
    ) -> None:
        self.memory = memory
        self.bank = bank
        self._settings = settings
        self._database = database
        self._bus = bus
        self._log = log
        self._tracer = tracer
        self._clock = clock
        self._away = False

    async def recall(self, lease: Lease, query: str, phase: str) -> Known:
        """What is known about a piece of work; written down as told to its run, and traced."""
        if self.memory is None:
            return Known()
        started = time.time_ns() // 1_000_000
        # It goes to a server perhaps, and into the trace: an error that it quotes may have a key in it.
        query = redacted(query)[:_LONGEST_QUERY].encode("utf-8", "replace").decode()
        try:
            known = await self._ask(self.memory, query)
            self._is_back()
        except MemoryOpening as error:
            self._log.info("a run began before the memory was open", unit_id=lease.unit_id)
            known = Known(mistakes=self._mirrored(), degraded=error.message)
        except (MemoryUnavailable, MemoryRefused) as error:
            self._is_away(error.line())
            known = Known(mistakes=self._mirrored(), degraded=error.message)
        await self._note(lease, known)
        self._trace(lease, phase, started, query, known)
        return known

    async def _ask(self, memory: Memory, query: str) -> Known:
        """Both banks side by side; one that fails fails all, for what is half known is worse than unknown."""
        settings = self._settings()
        deadline, most = float(settings.deadline), settings.top_k
        banks = (self.bank, GLOBAL_BANK)
        calls = [memory.recall(bank, query, top_k=2 * most, deadline=deadline) for bank in banks]
        calls += [
            memory.recall(bank, query, top_k=_MOST_MISTAKES, only=_MISTAKES, deadline=deadline)
            for bank in banks
        ]
        try:
            async with asyncio.timeout(deadline + _GRACE):
                found: list[Recalled] = await asyncio.gather(*calls)
        except TimeoutError:
            raise MemoryUnavailable(f"the memory did not answer within {deadline:g} s") from None
        telling = [_telling(each, bank) for each, bank in zip(found, banks * 2, strict=True)]
        lessons = [[entry for entry in entries if not entry.is_negative] for entries in telling[:2]]
        texts = [entry.content for entry in merged(telling[2:], _MOST_MISTAKES)]
        # A mistake of a moment ago is still on its way.
        texts = [*dict.fromkeys((*self._mirrored(only_new=True), *texts))]
        degraded = "; ".join(dict.fromkeys(each.degraded for each in found if each.degraded))
        return Known(tuple(merged(lessons, most)), tuple(texts[:_MOST_MISTAKES]), degraded)

    def _mirrored(self, *, only_new: bool = False) -> tuple[str, ...]:
        patterns = knowledge.mirrored(self._database.read, _MOST_MISTAKES, only_new=only_new)
        return tuple(anti_pattern_text(p.description, p.context, p.correct_path) for p in patterns)

    async def _note(self, lease: Lease, known: Known) -> None:
        if known.memories:
            await self._database.write(lambda tx: knowledge.told(tx, lease, known.memories))

    def _is_away(self, reason: str) -> None:
        """Said once an outage."""
        if not self._away:
            self._away = True
            self._log.warning("memory away, work goes on without it", error=reason)
            detail = f"memory: {reason}; work goes on without it"
            self._bus.publish(events.Event(events.WARNING, self._now(), data={"detail": detail}))

    def _is_back(self) -> None:
        if self._away:
            self._away = False
            self._log.info("memory back")

    def _now(self) -> Instant:
        return self._clock.now()

    def _trace(self, lease: Lease, phase: str, started: int, query: str, known: Known) -> None:
        told = [
            {"id": e.id, "score": round(e.score, 4), "text": one_line(e.content, 200)} for e in known.memories
        ]
        self._tracer.span(
            "recall",
            trace_id=lease.run_id,
            started_at=started,
            attrs={
                "unit_id": lease.unit_id,
                "phase": phase,
                "bank": self.bank,
                "query": one_line(query, 300),
                "memories": told,
                "anti_patterns": [one_line(text, 200) for text in known.mistakes],
                "degraded": known.degraded,
            },
        )


def _telling(found: Recalled, bank: str) -> list[Entry]:
    """What has to do with the question, of its bank."""
    return [
        msgspec.structs.replace(entry, bank=bank)
        for entry in found.entries
        if entry.score >= TELLING and _NAME.fullmatch(entry.id)
    ]


def _harmless(text: str) -> str:
    """Within bounds, and unable to end the block that it stands in, to begin another or to end a turn."""
    cut = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    # Lines after the first are set in: none of them looks like the next entry.
    return "\n    ".join(printable(line) for line in _MARK.sub("‹", cut).splitlines())
