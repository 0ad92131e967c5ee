"""What takes the room that a run's end leaves: claimed right behind the settlement, in its commit.

It is looked for in the transaction that claims it. Where anything else is to be seen to, nothing is taken:
the tick has its order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from sf.domain import events
from sf.domain.phases import Phase
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.harness.desk import Desk
from sf.scheduler import admission, claims
from sf.scheduler.claims import Claimant
from sf.store import glance, leases
from sf.store.tx import Tx

Taken = list[tuple[Unit, Lease]]
_REST = 0.05
"""Seconds until the tick sees to what can be seen to together, when the next runs have begun without it."""


class Succession:
    """One look at a time, while it is allowed.

    `at_work` gives the phases of the units whose run is not being settled, `marks` what to write besides;
    `begin` is told what was taken, `wake` that a tick is due.
    """

    def __init__(
        self,
        desk: Desk,
        claimant: Claimant,
        at_work: Callable[[], dict[str, Phase]],
        marks: Callable[[], Callable[[Tx], None]],
        begin: Callable[[Taken], None],
        wake: Callable[[], None],
    ) -> None:
        self._desk = desk
        self._claimant = claimant
        self._at_work = at_work
        self._marks = marks
        self._begin = begin
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
            if self._look is not None:
                await asyncio.wait({self._look})
            if self._rested is not None:
                self._rested.cancel()
                self._rested = None
        look, self._look = self._look, None
        if look is not None:
            look.result()

    def follow(self) -> None:
        """Look for what comes next, behind every settlement that is handed to the writer in this moment.

        A settlement that is handed over later is not waited for: its end wakes the tick.
        """
        if self._is_allowed and (self._look is None or self._is_over_well(self._look)):
            self._look = asyncio.create_task(self._follow(), name="succession")

    def _is_over_well(self, look: asyncio.Task[None]) -> bool:
        return look.done() and not look.cancelled() and look.exception() is None

    async def _follow(self) -> None:
        at_work, marks = self._at_work(), self._marks()

        def write(tx: Tx) -> tuple[Taken, bool]:
            marks(tx)
            return self._take(tx, at_work)

        is_enough = False
        try:
            taken, is_enough = await self._desk.database.write(write)
            self._begin(taken)
        finally:
            if not is_enough:
                self._wake()
            elif self._rested is None:
                self._rested = asyncio.get_running_loop().call_later(_REST, self._wake)

    def _take(self, tx: Tx, at_work: dict[str, Phase]) -> tuple[Taken, bool]:
        """What was taken, and whether nothing else needs to be seen to at once."""
        desk, claimant = self._desk, self._claimant
        now = desk.clock.now()
        if not glance.look(tx, claimant.holder, now, desk.station).is_calm(now):
            return [], False
        running = (at_work | leases.phases_run_by(tx, claimant.holder)).values()
        caps = desk.config.harness.concurrency
        found = admission.admit(tx, caps, running, admission.Selection(), 0, station=desk.station)
        for unit in found:
            tx.announce(events.Event(events.PRE_DISPATCH, now, unit.id, {"phase": unit.phase.value}))
        tried = claims.take_all(tx, found, claimant, desk.rules, now)
        taken = [claimed for claimed in tried if claimed is not None]
        return taken, bool(taken) and len(taken) == len(found)
