"""What falls due by itself: claims to renew or to sweep, units and questions whose time has come, holds."""

from __future__ import annotations

from sf.domain.clock import Instant
from sf.harness.desk import Desk
from sf.scheduler import claims, rechecks, recovery, replies
from sf.store import glance, leases
from sf.store.glance import Glance

_RENEW_MS = 20_000
_RECHECK_MS = 2_000


class Upkeep:
    """Sees to what is due, for the claims of one holder."""

    def __init__(self, desk: Desk, holder: str) -> None:
        self._desk = desk
        self._holder = holder
        self._renewed_at = 0
        self._rechecked_at = 0

    def look(self) -> Glance:
        """What is open now."""
        desk = self._desk
        return glance.look(desk.database.read, self._holder, desk.clock.now(), desk.station)

    async def see_to(self, seen: Glance, *, running: bool) -> Glance:
        """Do what is due; what is open afterwards."""
        now = self._desk.clock.now()
        # Our own claims are renewed before others' are swept: a laptop that slept is not a crash.
        if running and now - self._renewed_at >= _RENEW_MS:
            self._renewed_at = now
            until = Instant(now + claims.LEASE_MS)
            await self._desk.database.write(lambda tx: leases.renew(tx, self._holder, until))
        done = [await self._sweep(seen, now), await self._wake_due(seen, now)]
        done += [await self._recheck_held(now), await self._answer_due(seen, now)]
        return self.look() if any(done) else seen

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
        """Let units go whose condition someone else has changed meanwhile."""
        if now - self._rechecked_at < _RECHECK_MS:
            return False
        self._rechecked_at = now
        await rechecks.recheck(self._desk, now)
        return True

    async def _answer_due(self, seen: Glance, now: Instant) -> bool:
        """Questions that nobody answered in time get their default."""
        if seen.question_due is None or seen.question_due > now:
            return False
        rules = self._desk.rules
        answered = await self._desk.database.write(lambda tx: replies.answer_due(tx, rules, now))
        if answered:
            self._desk.log.warning("answered by default", questions=", ".join(answered))
        return True
