"""Units: rows, the ready queue, claims, lanes and blockers. Phases change in `harness.transition` alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sf.domain.clock import Instant
from sf.domain.ids import UnitType, ulid
from sf.domain.phases import FORWARD, RANK, Phase
from sf.domain.plans import Plan
from sf.domain.runs import Lease
from sf.domain.units import HoldKind, Merging, Status, Unit, Verdict
from sf.errors import LeaseLost, UnknownUnit
from sf.store import sql
from sf.store.tx import Row, Tx

_Q = sql.load("units")
_ONLY_IN_ROWS = ("phase_rank", "lane_owner", "wound_up_at")
_DISPATCHED = (*FORWARD[:-1], Phase.REASSESS)


def _queue(of_phase: str) -> str:
    """The queue of every phase in one statement: each parameter is a phase's name, its value the room."""
    return " UNION ALL ".join(
        f"SELECT * FROM ({of_phase.replace(':rank', str(RANK[phase])).replace(':most', f':{phase.value}')})"
        for phase in _DISPATCHED
    )


_READY = _queue(_Q["ready"])
_READY_BEGUN = _queue(_Q["ready_begun"])


def _unit(row: Row) -> Unit:
    # By position: a lookup by name walks the columns, and `dict(row)` makes one for each of them.
    values: dict[str, Any] = dict(zip(row.keys(), row, strict=True))
    for name in _ONLY_IN_ROWS:
        del values[name]
    values["status"] = Status(values.pop("phase_status"))
    values["phase"] = Phase(values["phase"])
    values["hold_kind"] = HoldKind(values["hold_kind"]) if values["hold_kind"] else None
    values["metadata"] = msgspec.json.decode(values["metadata"])
    values["plan"] = msgspec.json.decode(values["plan"]) if values["plan"] else None
    values["parent_ready"] = bool(values["parent_ready"])
    values["lane_open"] = bool(values["lane_open"])
    values["merging"] = _merging(values.pop("merge_parent"), values.pop("merge_marks"))
    return Unit(**values)


def _merging(parent: str | None, marks: str | None) -> Merging | None:
    if parent is None:
        return None
    return msgspec.json.decode(marks, type=Merging) if marks else Merging(parent, label=parent)


def find(tx: Tx, unit_id: str) -> Unit | None:
    """The unit, or None."""
    row = tx.one(_Q["get"], id=unit_id)
    return _unit(row) if row else None


def get(tx: Tx, unit_id: str) -> Unit:
    """The unit. Raises UnknownUnit."""
    unit = find(tx, unit_id)
    if unit is None:
        raise UnknownUnit(f"there is no unit {unit_id!r}", hint="sf status lists them")
    return unit


def insert(
    tx: Tx,
    *,
    unit_id: str,
    unit_type: UnitType,
    session_id: str,
    workflow: str,
    workflow_hash: str,
    phase: Phase,
    title: str,
    now: Instant,
    parent_id: str | None = None,
    made_under: int = 1,
    priority: int | None = None,
    description: str = "",
    metadata: dict[str, Any] | None = None,
    plan: Plan | None = None,
    parent_ready: bool = True,
    lane_open: bool = True,
    run_allowance: int = 100,
    station: str | None = None,
    blocked_by: Iterable[str] = (),
) -> None:
    """Add a unit. `blocked_by` are units that must be terminal first; those that are do not count."""
    upstream = list(blocked_by)
    tx.run(
        _Q["insert"],
        id=unit_id,
        session_id=session_id,
        parent_id=parent_id,
        type=unit_type,
        workflow=workflow,
        workflow_hash=workflow_hash,
        phase=phase.value,
        phase_rank=RANK[phase],
        run_allowance=run_allowance,
        made_under=made_under,
        priority=priority,
        title=title,
        description=description,
        metadata=msgspec.json.encode(metadata or {}).decode(),
        plan=msgspec.json.encode(plan).decode() if plan else None,
        open_blockers=sum(not get(tx, name).terminal for name in upstream),
        parent_ready=int(parent_ready),
        lane_open=int(lane_open),
        station=station,
        now=now,
    )
    for name in upstream:
        tx.run(_Q["add_blocker"], unit=unit_id, upstream=name)


def ready(tx: Tx, room: dict[Phase, int], *, station: str = "", begun_only: bool = False) -> list[Unit]:
    """Units that could run now at a station: for each phase at most as many as it has room for."""
    most = {phase.value: max(0, room.get(phase, 0)) for phase in _DISPATCHED}
    rows = (
        tx.all(_READY_BEGUN if begun_only else _READY, station=station, **most) if any(most.values()) else []
    )
    return [_unit(row) for row in rows]


def wake_due(tx: Tx, now: Instant, station: str = "") -> int:
    """Make units whose time has come ready."""
    return tx.run(_Q["wake_due"], now=now, station=station)


def claim(
    tx: Tx, unit: Unit, *, holder: str, host: str, until: Instant, now: Instant, station: str = ""
) -> Unit | None:
    """Take the unit in one conditional update, and bind it to the station. None when someone was first."""
    row = tx.one(
        _Q["claim"],
        id=unit.id,
        attempt=unit.attempt,
        holder=holder,
        host=host,
        until=until,
        station=station,
        now=now,
    )
    return _unit(row) if row else None


def merging_elsewhere(tx: Tx, unit_id: str, station: str = "") -> bool:
    """Whether another unit is being merged: its row is the lock, for merges are made one at a time."""
    row = tx.one(_Q["merging_elsewhere"], id=unit_id, station=station)
    return row is not None and int(row["n"]) > 0


def stations(tx: Tx) -> list[str]:
    """The stations that have open units."""
    return [row["station"] for row in tx.all(_Q["stations"])]


def bind(tx: Tx, station: str) -> None:
    """Bind every unit that has work somewhere, and no station yet, to one."""
    tx.run(_Q["bind"], station=station)


def unbind(tx: Tx) -> None:
    """Forget the stations: the store becomes a file, which is in one place."""
    tx.run(_Q["unbind"])


def renew(tx: Tx, holder: str, until: Instant) -> int:
    """Extend every claim of this holder."""
    return tx.run(_Q["renew"], holder=holder, until=until)


def require_lease(tx: Tx, lease: Lease) -> None:
    """Raise LeaseLost unless the lease is the unit's current one. Call first in every write for a run."""
    if not tx.one(_Q["holds_lease"], id=lease.unit_id, attempt=lease.attempt, holder=lease.holder):
        raise LeaseLost(f"run {lease.run_id} no longer holds {lease.unit_id}")


def leased(tx: Tx, lease: Lease) -> Unit:
    """The unit that a lease is for. Raises LeaseLost unless the lease is its current one."""
    unit = get(tx, lease.unit_id)
    if (unit.attempt, unit.claim_holder) != (lease.attempt, lease.holder):
        raise LeaseLost(f"run {lease.run_id} no longer holds {lease.unit_id}")
    return unit


def expired(tx: Tx, holder: str, now: Instant, station: str = "") -> list[Unit]:
    """Running units of other holders whose claim has ended."""
    return [_unit(row) for row in tx.all(_Q["expired"], holder=holder, now=now, station=station)]


def running(tx: Tx, station: str = "") -> list[Unit]:
    """Every unit whose row says running."""
    return [_unit(row) for row in tx.all(_Q["running"], station=station)]


def canceled_with_claim(tx: Tx, station: str = "") -> list[Unit]:
    """Units that were canceled while a run held them."""
    return [_unit(row) for row in tx.all(_Q["canceled_with_claim"], station=station)]


def write_phase(tx: Tx, unit: Unit, to: Phase, reason: str, now: Instant) -> bool:
    """Record and write a change of phase; for `harness.transition` only."""
    tx.run(
        _Q["record_transition"],
        id=ulid(),
        unit=unit.id,
        origin=unit.phase.value,
        to=to.value,
        reason=reason,
        now=now,
    )
    return (
        tx.run(_Q["set_phase"], id=unit.id, origin=unit.phase.value, phase=to.value, rank=RANK[to], now=now)
        == 1
    )


def settle(
    tx: Tx,
    unit_id: str,
    *,
    status: Status,
    now: Instant,
    due_at: Instant | None = None,
    hold_kind: HoldKind | None = None,
    hold_detail: str = "",
    verdict: Verdict | None = None,
    reassess_reason: str | None = None,
    replan: bool = False,
) -> Unit:
    """Write where the unit stands after a run and release its claim; a complete one is archived."""
    row = tx.one(
        _Q["settle"],
        id=unit_id,
        status=status.value,
        due_at=due_at,
        hold_kind=hold_kind.value if hold_kind else None,
        hold_detail=hold_detail,
        verdict=verdict,
        reassess_reason=reassess_reason,
        replan=int(replan),
        now=now,
    )
    if row is None:
        raise UnknownUnit(f"there is no unit {unit_id!r}")
    return _unit(row)


def cancel(tx: Tx, unit_id: str, reason: str, now: Instant) -> None:
    """Mark the unit canceled; its run, if any, ends by itself and releases the claim."""
    tx.run(_Q["cancel"], id=unit_id, reason=reason, now=now)


def release_claim(tx: Tx, unit_id: str) -> None:
    """Let go of the claim without changing anything else."""
    tx.run(_Q["release_claim"], id=unit_id)


def set_hold(tx: Tx, unit_id: str, kind: HoldKind | None, detail: str, now: Instant) -> None:
    """Park a unit, or let it go."""
    tx.run(_Q["set_hold"], id=unit_id, hold_kind=kind.value if kind else None, hold_detail=detail, now=now)


def allow_runs(tx: Tx, unit_id: str, more: int) -> None:
    """Grant this many runs beyond those already made."""
    tx.run(_Q["allow_runs"], id=unit_id, more=more)


def set_plan(tx: Tx, unit_id: str, plan: Plan, now: Instant) -> None:
    """Keep the accepted plan."""
    tx.run(_Q["set_plan"], id=unit_id, plan=msgspec.json.encode(plan).decode(), now=now)


def set_place(
    tx: Tx, unit_id: str, *, workspace: str, now: Instant, branch: str | None = None, base: str | None = None
) -> None:
    """Remember where the unit's work is done."""
    tx.run(_Q["set_place"], id=unit_id, workspace=workspace, branch=branch, base=base, now=now)


def set_base(tx: Tx, unit_id: str, commit: str, now: Instant) -> None:
    """Remember the commit that the unit's diff is measured against."""
    tx.run(_Q["set_base"], id=unit_id, base=commit, now=now)


def set_merging(tx: Tx, unit_id: str, merging: Merging | None, now: Instant) -> None:
    """Remember the merge that was laid out in the unit's worktree, or forget it."""
    marks = msgspec.json.encode(merging).decode() if merging else None
    tx.run(_Q["set_merging"], id=unit_id, parent=merging.parent if merging else None, marks=marks, now=now)


def archive(tx: Tx, unit_id: str, now: Instant) -> None:
    """Soft-delete: the row stays."""
    tx.run(_Q["archive"], id=unit_id, now=now)


def set_reverted(tx: Tx, unit_id: str, now: Instant) -> None:
    """A person had what the unit merged reverted."""
    tx.run(_Q["set_reverted"], id=unit_id, now=now)


def reverted(tx: Tx, most: int) -> list[Unit]:
    """Units that were reverted, the last one first."""
    return [_unit(row) for row in tx.all(_Q["reverted"], most=most)]


def to_wind_up(tx: Tx, station: str = "") -> list[Unit]:
    """Terminal units whose worktree, hooks and artifacts are still to be seen to."""
    return [_unit(row) for row in tx.all(_Q["to_wind_up"], station=station)]


def wound_up(tx: Tx, unit_id: str, now: Instant) -> None:
    """Everything that follows a unit's end is done."""
    tx.run(_Q["wound_up"], id=unit_id, now=now)


def children(tx: Tx, unit_id: str) -> list[Unit]:
    """The unit's children, oldest first, superseded ones too."""
    return [_unit(row) for row in tx.all(_Q["children"], id=unit_id)]


def below(tx: Tx, unit_id: str) -> list[Unit]:
    """Everything below the unit, superseded ones too; parents before their children."""
    found = []
    for child in children(tx, unit_id):
        found += [child, *below(tx, child.id)]
    return found


def count_children(tx: Tx, unit_id: str) -> int:
    """How many children the unit has ever had."""
    row = tx.one(_Q["count_children"], id=unit_id)
    return int(row["n"]) if row else 0


def add_children(tx: Tx, unit_id: str, number: int, now: Instant) -> None:
    """Count open children up or down."""
    tx.run(_Q["add_children"], id=unit_id, n=number, now=now)


def ready_children(tx: Tx, unit_id: str, *, is_ready: bool) -> None:
    """Tell the children whether their container is in execute."""
    tx.run(_Q["ready_children"], id=unit_id, ready=int(is_ready))


def take_lane(tx: Tx, task: Unit) -> None:
    """Make a task the owner of its slice's worktree, unless another one is."""
    if task.in_slice and tx.run(_Q["take_lane"], slice=task.parent_id, task=task.id) == 1:
        tx.run(_Q["close_lane"], slice=task.parent_id, task=task.id)


def free_lane(tx: Tx, task: Unit) -> None:
    """Let the siblings of a task use the worktree, if this task owned it."""
    if task.in_slice and tx.run(_Q["free_lane"], slice=task.parent_id, task=task.id) == 1:
        tx.run(_Q["open_lane"], slice=task.parent_id)


def lane_owner(tx: Tx, slice_id: str) -> str | None:
    """The task that owns the slice's worktree, if one does."""
    row = tx.one(_Q["lane_owner"], id=slice_id)
    return row["lane_owner"] if row else None


def downstream(tx: Tx, unit_id: str) -> list[Unit]:
    """Units that wait for this one."""
    return [_unit(row) for row in tx.all(_Q["downstream"], id=unit_id)]


def upstream(tx: Tx, unit_id: str) -> list[Unit]:
    """Units that this one waits for, or waited for."""
    return [_unit(row) for row in tx.all(_Q["upstream"], id=unit_id)]


def unblock(tx: Tx, unit_id: str, now: Instant) -> None:
    """One of the unit's blockers is terminal now."""
    tx.run(_Q["unblock"], id=unit_id, now=now)


def forget_blockers(tx: Tx, unit_id: str) -> None:
    """The operator overrides what the unit waits for, for good."""
    tx.run(_Q["forget_blockers"], id=unit_id)
    tx.run(_Q["no_blockers"], id=unit_id)


def transitions(tx: Tx, unit_id: str) -> list[Row]:
    """Every recorded change of phase, oldest first."""
    return list(tx.all(_Q["transitions"], id=unit_id))


def open_count(tx: Tx, station: str = "") -> int:
    """How many units are not terminal."""
    row = tx.one(_Q["open_count"], station=station)
    return int(row["n"]) if row else 0


def held(tx: Tx, station: str = "") -> list[Unit]:
    """Parked units."""
    return [_unit(row) for row in tx.all(_Q["held"], station=station)]


def listed(tx: Tx, *, archived: bool = False, most: int = 1000) -> list[Unit]:
    """Units for people, oldest first."""
    return [_unit(row) for row in tx.all(_Q["listed"], all=int(archived), most=most)]


def recent(tx: Tx, *, since: int, most: int) -> list[Unit]:
    """Open units and those that ended since an instant, the last changed first."""
    return [_unit(row) for row in tx.all(_Q["recent"], since=since, most=most)]


def tally(tx: Tx) -> dict[str, tuple[int, int]]:
    """Done and total, by type."""
    return {row["type"]: (int(row["done"]), int(row["total"])) for row in tx.all(_Q["tally"])}


def next_number(tx: Tx, unit_type: UnitType, prefix: str) -> int:
    """The first free number behind a prefix such as `milestone/m`."""
    row = tx.one(_Q["last_number"], type=unit_type, prefix=prefix, pattern=f"{prefix}[0-9]*")
    return int(row["n"] or 0) + 1 if row else 1
