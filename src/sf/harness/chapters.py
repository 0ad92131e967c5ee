"""The chapters of one run: opened with each conversation or by the agent, closed with what they were for."""

from __future__ import annotations

from sf.domain.excerpt import one_line
from sf.domain.runs import Lease, RunOutcome
from sf.domain.units import Unit
from sf.harness import lessons
from sf.harness.desk import Desk
from sf.store import chapters, runs
from sf.store.chapters import Chapter, Outcome
from sf.store.tx import Tx

_SHOWN = 6
_MOST_SPANS = 500


class Chapters:
    """One chapter is open at a time."""

    def __init__(self, desk: Desk, unit: Unit, lease: Lease) -> None:
        self._desk = desk
        self._unit = unit
        self._lease = lease
        self._open = ""
        self._name = ""
        self._spans: list[str] = []

    async def begin(self, name: str) -> None:
        """Open a chapter; the one before it took another turn."""
        if self._open:
            await self.end(f"{self._name}, then {name}", "pivot")
        now = self._desk.clock.now()
        self._open = await self._desk.database.write(lambda tx: chapters.begin(tx, self._lease, name, now))
        self._name, self._spans = name, []

    def spanned(self, span_id: str) -> None:
        """A span belongs to the open chapter."""
        if self._open and len(self._spans) < _MOST_SPANS:
            self._spans.append(span_id)

    async def end(self, words: str, outcome: Outcome) -> None:
        """Close the open chapter with what it was for, in the agent's words; it is kept in the memory too."""
        if not self._open:
            return
        intent = one_line(words, 300) or self._name
        chapter_id, spans, now = self._open, tuple(self._spans), self._desk.clock.now()
        self._open = ""

        def write(tx: Tx) -> None:
            chapters.end(tx, self._lease, chapter_id, intent, outcome, spans, now)
            lessons.chapter_ended(
                tx, self._unit, chapter_id, self._name, intent, outcome, self._desk.rules, now
            )

        await self._desk.database.write(write)


def where_it_stood(desk: Desk, unit: Unit, run_id: str) -> str:
    """For a run after one that was cut off: what was being done, and why; else nothing."""
    read = desk.database.read
    before = [run for run in runs.of_unit(read, unit.id) if run.id != run_id]
    if not before or before[-1].outcome is not RunOutcome.INTERRUPTED:
        return ""
    return "\n".join(_line(each) for each in chapters.of_unit(read, unit.id)[-_SHOWN:])


def _line(chapter: Chapter) -> str:
    if chapter.outcome is None:
        return f"- {chapter.name}: under way when it was cut off"
    return f"- {chapter.name}: {chapter.intent} ({chapter.outcome})"
