"""Where each unit stands, for people: its one reason, be it its own, the session's or the disk's."""

from __future__ import annotations

from functools import cached_property

import msgspec

from sf.domain.attention import SESSION_BUDGET, back_pressure
from sf.domain.clock import Instant, brief_duration, drawn_in, rfc3339
from sf.domain.excerpt import one_line
from sf.domain.queue import READY, eligible, standing
from sf.domain.units import Status, Unit
from sf.errors import QuotaWait, SfError, Unreachable
from sf.observe import disk
from sf.paths import Project
from sf.scheduler import lock
from sf.store import attention, relations, runs, sessions, units
from sf.store.tx import Tx

RUN = "sf auto"
"""What brings on a unit that waits for nothing else."""
CUT_OFF = "cut off"
"""The standing of a unit whose run has nobody any more who carries it on."""
_BY_PROVIDER = frozenset({QuotaWait.code, Unreachable.code})
"""Waits of which it is told what the provider said, or why it was not reached."""


class UnitLine(msgspec.Struct, frozen=True):
    """A unit in a list."""

    id: str
    type: str
    title: str
    phase: str
    standing: str
    detail: str = ""
    attempt: int = 0
    cost_micro_usd: int = 0
    tokens: int = 0
    elapsed_ms: int = 0
    branch: str = ""
    """What it is to be merged into, for a goal."""


class Obstacle(msgspec.Struct, frozen=True):
    """Why units that are ready are not begun, as a word and in full, and what a person does about it."""

    word: str
    detail: str
    way_out: str


class Standings:
    """Tells of units at one moment; what concerns all of them is looked up once, and only if it matters."""

    def __init__(self, project: Project, tx: Tx, now: Instant) -> None:
        self._project = project
        self._tx = tx
        self._now = now

    def line(self, unit: Unit) -> UnitLine:
        """The unit in a list."""
        live = runs.live_of_unit(self._tx, unit.id) if unit.status is Status.RUNNING else None
        spent = runs.spent_by_run(self._tx, live.id) if live else None
        return UnitLine(
            id=unit.id,
            type=unit.type,
            title=unit.title,
            phase=unit.phase.value,
            standing=self.word(unit),
            detail=self._detail(unit),
            attempt=unit.attempt,
            cost_micro_usd=spent["cost_micro_usd"] if spent else 0,
            tokens=spent["input_tokens"] + spent["output_tokens"] if spent else 0,
            elapsed_ms=self._now - live.started_at if live and not self._is_cut_off(unit) else 0,
            branch="" if unit.parent_id else self.branch(unit),
        )

    def word(self, unit: Unit) -> str:
        """The one reason for which an open unit is not running, or what it does, as a word or few."""
        if self._is_cut_off(unit):
            return CUT_OFF
        obstacle = self._obstacle(unit)
        return obstacle.word if obstacle else self._own(unit)

    def reason(self, unit: Unit) -> str:
        """The word, with everything that explains it."""
        detail = self._detail(unit)
        if unit.terminal and unit.hold_detail and unit.reverted_at is None:
            detail = unit.hold_detail
        if unit.hold_kind is not None:
            detail = one_line(unit.hold_detail, 1000)
        if unit.open_children:
            detail = f"{unit.open_children} open"
        obstacle = self._obstacle(unit)
        if obstacle:
            detail = obstacle.detail
        return self.word(unit) + (f": {detail}" if detail else "")

    def way_out(self, unit: Unit) -> str:
        """What a person does that such a unit goes on; empty where it goes on by itself, or is held."""
        cut_off = self._is_cut_off(unit)
        obstacle = self._stopped if cut_off else self._obstacle(unit)
        if obstacle:
            return obstacle.way_out
        waits = self.is_due(unit) and not self._is_seen_to(unit)
        return RUN if waits or cut_off else ""

    def is_due(self, unit: Unit) -> bool:
        """Whether an autopilot would run it, now or by its time."""
        return eligible(unit, max(self._now, unit.due_at or self._now))

    @cached_property
    def at_work(self) -> bool:
        """Whether an autopilot runs, here or for another folder on the same store."""
        return self._at_work_here or bool(sessions.seats(self._tx))

    @cached_property
    def _at_work_here(self) -> bool:
        holder = lock.is_held(self._project.lock)
        return holder is not None and holder.purpose == lock.AUTOPILOT

    def _is_seen_to(self, unit: Unit) -> bool:
        """Whether an autopilot runs that may take it; nobody here knows of one bound elsewhere."""
        if unit.station:
            return unit.station != self._project.key or self._at_work_here
        return self.at_work

    def _is_cut_off(self, unit: Unit) -> bool:
        """Whether its run has nobody any more who carries it on."""
        return unit.status is Status.RUNNING and not unit.terminal and not self._is_seen_to(unit)

    def branch(self, unit: Unit) -> str:
        """The branch that the unit is to be merged into."""
        return branch_of(unit.metadata, self._session_branch)

    def branches(self) -> list[str]:
        """The branches that open goals are to be merged into."""
        found = {branch_of(metadata, self._session_branch) for metadata in units.goals_metadata(self._tx)}
        return sorted(found - {""})

    @cached_property
    def _session_branch(self) -> str:
        session = sessions.current(self._tx)
        return str(session["integration_branch"] or "") if session else ""

    def _own(self, unit: Unit) -> str:
        waits = unit.due_at is not None and unit.due_at > self._now
        last, _ = runs.last_end(self._tx, unit) if waits else ("", "")
        return standing(unit, self._now, last, self.branch(unit))

    def _detail(self, unit: Unit) -> str:
        if unit.hold_kind is not None:
            return one_line(unit.hold_detail, 160)
        if unit.reverted_at is not None:
            return f"at {rfc3339(unit.reverted_at)}; it had ended with {unit.verdict or unit.status}"
        if unit.due_at is not None and unit.due_at > self._now:
            left = drawn_in(unit.due_at, unit.updated_at, self._now) - self._now
            code, said = runs.last_end(self._tx, unit)
            told = f"; {one_line(said, 160)}" if code in _BY_PROVIDER and said else ""
            return f"due in {brief_duration(left)}{told}"
        if unit.open_blockers:
            upstream = relations.upstream(self._tx, unit.id)
            return "after " + ", ".join(other.id for other in upstream if not other.terminal)
        return ""

    def _obstacle(self, unit: Unit) -> Obstacle | None:
        if self._own(unit) != READY:
            return None
        return self._stopped or (None if self._has_begun(unit) else self._full)

    def _has_begun(self, unit: Unit) -> bool:
        """Whether it goes on even when nothing new is begun."""
        if unit.attempt > 0 or unit.base_commit is not None:
            return True
        parent = units.find(self._tx, unit.parent_id or "")
        return parent is not None and parent.type == "slice" and parent.base_commit is not None

    @cached_property
    def _stopped(self) -> Obstacle | None:
        """Why nothing at all is dispatched."""
        session = sessions.current(self._tx)
        if session is not None and session["status"] == "paused":
            return Obstacle("paused", session["detail"] or "by the operator", "sf resume")
        asked = next((item for item in attention.waiting(self._tx) if item.kind == SESSION_BUDGET), None)
        if asked is not None:
            return Obstacle("waits for budget", one_line(asked.question, 1000), "sf attention")
        return None

    @cached_property
    def _full(self) -> Obstacle | None:
        """Why nothing new is begun."""
        crowded = disk.crowded(disk.last(self._project))
        if crowded:
            return Obstacle("waits for disk room", crowded, "sf clean, or raise max_worktrees_gb")
        questions = len(attention.waiting(self._tx))
        full = back_pressure(questions, self._most_questions()) if questions else ""
        return Obstacle("waits for answers", full, "sf attention") if full else None

    def _most_questions(self) -> int:
        """Read only when it matters: most looks do without the configuration, and one that is unusable."""
        from sf.app.trust import load_config

        try:
            return load_config(self._project).attention.max_waiting
        except SfError:
            return len(attention.waiting(self._tx))


def branch_of(metadata: dict[str, object], otherwise: str) -> str:
    """The branch that a unit's metadata names, else that of its session."""
    return str(metadata.get("integration_branch") or otherwise)
