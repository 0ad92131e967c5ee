"""An orchestrator of its own process, claiming whatever is ready: `python -m tests.support.contender`."""

from __future__ import annotations

import asyncio
import json
import sys

from sf.domain.clock import Instant
from sf.domain.units import Unit
from sf.harness.rules import Rules
from sf.scheduler import claims
from sf.store import leases
from sf.store.database import Database
from sf.store.place import Url
from sf.testing.clock import START
from tests.support.ground import EVERY_PHASE, plant_tasks

NOW = Instant(START)


async def contend(database: Database, ready: list[Unit], holder: str) -> dict[str, list[str]]:
    """Claim every unit of a list, and plant tasks after that; what was won."""

    async def claim(unit: Unit) -> str | None:
        claimed = await database.write(
            lambda tx: claims.take(tx, unit, holder=holder, host="h", rules=Rules(), now=NOW)
        )
        return unit.id if claimed else None

    won = await asyncio.gather(*(claim(unit) for unit in ready))
    planted = [
        name
        for names in await asyncio.gather(*(database.write(plant_tasks) for _ in range(40)))
        for name in names
    ]
    return {"won": [unit_id for unit_id in won if unit_id], "planted": planted}


def main(url: str, schema: str, holder: str) -> None:
    """Say how many units are ready, wait for a line, contend, print what was won."""
    database = Database(Url(url, schema))
    ready = leases.ready(database.read, EVERY_PHASE)
    print(len(ready), flush=True)
    sys.stdin.readline()
    print(json.dumps(asyncio.run(contend(database, ready, holder))), flush=True)
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
