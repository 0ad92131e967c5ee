"""Who works on a unit: the ready queue, claims, and the leases that every write of a run is made under."""

from __future__ import annotations

import msgspec

from sf.domain.clock import Instant
from sf.domain.phases import DISPATCHED, RANK, Phase
from sf.domain.runs import Lease
from sf.domain.units import Status, Unit
from sf.errors import LeaseLost
from sf.store import sql, units
from sf.store.tx import Tx

_Q = sql.load("leases")


def _queue(of_phase: sql.Query) -> sql.Query:
    """The queue of every phase in one statement: each parameter is a phase's name, its value the room."""
    return sql.Query(_of_every_phase(of_phase), _of_every_phase(of_phase.other))


def _of_every_phase(text: str) -> str:
    return " UNION ALL ".join(
        f"SELECT * FROM ({text.replace(':rank', str(RANK[phase])).replace(':most', f':{phase.value}')})"
        for phase in DISPATCHED
    )


_NAMES = [(phase, phase.value) for phase in DISPATCHED]
_READY = _queue(units.whole(_Q["ready"]))
_READY_BEGUN = _queue(units.whole(_Q["ready_begun"]))


def ready(tx: Tx, room: dict[Phase, int], *, station: str = "", begun_only: bool = False) -> list[Unit]:
    """Units that could run now at a station: for each phase at most as many as it has room for."""
    most = {name: max(0, room.get(phase, 0)) for phase, name in _NAMES}
    rows = (
        tx.all(_READY_BEGUN if begun_only else _READY, station=station, **most) if any(most.values()) else []
    )
    return [units.whole_unit(row) for row in rows]


def wake_due(tx: Tx, now: Instant, station: str = "") -> int:
    """Make units whose time has come ready."""
    return tx.run(_Q["wake_due"], now=now, station=station)


def postpone(tx: Tx, unit_id: str, due_at: Instant, now: Instant) -> None:
    """Let a unit that waits be due at another time."""
    tx.run(_Q["postpone"], id=unit_id, due=due_at, now=now)


def claim(
    tx: Tx, unit: Unit, *, holder: str, host: str, until: Instant, now: Instant, station: str = ""
) -> Unit | None:
    """Take the unit in one conditional update, and bind it to the station. None when someone was first.

    What is returned is the unit as it is now, if it is given as this transaction has read it.
    """
    taken = tx.run(
        _Q["claim"],
        id=unit.id,
        attempt=unit.attempt,
        holder=holder,
        host=host,
        until=until,
        station=station,
        now=now,
    )
    if not taken:
        return None
    return msgspec.structs.replace(
        unit,
        status=Status.RUNNING,
        attempt=unit.attempt + 1,
        claim_holder=holder,
        claim_until=until,
        due_at=None,
        worker_host=host,
        station=unit.station or station or None,
        updated_at=now,
    )


def merging_elsewhere(tx: Tx, unit_id: str, station: str = "") -> bool:
    """Whether another unit is being merged: its row is the lock, for merges are made one at a time."""
    row = tx.one(_Q["merging_elsewhere"], id=unit_id, station=station)
    return row is not None and int(row["n"]) > 0


def renew(tx: Tx, holder: str, until: Instant) -> int:
    """Extend every claim of this holder; what was called off is its own until its run has ended."""
    return tx.run(_Q["renew"], holder=holder, until=until)


def require_lease(tx: Tx, lease: Lease) -> None:
    """Raise LeaseLost unless the lease is the unit's current one. Call first in every write for a run."""
    if not tx.one(_Q["holds_lease"], id=lease.unit_id, attempt=lease.attempt, holder=lease.holder):
        raise LeaseLost(f"run {lease.run_id} no longer holds {lease.unit_id}")


def leased(tx: Tx, lease: Lease) -> Unit:
    """The unit that a lease is for. Raises LeaseLost unless the lease is its current one."""
    unit = units.get(tx, lease.unit_id)
    if (unit.attempt, unit.claim_holder) != (lease.attempt, lease.holder):
        raise LeaseLost(f"run {lease.run_id} no longer holds {lease.unit_id}")
    return unit


def expired(tx: Tx, holder: str, now: Instant, station: str = "") -> list[Unit]:
    """Running units of other holders whose claim has ended."""
    return [units.unit_of(row) for row in tx.all(_Q["expired"], holder=holder, now=now, station=station)]


def running(tx: Tx, station: str = "") -> list[Unit]:
    """Every unit whose row says running."""
    return [units.unit_of(row) for row in tx.all(_Q["running"], station=station)]


def phases_run_by(tx: Tx, holder: str) -> dict[str, Phase]:
    """The phases of the units that a holder runs by their rows, by unit."""
    return {row["id"]: Phase(row["phase"]) for row in tx.all(_Q["phases_run_by"], holder=holder)}


def stranded(tx: Tx, station: str, host: str, now: Instant) -> list[Unit]:
    """Running units whose worker is gone when an autopilot starts on a host.

    On a server a station may be the same folder of two machines, one a copy of the other: what another host
    has claimed is its own while the claim lasts.
    """
    return [units.unit_of(row) for row in tx.all(_Q["stranded"], station=station, host=host, now=now)]


def canceled_with_claim(tx: Tx, station: str = "") -> list[Unit]:
    """Units that were canceled while a run held them."""
    return [units.unit_of(row) for row in tx.all(_Q["canceled_with_claim"], station=station)]


def given_up(tx: Tx, station: str, now: Instant) -> list[Unit]:
    """Units of other folders that were canceled while a run held them, and whose claim nobody renewed."""
    return [units.unit_of(row) for row in tx.all(_Q["given_up"], station=station, now=now)]


def release_claim(tx: Tx, unit_id: str) -> None:
    """Let go of the claim without changing anything else."""
    tx.run(_Q["release_claim"], id=unit_id)
