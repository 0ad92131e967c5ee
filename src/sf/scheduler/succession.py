"""What takes the room that a run's end leaves: claimed right behind the settlement, in its commit.

It is looked for in the transaction that claims it. Where anything else is to be seen to, nothing is taken:
the tick has its order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from sf.domain import events
from sf.domain.units import Unit
from sf.errors import StoreUnusable
from sf.harness.desk import Desk
from sf.scheduler import admission, claims
from sf.scheduler.claims import Claimant, Taken
from sf.scheduler.roster import Roster
from sf.scheduler.winding import Winding
from sf.store import glance, leases
from sf.store.tx import Tx

_REST = 0.05
"""Seconds until the tick sees to what can be seen to together, when the next runs have begun without it."""


class Succession:
    """One look at a time, while the loop waits.

    `may` says whether anything is to be taken at all, also to the writer; `begin` is told what was taken,
    `fail` what ends the session, and `wake` that a tick is due.
    """

    def __init__(
        self,
        desk: Desk,
        claimant: Claimant,
        roster: Roster,
        winding: Winding,
        *,
        may: Callable[[], bool],
        begin: Callable[[Taken], None],
        fail: Callable[[str], None],
        wake: Callable[[], None],
    ) -> None:
        self._desk = desk
        self._claimant = claimant
        self._roster = roster
        self._winding = winding
        self._may = may
        self._begin = begin
        self._fail = fail
        self._wake = wake
        self._is_allowed = False
        self._look: asyncio.Task[None] | None = None
        self._rested: asyncio.TimerHandle | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether something is being looked for."""
        return self._look is not None and not self._look.done()

    @contextlib.asynccontextmanager
    async def allowed(self) -> AsyncIterator[None]:
        """While the loop waits: afterwards everything that was taken has begun. Raises what a look raised."""
        self._is_allowed = True
        try:
            yield
        finally:
            self._is_allowed = False
            await self.over()
            if self._rested is not None:
                self._rested.cancel()
                self._rested = None
        look, self._look = self._look, None
        if look is not None:
            look.result()

    async def over(self) -> None:
        """Wait until what is being looked for has begun, or will not."""
        if self._look is not None:
            await asyncio.wait({self._look})

    def follow(self) -> None:
        """Look for what comes next, behind every settlement that is handed to the writer in this moment.

        A settlement that is handed over later is not waited for: its end wakes the tick.
        """
        if self._is_open() and self._may():
            self._look = asyncio.create_task(self._follow(), name="succession")

    def _is_open(self) -> bool:
        """Whether the loop waits, and no look is under way or has failed."""
        look = self._look
        is_free = look is None or (look.done() and not look.cancelled() and look.exception() is None)
        return self._is_allowed and is_free

    async def _follow(self) -> None:
        at_work = self._roster.at_work()
        is_enough = False
        try:
            taken, is_enough = await self._winding.marking(lambda tx: self._take(tx, at_work))
            self._begin(taken)
        except StoreUnusable as error:
            # Whether it was written may not be known: what was claimed then is found by the next start.
            self._fail(f"what comes next could not be claimed: {error.line()}")
        finally:
            if not is_enough:
                self._wake()
            elif self._rested is None:
                self._rested = asyncio.get_running_loop().call_later(_REST, self._wake)

    def _take(self, tx: Tx, at_work: list[Unit]) -> tuple[Taken, bool]:
        """What was taken, and whether nothing else needs to be seen to at once."""
        desk, claimant = self._desk, self._claimant
        now = desk.clock.now()
        if not self._may() or not glance.look(tx, claimant.holder, now, desk.station).is_calm(now):
            return [], False
        names = {unit.id for unit in at_work}
        by_rows = leases.phases_run_by(tx, claimant.holder)
        running = [unit.phase for unit in at_work]
        running += [phase for name, phase in by_rows.items() if name not in names]
        caps = desk.config.harness.concurrency
        found = admission.admit(tx, caps, running, admission.Selection(), 0, station=desk.station)
        for unit in found:
            tx.announce(events.Event(events.PRE_DISPATCH, now, unit.id, {"phase": unit.phase.value}))
        taken = claims.take_all(tx, found, claimant, desk.rules, now)
        return taken, bool(taken) and len(taken) == len(found)
