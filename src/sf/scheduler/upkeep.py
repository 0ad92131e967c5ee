"""What falls due by itself: claims to renew or to sweep, units and questions whose time has come, holds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

from sf.domain.clock import Instant, drawn_in, has_passed
from sf.domain.units import Status
from sf.errors import SfError, WorkspaceFailed
from sf.harness.desk import Desk
from sf.harness.rules import Rules
from sf.scheduler import claims, rechecks, recovery, replies
from sf.store import attention, glance, leases, units
from sf.store.glance import Glance
from sf.store.tx import Tx

_RENEW_MS = 20_000
_RECHECK_MS = 2_000
_AFTER_FAILURE_MS = 60_000


class Upkeep:
    """Sees to what is due, for the claims of one holder."""

    def __init__(self, desk: Desk, holder: str) -> None:
        self._desk = desk
        self._holder = holder
        self._renewed_at = 0
        self._rechecked_at = 0
        self._ended = 0
        """How many runs had ended when what is held was last looked at for their sake."""
        self._recheck_ms = _RECHECK_MS
        self._seen_at: Instant | None = None

    def look(self) -> Glance:
        """What is open now."""
        desk = self._desk
        return glance.look(desk.database.read, self._holder, desk.clock.now(), desk.station)

    async def see_to(self, seen: Glance, *, running: bool, ended: int) -> Glance:
        """Do what is due, where so many runs have ended by now; what is open afterwards."""
        now = self._desk.clock.now()
        if self._seen_at is None or now < self._seen_at:
            await self._draw_in(now)
            seen = self.look()
        self._seen_at = now
        # Our own claims are renewed before others' are swept: a laptop that slept is not a crash.
        if running:
            await self._renew(now)
        if not running and ended != self._ended:
            # What the last run held may be what a parked unit waits for, and the loop may end with this look.
            self._rechecked_at, self._ended = 0, ended
        done = [await self._sweep(seen, now), await self._wake_due(seen, now)]
        freed = await self._recheck_held(now)
        # Who was let go now may begin first: what it will spend is not to be promised to another as well.
        done += [freed, not freed and await self._answer_due(seen, now)]
        return self.look() if any(done) else seen

    async def keep_claims(self, is_running: Callable[[], bool]) -> None:
        """Renew the claims of what runs for as long as this is not cancelled.

        A tick may last longer than a claim: it tells hooks of one unit after the other, and waits for git.
        """
        while True:
            await asyncio.sleep(_RENEW_MS / 1000)
            if is_running():
                # The tick tries it again, and tells what is wrong with the store.
                with contextlib.suppress(SfError):
                    await self._renew(self._desk.clock.now())

    async def _renew(self, now: Instant) -> None:
        if has_passed(_RENEW_MS, self._renewed_at, now):
            until = Instant(now + claims.LEASE_MS)
            await self._desk.database.write(lambda tx: leases.renew(tx, self._holder, until))
            self._renewed_at = now

    async def _draw_in(self, now: Instant) -> None:
        """The clock was set back, perhaps before this start: nothing waits longer than it was meant to."""
        rules, station, obstacles = self._desk.rules, self._desk.station, self._desk.obstacles
        obstacles.update({name: replace(each, look_again_at=now) for name, each in obstacles.items()})
        if self.look().next_due is not None:
            await self._desk.database.write(lambda tx: draw_in(tx, station, rules, now))

    async def _sweep(self, seen: Glance, now: Instant) -> bool:
        if not seen.expired:
            return False
        rules, station = self._desk.rules, self._desk.station
        await self._desk.database.write(lambda tx: recovery.sweep(tx, self._holder, station, rules, now))
        return True

    async def _wake_due(self, seen: Glance, now: Instant) -> bool:
        if seen.unit_due is None or seen.unit_due > now:
            return False
        await self._desk.database.write(lambda tx: leases.wake_due(tx, now, self._desk.station))
        return True

    async def _recheck_held(self, now: Instant) -> bool:
        """Let units go whose condition someone else has changed meanwhile; whether any may have been."""
        if not has_passed(self._recheck_ms, self._rechecked_at, now):
            return False
        self._rechecked_at = now
        self._recheck_ms = _RECHECK_MS
        try:
            return await rechecks.recheck(self._desk, now) > 0
        except (WorkspaceFailed, OSError) as error:
            # What is only held ends nobody's session.
            self._recheck_ms = _AFTER_FAILURE_MS
            self._desk.log.warning("the checkout could not be looked at", error=str(error))
            return True

    async def _answer_due(self, seen: Glance, now: Instant) -> bool:
        """Questions that nobody answered in time get their default."""
        if seen.question_due is None or seen.question_due > now:
            return False
        rules, station = self._desk.rules, self._desk.station
        answered = await self._desk.database.write(lambda tx: replies.answer_due(tx, rules, now, station))
        if answered:
            self._desk.log.warning("answered by default", questions=", ".join(answered))
        return True


def draw_in(tx: Tx, station: str, rules: Rules, now: Instant) -> None:
    """Let units and questions that were given a due time by a clock that has been set back wait from now.

    What may have no default does not wait for its time at all.
    """
    for unit in units.due_later(tx, station):
        assert unit.due_at is not None
        longest = rules.base.max_backoff_ms if unit.status is Status.FAILED else None
        due = drawn_in(unit.due_at, unit.updated_at, now, longest)
        if due != unit.due_at:
            leases.postpone(tx, unit.id, due, now)
    replies.drop_unlawful(tx)
    for item in attention.waiting(tx):
        if replies.is_elsewhere(tx, item, station):
            # Given its time by another clock, which has not been set back.
            continue
        if item.due_at is not None and (due := drawn_in(item.due_at, item.created_at, now)) != item.due_at:
            attention.postpone(tx, item.id, due, now)
