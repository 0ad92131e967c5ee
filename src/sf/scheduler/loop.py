"""The scheduling loop, the only authority over what runs. Each tick: look, apply, dispatch, wait.

While it waits, what takes the room of a run that ends may be claimed right behind its settlement.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from sf.config.reload import LiveConfig
from sf.config.schema import Config
from sf.domain import events
from sf.domain.attention import back_pressure
from sf.domain.clock import Instant
from sf.domain.phases import Phase
from sf.domain.units import Unit
from sf.errors import HookFailed, StoreUnusable
from sf.harness.desk import Desk
from sf.paths import DRIFT_FILE
from sf.scheduler import admission, claims, intents, recovery, unit_hooks
from sf.scheduler.admission import Selection
from sf.scheduler.claims import Claimant
from sf.scheduler.conduct import Conduct
from sf.scheduler.housekeeping import Housekeeper
from sf.scheduler.purse import Purse
from sf.scheduler.roster import Roster
from sf.scheduler.succession import Succession
from sf.scheduler.upkeep import Upkeep
from sf.scheduler.winding import Winding
from sf.store import sessions, units
from sf.store.glance import Glance

_READY_LATE = "a unit became ready at the very end: sf auto"
Ending = Literal["done", "waiting", "paused", "budget", "failed", "interrupted"]


class Result(msgspec.Struct, frozen=True):
    """How the loop ended, and what it left waiting."""

    ending: Ending
    detail: str = ""
    held: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    """Units that ended without success in this run of the loop."""
    started_at: Instant = Instant(0)


class Loop:
    """Dispatches until nothing is left that could run."""

    def __init__(
        self,
        desk: Desk,
        live: LiveConfig,
        conduct: Conduct,
        holder: str,
        *,
        apply_config: Callable[[Config], None] = lambda config: None,
        selection: Selection | None = None,
    ) -> None:
        self._desk = desk
        self._house = Housekeeper(desk)
        self._live = live
        self._claimant = Claimant(holder, socket.gethostname(), desk.station)
        self._apply_config = apply_config
        self._selection = selection or Selection()
        self._wake = asyncio.Event()
        self._upkeep = Upkeep(desk, holder)
        self._purse = Purse(desk)
        self._roster = Roster(
            desk, conduct, self._purse, self._fail, lambda: self._succession.follow(), self._ended
        )
        self._winding = Winding(desk, self._abort)
        self._succession = Succession(
            desk,
            self._claimant,
            self._roster,
            self._winding,
            may=self._may_follow,
            begin=self._begin,
            fail=self._fail,
            wake=self.wake,
        )
        self._abandoned: list[str] = []
        self._started_at = desk.clock.now()
        self._dispatched = 0
        self._paused = False
        self._stopping = self._closed = False
        self._failure = ""
        self._due: Instant | None = None

    def wake(self) -> None:
        """Look again at once."""
        self._wake.set()

    def stop(self) -> None:
        """End soon: running work is interrupted, nothing is charged."""
        if not self._stopping:
            self._desk.announce(events.STOPPING, running=len(self._roster))
        self._stopping = True
        self._roster.stop("shutdown")
        self.wake()

    async def run(self) -> Result:
        """Run until idle, paused, stopped or failed."""
        desk = self._desk
        desk.pausing = lambda: self._paused
        unsubscribe = desk.bus.subscribe(self._on_closed, events.UNIT_CLOSED)
        renewal = asyncio.create_task(self._upkeep.keep_claims(lambda: bool(self._roster)))
        try:
            await recovery.recover(desk)
            await self._purse.begin()
            while not self._over():
                await self._tick()
                if self._idle() or self._is_out_of_money():
                    break
                await self._wait()
            await self._roster.end()
            await self._winding.wind_up()
            await self._winding.mark()
            return self._result()
        except StoreUnusable as error:
            if not self._stopping:
                raise
            self._fail(f"what was under way could not be written down: {error.line()}")
            return Result("interrupted", abandoned=tuple(self._abandoned), started_at=self._started_at)
        finally:
            # What is still being claimed, if this was canceled twice, is not to begin.
            self._closed = True
            await self._succession.over()
            await self._roster.end()
            renewal.cancel()
            (desk.project.runtime / DRIFT_FILE).unlink(missing_ok=True)
            unsubscribe()

    async def apply_late(self, result: Result) -> Result:
        """Apply what was asked for after the end; what that makes ready is left to the next start."""
        if not self._upkeep.look().intents:
            return result
        rules, now = self._desk.rules, self._desk.clock.now()
        await self._desk.database.write(lambda tx: intents.apply_open(tx, rules, now))
        seen = self._upkeep.look()
        await self._purse.look(seen, running=0)
        at_rest = result.ending in ("done", "waiting", "budget") and seen.session != "paused"
        if not at_rest or self._purse.empty or not self._admitted(()):
            return result
        return msgspec.structs.replace(result, ending="waiting", detail=_READY_LATE, held=self._held())

    def _over(self) -> bool:
        return self._stopped() and not self._roster

    def _stopped(self) -> bool:
        """Whether nothing more is to be dispatched for good."""
        return self._stopping or self._closed or self._paused or bool(self._failure)

    def _halted(self) -> bool:
        """Whether nothing is to be dispatched now."""
        return self._stopped() or bool(self._purse.empty)

    def _is_out_of_money(self) -> bool:
        """Whether nothing can be paid: asked after a tick, for the last run's end may have left room."""
        empty = bool(self._purse.empty) and not self._purse.waits
        return empty and not self._roster and not self._wake.is_set()

    def _idle(self) -> bool:
        return not self._roster and not self._waits_for_time() and not self._wake.is_set()

    def _waits_for_time(self) -> bool:
        """Whether something that may be dispatched is due later, or came due since the tick looked."""
        desk, selection = self._desk, self._selection
        if selection.spent(self._dispatched):
            return False
        if self._purse.empty and self._purse.waits:
            return True
        if selection.only is None:
            seen = self._upkeep.look()
            return seen.next_due is not None or seen.expired > 0
        return any(selection.covers(unit) for unit in units.due_later(desk.database.read, desk.station))

    async def _tick(self) -> None:
        self._wake.clear()
        await self._reload()
        seen = await self._apply_intents(self._upkeep.look())
        running = len(self._roster)
        seen = await self._upkeep.see_to(seen, running=running > 0, ended=self._dispatched - running)
        if await self._purse.look(seen, running=len(self._roster)):
            seen = self._upkeep.look()
        await self._winding.wind_up()
        await self._house.look(idle=not self._roster)
        if not self._halted():
            seen = await self._dispatch(seen)
        self._due = seen.next_due
        await self._winding.mark()
        self._desk.announce(events.AUTO_LOOP, running=len(self._roster))

    async def _wait(self) -> None:
        """Until something happens; the tick is only the fallback."""
        timeout = float(self._desk.config.harness.tick)
        if self._due is not None:
            timeout = min(timeout, max(0.0, (self._due - self._desk.clock.now()) / 1000))
        async with self._succession.allowed():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()

    # --- each part of a tick ---

    async def _reload(self) -> None:
        reloaded = await self._live.poll()
        if reloaded is None:
            return
        if reloaded.problems:
            self._desk.log.warning(
                "config reload failed, the last good one stays", problems="; ".join(reloaded.problems)
            )
            self._desk.announce(events.WARNING, detail="configuration not reloaded: " + reloaded.problems[0])
            return
        for drift in reloaded.drift:
            self._desk.log.warning("config drift", field=drift.key, running=drift.running, file=drift.file)
        # What `sf status` shows as drift; the file goes when the session ends.
        lines = [item.told() for item in self._live.drift]
        self._desk.project.runtime.mkdir(parents=True, exist_ok=True)
        (self._desk.project.runtime / DRIFT_FILE).write_bytes(msgspec.json.encode(lines))
        self._apply_config(self._live.current)
        self._desk.announce(events.CONFIG_RELOADED, drift=[item.key for item in reloaded.drift])

    async def _apply_intents(self, seen: Glance) -> Glance:
        if seen.intents:
            rules, now = self._desk.rules, self._desk.clock.now()

            await self._desk.database.write(lambda tx: intents.apply_open(tx, rules, now))
            seen = self._upkeep.look()
        if seen.session in sessions.AT_REST:
            # Resumed, or ended, perhaps by a command or an autopilot of another folder.
            await self._desk.database.write(lambda tx: sessions.go_on(tx, self._desk.clock.now()))
            seen = self._upkeep.look()
        if seen.called_off:
            # Perhaps by the autopilot of another folder, which cannot reach a run of ours.
            self._roster.cancel(intents.called_off_at_once(self._desk.database.read))
        self._paused = seen.session == "paused"
        return seen

    async def _dispatch(self, seen: Glance) -> Glance:
        full = seen.questions > self._desk.config.attention.max_waiting or bool(self._house.crowded)
        found = self._admitted(self._roster.phases(), begun_only=full)
        # A hook may take its time: what it allowed does not wait for what it is asked next.
        hooked = bool(self._desk.hooks.commands("pre_dispatch"))
        while found and not self._selection.spent(self._dispatched):
            most = 1 if hooked else self._selection.left(self._dispatched)
            batch, found = found[:most], found[most:]
            for unit in batch:
                if self._halted() or not await self._may_dispatch(unit):
                    return seen
                if hooked:
                    # A hook takes its time: whoever stopped the session meanwhile wants nothing more begun.
                    seen = await self._apply_intents(self._upkeep.look())
                if self._halted():
                    return seen
            if await self._claim(batch) < len(batch):
                # One may have been parked with a question that has a deadline.
                seen = self._upkeep.look()
        return seen

    def _admitted(self, running: Sequence[Phase], *, begun_only: bool = False) -> list[Unit]:
        """What could be dispatched now, beside what is running."""
        return admission.admit(
            self._desk.database.read,
            self._desk.config.harness.concurrency,
            running,
            self._selection,
            self._dispatched,
            station=self._desk.station,
            begun_only=begun_only,
        )

    async def _claim(self, batch: list[Unit]) -> int:
        """Take the units in one transaction and begin the runs of those that could be taken; how many."""
        now, rules, claimant = self._desk.clock.now(), self._desk.rules, self._claimant
        out_of_turn = self._selection.force is not None
        taken, changed = await self._winding.marking(
            lambda tx: claims.take_seen(tx, batch, claimant, rules, now, out_of_turn=out_of_turn)
        )
        if changed:
            # Another autopilot may have been first: what is left to do is not what this tick saw.
            self.wake()
        self._begin(taken)
        return len(taken)

    def _begin(self, taken: claims.Taken) -> None:
        """Begin the runs of units that were claimed."""
        self._dispatched += len(taken)
        for unit, lease in taken:
            self._roster.start(unit, lease)
            if self._halted():
                # While it was claimed.
                self._roster.take_back(lease.run_id)

    def _ended(self) -> None:
        """A run has ended; whoever looks for what follows one wakes the tick, if there is need."""
        if not self._succession.is_under_way:
            self.wake()

    def _may_follow(self) -> bool:
        """Whether what takes a run's room may be claimed behind its settlement: if only rows decide that.

        Hooks around units are asked and told in their order, by the tick, and so is a choice of units made.
        """
        hooks = self._desk.hooks
        is_hooked = hooks.commands("pre_dispatch") or hooks.commands("post_unit")
        is_ending = self._halted() or self._roster.is_unconfigured
        return self._selection.is_all and not (is_hooked or is_ending or self._house.crowded)

    async def _may_dispatch(self, unit: Unit) -> bool:
        """Ask the PreDispatch hooks; a refusal stops the session."""
        self._desk.announce(events.PRE_DISPATCH, unit.id, phase=unit.phase.value)
        try:
            await unit_hooks.ask(self._desk, unit)
        except HookFailed as error:
            self._abort(f"a PreDispatch hook refused {unit.id}: {error.message}")
            return False
        return True

    def _abort(self, reason: str) -> None:
        """A hook's refusal: nothing goes on, and what is interrupted is not charged."""
        self._fail(reason)
        self._roster.stop("shutdown")

    def _fail(self, reason: str) -> None:
        """A hook's refusal or a store that cannot be written ends the session.

        One that somebody is stopping was interrupted, whatever fails on the way.
        """
        if not self._stopping:
            self._failure = self._failure or reason
        self._desk.log.error("session failed", reason=reason)
        self._desk.announce(events.WARNING, detail=reason)
        self.wake()

    def _on_closed(self, event: events.Event) -> None:
        if event.data["verdict"] != "success":
            self._abandoned.append(event.unit_id)

    def _result(self) -> Result:
        held = self._held()
        ending, detail = self._ending(held)
        return Result(ending, detail, held, tuple(self._abandoned), self._started_at)

    def _held(self) -> tuple[str, ...]:
        return tuple(unit.id for unit in units.held(self._desk.database.read, self._desk.station))

    def _ending(self, held: tuple[str, ...]) -> tuple[Ending, str]:
        if self._failure:
            return "failed", self._failure
        if self._paused:
            return "paused", "paused by the operator"
        if self._stopping:
            return "interrupted", ""
        if self._purse.empty:
            return "budget", self._purse.empty
        if held:
            return "waiting", ""
        left = units.open_count(self._desk.database.read, self._desk.station)
        if left and self._house.crowded:
            return "waiting", self._house.crowded
        if left and self._selection.is_all:
            full = back_pressure(self._upkeep.look().questions, self._desk.config.attention.max_waiting)
            if full:
                return "waiting", full
            if self._admitted(()):
                return "waiting", _READY_LATE
            return "failed", f"{left} open unit(s) can neither run nor wait for anything: sf doctor"
        return "done", ""
