"""An orchestrator of its own process that drains null units: `python -m tests.support.drainer`.

Time runs fast in it, so that a lease of a minute is over in a few seconds; in less than that a busy machine
would renew too late. What it won and what it settled is appended to its journal, after the commit.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.errors import LeaseLost
from sf.harness import settle
from sf.harness.rules import Rules
from sf.scheduler import claims, recovery
from sf.scheduler.lock import this_process
from sf.store import leases
from sf.store.database import Database
from sf.store.place import Place, Url
from tests.support.ground import EVERY_PHASE

SPEED = 25
"""How many times faster than the wall clock time runs."""

WORKFLOW = 'name = "null"\nphases = ["execute", "complete"]\nneeds_evidence = false\n'
_BATCH = 4


def fast_now() -> Instant:
    """The present instant, the same in every process of this machine."""
    return Instant(time.time_ns() * SPEED // 1_000_000)


class Drainer:
    """One holder on one database."""

    def __init__(self, place: Place, journal: Path) -> None:
        self._database = Database(place)
        self._journal = journal.open("a", encoding="ascii")
        self._holder = this_process().name
        self._rules = Rules()

    async def drain(self, end: Path) -> None:
        """Sweep, claim and settle until the file is there."""
        self._tell("up")
        while not end.exists():
            await self._keep_claims()
            # Every process wants the same ones: most claims are contended.
            found = leases.ready(self._database.read, dict.fromkeys(EVERY_PHASE, _BATCH))
            if not found:
                await asyncio.sleep(0.002)
            await asyncio.gather(*(self._run(unit) for unit in found))
        self._database.close()

    async def _keep_claims(self) -> None:
        now = fast_now()
        until = Instant(now + claims.LEASE_MS)
        await self._database.write(lambda tx: leases.renew(tx, self._holder, until))
        if leases.expired(self._database.read, self._holder, now):
            await self._database.write(lambda tx: recovery.sweep(tx, self._holder, "", self._rules, now))

    async def _run(self, unit: Unit) -> None:
        # Late enough that another may have taken it, or done it, since this one looked.
        await asyncio.sleep(random.random() * 0.02)
        claimed = await self._database.write(
            lambda tx: claims.take(tx, unit, holder=self._holder, host="h", rules=self._rules, now=fast_now())
        )
        if claimed is None:
            return
        lease = claimed[1]
        self._tell(f"won {lease.unit_id} {lease.attempt}")
        await asyncio.sleep(0.003)
        try:
            await self._settle(lease)
        except LeaseLost:
            self._tell(f"lost {lease.unit_id} {lease.attempt}")
            return
        self._tell(f"did {lease.unit_id} {lease.attempt}")

    async def _settle(self, lease: Lease) -> None:
        await self._database.write(
            lambda tx: settle.settle(tx, lease, o.Done(), settle.Ending(), self._rules, fast_now())
        )

    def _tell(self, line: str) -> None:
        self._journal.write(line + "\n")
        self._journal.flush()


def main(where: str, schema: str, journal: str, end: str) -> None:
    """Drain the store at a path, or at an address when a schema is named."""
    place: Place = Url(where, schema) if schema else Path(where)
    asyncio.run(Drainer(place, Path(journal)).drain(Path(end)))


if __name__ == "__main__":
    main(*sys.argv[1:])
