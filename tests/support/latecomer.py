"""A holder that is stopped for too long: `python -m tests.support.latecomer`.

It claims a unit, says so, and once told to go on tries what a run writes to the store; what each try came to
is printed. What needs a repository too is tried in tests/integration/test_workshop.py.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

from sf.domain import outcomes as o
from sf.domain.budget import Budget
from sf.domain.clock import Instant
from sf.domain.dialogue import Usage
from sf.domain.runs import Lease, TurnKind
from sf.domain.spending import Caps
from sf.errors import SfError
from sf.harness import settle
from sf.harness.rules import Rules
from sf.scheduler import claims
from sf.store import records, runs, spending, units
from sf.store.database import Database
from sf.store.place import Place, Url
from sf.store.runs import TurnRecord
from sf.store.tx import Tx
from sf.testing.clock import START

NOW = Instant(START)
HOLDER = "latecomer"
ESTIMATE = 500


def turn(number: int) -> TurnRecord:
    """A turn as the loop records it."""
    return TurnRecord(number, TurnKind.FIRST, "m", None, 0, Usage(), Budget(10, 0.5, 0.9), (b"words",))


class Latecomer:
    """One run, from its claim to everything that it writes."""

    def __init__(self, place: Place, unit_id: str) -> None:
        self._database = Database(place)
        self._unit = units.get(self._database.read, unit_id)
        self._payer = spending.payer(self._database.read, self._unit)

    async def claim(self) -> tuple[Lease, str]:
        """Take the unit and reserve for its first request."""
        claimed = await self._database.write(
            lambda tx: claims.take(tx, self._unit, holder=HOLDER, host="h", rules=Rules(), now=NOW)
        )
        assert claimed is not None
        lease = claimed[1]
        return lease, await self._database.write(lambda tx: self._reserve(tx, lease))

    def _reserve(self, tx: Tx, lease: Lease) -> str:
        return spending.reserve(tx, lease, self._payer, model="m", estimate=ESTIMATE, caps=Caps(), now=NOW)

    async def go_on(self, lease: Lease, spend_id: str) -> dict[str, str]:
        """Write as if nothing had happened; the code of each refusal, or `written`."""

        def answered(tx: Tx) -> None:
            runs.record_turn(tx, lease, turn(1), NOW)
            spending.settle(tx, spend_id, "answered", NOW, Usage(cost_micro_usd=9))

        ends: list[o.AnyOutcome] = [o.Done(), o.Failed("turn_failed", "x"), o.CalledOff("x"), o.Crashed()]
        writes: dict[str, Callable[[Tx], object]] = {
            "turn": answered,
            "reserve": lambda tx: self._reserve(tx, lease),
            "evidence": lambda tx: records.found(tx, lease, "merge", "late", NOW, tree="t", commit="c"),
        }
        for end in ends:
            writes[f"settle as {type(end).__name__}"] = self._settling(lease, end)
        return {name: await self._tried(write) for name, write in writes.items()}

    def _settling(self, lease: Lease, end: o.AnyOutcome) -> Callable[[Tx], object]:
        return lambda tx: settle.settle(tx, lease, end, settle.Ending(tree="t"), Rules(), NOW)

    async def _tried(self, write: Callable[[Tx], object]) -> str:
        try:
            await self._database.write(write)
        except SfError as error:
            return error.code
        return "written"

    def close(self) -> None:
        """Close the database."""
        self._database.close()


async def attend(place: Place, unit_id: str) -> None:
    """Claim, wait for a line, go on."""
    late = Latecomer(place, unit_id)
    lease, spend_id = await late.claim()
    print(lease.run_id, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps(await late.go_on(lease, spend_id)), flush=True)
    late.close()


def main(where: str, schema: str, unit_id: str) -> None:
    """On the store at a path, or at an address when a schema is named."""
    asyncio.run(attend(Url(where, schema) if schema else Path(where), unit_id))


if __name__ == "__main__":
    main(*sys.argv[1:])
