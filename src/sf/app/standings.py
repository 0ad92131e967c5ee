"""Where each unit stands, for people: its one reason, be it its own, the session's or the disk's."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

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
from sf.store import attention, leases, relations, runs, sessions, units
from sf.store.sessions import seat_of
from sf.store.tx import Tx

if TYPE_CHECKING:
    from sf.config.schema import Concurrency, Config

RUN = "sf auto"
"""What brings on a unit that waits for nothing else."""
CUT_OFF = "cut off"
"""The standing of a unit whose run has nobody any more who carries it on."""
ENDING = "ending"
"""The standing of a unit that was called off and whose run still ends."""
NO_SLOT = "waits for a slot"
"""The standing of a unit that an autopilot begins as soon as another run has ended."""
_BY_PROVIDER = frozenset({QuotaWait.code, Unreachable.code})
"""Waits of which it is told what the provider said, or why it was not reached."""


_NAMED = 5
"""How many of the units that one waits for are named."""


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
    reserved_micro_usd: int = 0
    """The part of it that is reserved for a request under way."""
    tokens: int = 0
    elapsed_ms: int = 0
    due_in_ms: int = 0
    """How long it waits yet, where its wait has an end."""
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
        at_it = unit.status is Status.RUNNING or is_ending(unit)
        live = runs.live_of_unit(self._tx, unit.id) if at_it else None
        spent = runs.spent_by_run(self._tx, live.id) if live else None
        return UnitLine(
            id=unit.id,
            type=unit.type,
            title=unit.title,
            phase=unit.phase.value,
            standing=self.word(unit),
            detail=self._placed(unit, self._detail(unit)),
            attempt=unit.attempt,
            cost_micro_usd=spent["cost_micro_usd"] if spent else 0,
            reserved_micro_usd=spent["reserved_micro_usd"] if spent else 0,
            tokens=spent["input_tokens"] + spent["output_tokens"] if spent else 0,
            elapsed_ms=self._now - live.started_at if live and not self._is_cut_off(unit) else 0,
            due_in_ms=self._left(unit),
            branch="" if unit.parent_id else self.branch(unit),
        )

    def word(self, unit: Unit) -> str:
        """The one reason for which an open unit is not running, or what it does, as a word or few."""
        if self._is_cut_off(unit):
            return CUT_OFF
        if is_ending(unit):
            return ENDING
        obstacle = self._obstacle(unit)
        return obstacle.word if obstacle else self._own(unit)

    def reason(self, unit: Unit) -> str:
        """The word, with everything that explains it."""
        detail = self._detail(unit)
        if unit.terminal and unit.hold_detail and unit.reverted_at is None and not is_ending(unit):
            detail = unit.hold_detail
        if unit.hold_kind is not None:
            detail = one_line(unit.hold_detail, 1000)
        obstacle = self._obstacle(unit)
        if obstacle:
            detail = obstacle.detail
        detail = self._placed(unit, detail)
        return self.word(unit) + (f": {detail}" if detail else "")

    def way_out(self, unit: Unit) -> str:
        """What a person does that such a unit goes on; empty where it goes on by itself, or is held."""
        cut_off = self._is_cut_off(unit)
        obstacle = self._stopped if cut_off else self._obstacle(unit)
        if obstacle:
            return obstacle.way_out
        waits = (self.is_due(unit) or is_ending(unit)) and not self._is_seen_to(unit)
        if not (waits or cut_off):
            return ""
        return f"{RUN} in the folder {unit.station}" if self._is_elsewhere(unit) else RUN

    def is_due(self, unit: Unit) -> bool:
        """Whether an autopilot would run it, now or by its time."""
        return eligible(unit, max(self._now, unit.due_at or self._now))

    @cached_property
    def at_work(self) -> bool:
        """Whether an autopilot runs, here or for another folder on the same store."""
        return self._at_work_here or bool(self._seated)

    @cached_property
    def _at_work_here(self) -> bool:
        holder = lock.is_held(self._project.lock)
        return holder is not None and holder.purpose == lock.AUTOPILOT

    @cached_property
    def _seated(self) -> list[str]:
        """Who has a seat at a store on a server."""
        return sessions.seated(self._tx)

    def _is_elsewhere(self, unit: Unit) -> bool:
        """Whether it is bound to another folder on the same store."""
        return unit.station not in (None, "", self._project.key)

    def _placed(self, unit: Unit, detail: str) -> str:
        """What is told of a unit, with the folder that has it where that is another one."""
        if unit.terminal or not self._is_elsewhere(unit):
            return detail
        return "; ".join(part for part in (detail, f"in the folder {unit.station}") if part)

    def _is_seen_to(self, unit: Unit) -> bool:
        """Whether an autopilot runs that may take it, or that carries its run on."""
        if not unit.station:
            return self.at_work
        if not self._is_elsewhere(unit):
            return self._at_work_here
        if unit.status is Status.RUNNING:
            return seat_of(unit.claim_holder or "") in self._seated
        # Of the others nobody here knows which folder they are in.
        return len(self._seated) > int(self._at_work_here)

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
        if is_ending(unit):
            return f"called off: {one_line(unit.hold_detail, 160)}"
        if unit.reverted_at is not None:
            return f"at {rfc3339(unit.reverted_at)}; it had ended with {unit.verdict or unit.status}"
        left = self._left(unit)
        if left:
            code, said = runs.last_end(self._tx, unit)
            told = f"; {one_line(said, 160)}" if code in _BY_PROVIDER and said else ""
            return f"due in {brief_duration(left)}{told}"
        if self._is_cut_off(unit):
            return "sf ended in the middle of the run; what it wrote is kept"
        obstacle = self._obstacle(unit)
        return obstacle.detail if obstacle and obstacle.word == NO_SLOT else self._awaited(unit)

    def _awaited(self, unit: Unit) -> str:
        """Which unit has to end, to go on or to leave the worktree before this one begins."""
        if unit.terminal or unit.status is Status.RUNNING:
            return ""
        before = self._before(unit)
        if not unit.open_blockers and not unit.open_children and before:
            return f"{before[0].id} is {self.word(before[0])}"
        if before:
            return ("after " if unit.open_blockers else "") + _few([other.id for other in before])
        owner = relations.lane_owner(self._tx, unit.parent_id or "") if not unit.lane_open else None
        return f"{owner} has it" if owner else ""

    def _before(self, unit: Unit) -> list[Unit]:
        """The open units that it waits for: those it comes after, else its children, else its container."""
        if unit.open_blockers or unit.open_children:
            found = relations.upstream if unit.open_blockers else relations.children
            return [other for other in found(self._tx, unit.id) if not other.terminal]
        container = units.find(self._tx, unit.parent_id or "") if not unit.parent_ready else None
        return [container] if container is not None else []

    def held_before(self, unit: Unit) -> Unit | None:
        """The nearest unit that waits for a person, of those that this one waits for."""
        seen, near = {unit.id}, self._before(unit)
        while near:
            found = near.pop(0)
            if found.hold_kind is not None:
                return found
            # Many may wait for it: it is looked behind once.
            if found.id not in seen:
                seen.add(found.id)
                near += [other for other in self._before(found) if other.id not in seen]
        return None

    def _left(self, unit: Unit) -> int:
        """How long its wait lasts yet, in milliseconds."""
        if unit.due_at is None or unit.due_at <= self._now:
            return 0
        return drawn_in(unit.due_at, unit.updated_at, self._now) - self._now

    def _obstacle(self, unit: Unit) -> Obstacle | None:
        if self._own(unit) != READY:
            return None
        return self._stopped or (None if self._has_begun(unit) else self._full) or self._no_slot(unit)

    def _no_slot(self, unit: Unit) -> Obstacle | None:
        """Why an autopilot that is at work here has no room for the unit."""
        if not self._at_work_here or unit.station not in (None, self._project.key) or self._caps is None:
            return None
        alike = [other for other in self._busy if other.phase is unit.phase]
        every, most = self._caps.max_agents, self._caps.cap(unit.phase)
        if len(alike) >= most:
            return Obstacle(NO_SLOT, f"{len(alike)} of {most} in {unit.phase} in use", "")
        return (
            Obstacle(NO_SLOT, f"{len(self._busy)} of {every} in use", "")
            if len(self._busy) >= every
            else None
        )

    @cached_property
    def _busy(self) -> list[Unit]:
        """What runs in this folder, also what was called off and still ends."""
        found = [*leases.running(self._tx), *leases.canceled_with_claim(self._tx)]
        return [unit for unit in found if unit.station in (None, self._project.key)]

    @cached_property
    def _caps(self) -> Concurrency | None:
        config = self._config
        return config.harness.concurrency if config else None

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
        config = self._config
        return config.attention.max_waiting if config else len(attention.waiting(self._tx))

    @cached_property
    def _config(self) -> Config | None:
        from sf.app.trust import load_config

        try:
            return load_config(self._project)
        except SfError:
            return None


def is_ending(unit: Unit) -> bool:
    """Whether it was called off while its run was under way, and that has not ended yet."""
    return unit.status is Status.CANCELED and unit.claim_holder is not None


def _few(names: list[str]) -> str:
    """Names in a row, the first of many."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def branch_of(metadata: dict[str, object], otherwise: str) -> str:
    """The branch that a unit's metadata names, else that of its session."""
    return str(metadata.get("integration_branch") or otherwise)
