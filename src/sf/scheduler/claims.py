"""Taking a unit: claim, run row and lane in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sf.domain import events
from sf.domain.clock import Instant
from sf.domain.ids import ulid
from sf.domain.phases import Phase
from sf.domain.queue import claimable
from sf.domain.runs import Lease
from sf.domain.units import HoldKind, Unit
from sf.harness import lifecycle
from sf.harness.rules import Rules
from sf.store import floor, leases, relations, runs, units
from sf.store.tx import Tx

LEASE_MS = 60_000


class Claimant(msgspec.Struct, frozen=True):
    """Who takes units: a process, on a host, for a folder of a store that several share."""

    holder: str
    host: str
    station: str = ""


Taken = list[tuple[Unit, Lease]]


def take_seen(
    tx: Tx, seen: Sequence[Unit], by: Claimant, rules: Rules, now: Instant, *, out_of_turn: bool = False
) -> tuple[Taken, bool]:
    """`take` units that were looked at before this transaction; and whether one is not as it was.

    One that another has run since is not the one that was looked at.
    """
    present = [units.get(tx, unit.id) for unit in seen]
    same = [unit for unit, before in zip(present, seen, strict=True) if unit.attempt == before.attempt]
    taken = take_all(tx, same, by, rules, now, out_of_turn=out_of_turn)
    names = {unit.id for unit, _ in taken}
    return taken, any(units.get(tx, unit.id) != unit for unit in seen if unit.id not in names)


def take_all(
    tx: Tx, batch: Sequence[Unit], by: Claimant, rules: Rules, now: Instant, *, out_of_turn: bool = False
) -> Taken:
    """`take` each of them that can be."""
    if batch and by.station:
        # Others write to the store as well, by clocks of their own.
        floor.rise(tx)
    one = take_out_of_turn if out_of_turn else take
    tried = [
        one(tx, unit, holder=by.holder, host=by.host, station=by.station, rules=rules, now=now)
        for unit in batch
    ]
    return [claimed for claimed in tried if claimed is not None]


def take_out_of_turn(
    tx: Tx, unit: Unit, *, holder: str, host: str, rules: Rules, now: Instant, station: str = ""
) -> tuple[Unit, Lease] | None:
    """`take`, although the unit waits for others: that is forgotten for good, unless it cannot be taken."""
    announced = len(tx.events)
    tx.run("SAVEPOINT out_of_turn")
    # One that has had its runs is parked as in its turn.
    freed = _freed(tx, unit, rules, now) if unit.attempt < unit.run_allowance else unit
    # A unit that another has run since it was looked at is not the one that was asked for.
    fits = freed.attempt == unit.attempt and freed.hold_kind is None and not freed.open_children
    taken = (
        take(tx, freed, holder=holder, host=host, rules=rules, now=now, station=station)
        if fits and freed.parent_ready
        else None
    )
    if taken is None and freed.attempt < freed.run_allowance:
        tx.run("ROLLBACK TO out_of_turn")
        del tx.events[announced:]
    tx.run("RELEASE out_of_turn")
    return taken


def _freed(tx: Tx, unit: Unit, rules: Rules, now: Instant) -> Unit:
    """The unit as it is once it waits for nobody."""
    waiting = [other.id for other in relations.upstream(tx, unit.id) if not other.terminal]
    relations.forget_blockers(tx, unit.id)
    lifecycle.arrived(tx, unit.id, rules, now)
    if waiting:
        told = f"is dispatched although it waits for {', '.join(waiting)}"
        tx.announce(events.Event(events.WARNING, now, unit.id, {"detail": told, "log": True}))
    return units.get(tx, unit.id)


def take(
    tx: Tx, unit: Unit, *, holder: str, host: str, rules: Rules, now: Instant, station: str = ""
) -> tuple[Unit, Lease] | None:
    """The unit as claimed with its lease, or None when it was taken, parked, or its worktree is in use.

    The unit is given as this transaction has read it.
    """
    if not claimable(unit):
        return None
    if unit.attempt >= unit.run_allowance:
        detail = f"{unit.attempt} runs were made for it; a person must allow more"
        lifecycle.hold(tx, unit, HoldKind.RUN_LIMIT, detail, rules, now)
        return None
    if unit.in_slice and relations.lane_owner(tx, str(unit.parent_id)) not in (None, unit.id):
        return None
    if unit.phase is Phase.MERGE and leases.merging_elsewhere(tx, unit.id, station):
        return None
    until = Instant(now + LEASE_MS)
    claimed = leases.claim(tx, unit, holder=holder, host=host, until=until, now=now, station=station)
    if claimed is None:
        return None
    relations.take_lane(tx, unit)
    lease = Lease(unit.id, ulid(), unit.attempt + 1, holder)
    runs.insert(tx, unit, lease.run_id, lease.attempt, host, now)
    tx.announce(
        events.Event(
            events.RUN_STARTED,
            now,
            unit.id,
            {"run_id": lease.run_id, "phase": unit.phase.value, "title": unit.title, "type": unit.type},
        )
    )
    return claimed, lease
