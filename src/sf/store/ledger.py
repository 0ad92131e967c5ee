"""The attempt ledger: counters that only grow. A re-plan opens a new set; re-plans are counted too.

The one exception is a gate's retries, which end where the unit leaves the last phase that gates judge.
"""

from __future__ import annotations

from collections.abc import Sequence

from sf.domain.decide import Counter, CounterKind, Counts
from sf.domain.units import Unit
from sf.store import sql
from sf.store.tx import Row, Tx

_Q = sql.load("records")
WHOLE_LIFE = 0
"""The plan_version under which counters of a unit's whole life are kept."""


def _version(unit: Unit, counter: Counter) -> int:
    return WHOLE_LIFE if counter.kind == "replans" else unit.plan_version


def count(tx: Tx, unit: Unit, counter: Counter) -> int:
    """The counter's value under the unit's current plan."""
    row = tx.one(
        _Q["count"], unit=unit.id, version=_version(unit, counter), kind=counter.kind, key=counter.key
    )
    return int(row["count"]) if row else 0


def raise_counter(tx: Tx, unit: Unit, counter: Counter) -> None:
    """Count one up."""
    tx.run(
        _Q["raise_counter"],
        unit=unit.id,
        version=_version(unit, counter),
        kind=counter.kind,
        key=counter.key,
    )


def clear(tx: Tx, unit: Unit, kind: CounterKind) -> None:
    """Begin the counters of this kind anew, under the unit's current plan."""
    tx.run(_Q["clear_counters"], unit=unit.id, version=unit.plan_version, kind=kind)


def counts(tx: Tx, unit: Unit, gate: str = "") -> Counts:
    """The counters that a decision about this unit, in this phase, needs."""
    values = {
        (row["kind"], row["key"]): int(row["count"])
        for row in tx.all(_Q["counters"], unit=unit.id, version=unit.plan_version)
    }
    return Counts(
        tries=values.get(("tries", unit.phase.value), 0),
        gate=values.get(("gate", gate), 0),
        fixes=values.get(("fixes", ""), 0),
        conflicts=values.get(("conflicts", ""), 0),
        replans=values.get(("replans", ""), 0),
        interruptions=values.get(("interruptions", unit.phase.value), 0),
        waits=values.get(("waits", ""), 0),
    )


def everything(tx: Tx, unit_id: str) -> Sequence[Row]:
    """Every counter of a unit that counts anything, those of its present plan first."""
    return tx.all(_Q["all_counters"], unit=unit_id)
