"""The scheduling loop, the only authority over what runs. Each tick: look, apply, dispatch, wait."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Literal

import msgspec

from sf.config.reload import LiveConfig
from sf.config.schema import Config
from sf.domain import events
from sf.domain.clock import Instant
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.errors import HookFailed, HookTimeout
from sf.harness.attempt import hook_variables
from sf.harness.desk import Desk
from sf.harness.results import unit_result
from sf.paths import DRIFT_FILE
from sf.scheduler import admission, claims, closing, intents, rechecks, recovery, replies
from sf.scheduler.admission import Selection
from sf.scheduler.conduct import Conduct
from sf.scheduler.housekeeping import Housekeeper
from sf.scheduler.purse import Purse
from sf.scheduler.roster import Roster
from sf.store import attention, sessions, units
from sf.store.tx import Tx

Ending = Literal["done", "waiting", "paused", "budget", "failed", "interrupted"]
_RENEW_MS = 20_000
_RECHECK_MS = 2_000


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
        self._holder = holder
        self._host = socket.gethostname()
        self._apply_config = apply_config
        self._selection = selection or Selection()
        self._wake = asyncio.Event()
        self._purse = Purse(desk)
        self._roster = Roster(desk, conduct, self._purse, self._fail, self.wake)
        self._wound_up: set[str] = set()
        self._to_mark: list[str] = []
        self._abandoned: list[str] = []
        self._started_at = desk.clock.now()
        self._dispatched = 0
        self._paused = False
        self._stopping = False
        self._failure = ""
        self._renewed_at = 0
        self._rechecked_at = 0

    def wake(self) -> None:
        """Look again at once."""
        self._wake.set()

    def stop(self) -> None:
        """End soon: running work is interrupted, nothing is charged."""
        self._stopping = True
        self._roster.stop("shutdown")
        self.wake()

    async def run(self) -> Result:
        """Run until idle, paused, stopped or failed."""
        desk = self._desk
        desk.pausing = lambda: self._paused
        unsubscribe = desk.bus.subscribe(self._on_event)
        try:
            await recovery.recover(desk)
            while not self._over():
                await self._tick()
                if self._idle():
                    break
                await self._wait()
            await self._roster.end()
            await self._close_units()
            await self._mark_wound_up()
            return self._result()
        finally:
            await self._roster.end()
            (desk.project.runtime / DRIFT_FILE).unlink(missing_ok=True)
            unsubscribe()

    def _over(self) -> bool:
        return self._stopped() and not self._roster

    def _stopped(self) -> bool:
        """Whether nothing more is to be dispatched."""
        return self._stopping or self._paused or bool(self._failure or self._purse.empty)

    def _idle(self) -> bool:
        return not self._roster and not self._waits_for_time() and not self._wake.is_set()

    def _waits_for_time(self) -> bool:
        """Whether something that may be dispatched is due later."""
        read, selection = self._desk.database.read, self._selection
        if selection.spent(self._dispatched):
            return False
        if selection.only is None:
            return self._next_due() is not None
        return any(unit.due_at is not None and selection.covers(unit) for unit in units.listed(read))

    async def _tick(self) -> None:
        self._wake.clear()
        await self._reload()
        await self._apply_intents()
        await self._keep_claims()
        await self._recheck_held()
        await self._answer_due()
        self._purse.look()
        await self._close_units()
        await self._house.look(idle=not self._roster)
        if not self._stopped():
            await self._dispatch()
        await self._mark_wound_up()
        self._desk.announce(events.AUTO_LOOP, running=len(self._roster))

    async def _wait(self) -> None:
        """Until something happens; the tick is only the fallback."""
        timeout = float(self._desk.config.harness.tick)
        due = self._next_due()
        if due is not None:
            timeout = min(timeout, max(0.0, (due - self._desk.clock.now()) / 1000))
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return

    def _next_due(self) -> Instant | None:
        """When the next unit, or the default answer to the next question, is due."""
        read = self._desk.database.read
        found = [
            due
            for due in (units.next_due(read, self._desk.station), attention.next_due(read))
            if due is not None
        ]
        return min(found, default=None)

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
        (self._desk.project.runtime / DRIFT_FILE).write_bytes(msgspec.json.encode(lines))
        self._apply_config(self._live.current)
        self._desk.announce(events.CONFIG_RELOADED, drift=[item.key for item in reloaded.drift])

    async def _apply_intents(self) -> None:
        read = self._desk.database.read
        if sessions.open_intents(read):
            rules, now = self._desk.rules, self._desk.clock.now()
            applied = await self._desk.database.write(lambda tx: intents.apply_open(tx, rules, now))
            for kind, answer in applied:
                if kind == "abandon" and answer.get("now"):
                    self._roster.cancel(answer.get("running", []))
        session = sessions.current(read)
        self._paused = session is not None and session["status"] == "paused"

    async def _keep_claims(self) -> None:
        """Renew our own claims before sweeping those of others: a laptop that slept is not a crash."""
        now = self._desk.clock.now()
        if self._roster and now - self._renewed_at >= _RENEW_MS:
            self._renewed_at = now
            until = Instant(now + claims.LEASE_MS)
            await self._desk.database.write(lambda tx: units.renew(tx, self._holder, until))
        if units.expired(self._desk.database.read, self._holder, now, self._desk.station):
            rules = self._desk.rules
            await self._desk.database.write(
                lambda tx: recovery.sweep(tx, self._holder, self._desk.station, rules, now)
            )
        station = self._desk.station
        due = units.next_due(self._desk.database.read, station)
        if due is not None and due <= now:
            await self._desk.database.write(lambda tx: units.wake_due(tx, now, station))

    async def _recheck_held(self) -> None:
        """Let units go whose condition someone else has changed meanwhile."""
        now = self._desk.clock.now()
        if now - self._rechecked_at < _RECHECK_MS:
            return
        self._rechecked_at = now
        await rechecks.recheck(self._desk, now)

    async def _answer_due(self) -> None:
        """Questions that nobody answered in time get their default."""
        now, rules = self._desk.clock.now(), self._desk.rules
        due = attention.next_due(self._desk.database.read)
        if due is not None and due <= now:
            answered = await self._desk.database.write(lambda tx: replies.answer_due(tx, rules, now))
            self._desk.log.warning("answered by default", questions=", ".join(answered))

    async def _close_units(self) -> None:
        """Wind terminal units up one after the other; nothing is dispatched meanwhile."""
        for unit in units.to_wind_up(self._desk.database.read, self._desk.station):
            if unit.id in self._wound_up:
                continue
            self._wound_up.add(unit.id)
            try:
                await closing.close(self._desk, unit)
            except HookFailed as error:
                self._fail(f"a PostUnit hook refused {unit.id}: {error.message}")
            except OSError as error:
                # Not marked: the next session tries again.
                self._desk.log.error(
                    "winding up failed", unit_id=unit.id, unit_type=unit.type, error=str(error)
                )
                self._desk.announce(events.WARNING, unit.id, detail=f"could not be wound up: {error}")
                continue
            self._to_mark.append(unit.id)

    async def _mark_wound_up(self) -> None:
        if self._to_mark:
            await self._desk.database.write(self._write_marks)
            self._to_mark.clear()

    def _write_marks(self, tx: Tx) -> None:
        """In whatever transaction comes next: a mark needs no commit of its own."""
        for unit_id in self._to_mark:
            units.wound_up(tx, unit_id, self._desk.clock.now())

    async def _dispatch(self) -> None:
        running = self._roster.units
        caps = self._desk.config.harness.concurrency
        read = self._desk.database.read
        full = attention.count(read) > self._desk.config.attention.max_waiting or bool(self._house.crowded)
        for unit in admission.admit(
            read,
            caps,
            running,
            self._selection,
            self._dispatched,
            station=self._desk.station,
            begun_only=full,
        ):
            if self._selection.spent(self._dispatched):
                return
            if not await self._may_dispatch(unit):
                return
            await self._claim(unit)

    async def _claim(self, unit: Unit) -> None:
        now, rules, station = self._desk.clock.now(), self._desk.rules, self._desk.station

        def write(tx: Tx) -> Lease | None:
            self._write_marks(tx)
            return claims.take(
                tx, unit, holder=self._holder, host=self._host, station=station, rules=rules, now=now
            )

        lease = await self._desk.database.write(write)
        self._to_mark.clear()
        if lease is not None:
            self._dispatched += 1
            self._roster.start(units.get(self._desk.database.read, unit.id), lease)

    async def _may_dispatch(self, unit: Unit) -> bool:
        """Ask the PreDispatch hooks; a refusal stops the session."""
        self._desk.announce(events.PRE_DISPATCH, unit.id, phase=unit.phase.value)
        if not self._desk.hooks.commands("pre_dispatch"):
            return True
        try:
            await self._desk.hooks.run(
                "pre_dispatch",
                unit_result(self._desk, unit, verdict="pending"),
                cwd=self._desk.project.root,
                trace_id=unit.id,
                variables=hook_variables(self._desk, unit, "", unit.workspace or ""),
            )
        except (HookFailed, HookTimeout) as error:
            self._fail(f"a PreDispatch hook refused {unit.id}: {error.message}")
            return False
        return True

    def _fail(self, reason: str) -> None:
        """A hook's refusal or a store that cannot be written ends the session."""
        self._failure = self._failure or reason
        self._desk.log.error("session failed", reason=reason)
        self._desk.announce(events.WARNING, detail=reason)
        self.wake()

    def _on_event(self, event: events.Event) -> None:
        if event.name == events.UNIT_CLOSED and event.data["verdict"] != "success":
            self._abandoned.append(event.unit_id)

    def _result(self) -> Result:
        held = tuple(unit.id for unit in units.held(self._desk.database.read, self._desk.station))
        ending, detail = self._ending(held)
        return Result(ending, detail, held, tuple(self._abandoned), self._started_at)

    def _ending(self, held: tuple[str, ...]) -> tuple[Ending, str]:
        if self._failure:
            return "failed", self._failure
        if self._paused:
            return "paused", "paused by the operator"
        if self._purse.empty:
            return "budget", self._purse.empty
        if self._stopping:
            return "interrupted", ""
        if held:
            return "waiting", ""
        left = units.open_count(self._desk.database.read, self._desk.station)
        if left and self._house.crowded:
            return "waiting", self._house.crowded
        if left and self._selection == Selection():
            return "failed", f"{left} open unit(s) can neither run nor wait for anything: sf doctor"
        return "done", ""
