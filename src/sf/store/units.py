"""Units: their rows. Phases change in `harness.transition` alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sf.domain.clock import Instant
from sf.domain.ids import UnitType, ulid
from sf.domain.phases import RANK, Phase
from sf.domain.plans import Plan
from sf.domain.units import HoldKind, Merging, Unit
from sf.errors import StoreUnusable, UnknownUnit
from sf.store import sql
from sf.store.tx import Row, Tx, made_of

_Q = sql.load("units")
_ONLY_IN_ROWS = ("phase_rank", "lane_owner", "wound_up_at")
_EVERY = 1_000_000_000


def unit_of(row: Row) -> Unit:
    """The unit that a row of `units` holds."""
    # By position: a lookup by name walks the columns, and `dict(row)` makes one for each of them.
    values: dict[str, Any] = dict(zip(row.keys(), row, strict=True))
    for name in _ONLY_IN_ROWS:
        del values[name]
    values["status"] = values.pop("phase_status")
    values["parent_ready"] = bool(values["parent_ready"])
    values["lane_open"] = bool(values["lane_open"])
    try:
        values["metadata"] = msgspec.json.decode(values["metadata"])
        values["plan"] = msgspec.json.decode(values["plan"]) if values["plan"] else None
        values["merging"] = _merging(values.pop("merge_parent"), values.pop("merge_marks"))
        return made_of(Unit, values)
    except msgspec.DecodeError as error:
        raise unreadable(values["id"], error) from error


def whole_unit(row: Row) -> Unit:
    """The unit that a row of a query of `whole` units holds."""
    try:
        unit = _WHOLE.decode(row["whole"])
        if row["metadata"] == "{}" and row["plan"] is None and row["merge_parent"] is None:
            return unit
        return msgspec.structs.replace(
            unit,
            metadata=_METADATA.decode(row["metadata"]),
            plan=_PLAN.decode(row["plan"]) if row["plan"] else None,
            merging=_merging(row["merge_parent"], row["merge_marks"]),
        )
    except msgspec.DecodeError as error:
        # By itself: SQLite writes numbers that no JSON has, such as an infinite one.
        raise unreadable(row["id"], error) from error


def whole(query: sql.Query) -> sql.Query:
    """A query of every column of units, with what is a plain value as one object.

    Of forty columns, handing over costs more than finding: this takes half the time.
    """
    fields = [field for field in Unit.__struct_fields__ if field not in ("metadata", "plan", "merging")]
    pairs = ", ".join(f"'{field}', {'phase_status' if field == 'status' else field}" for field in fields)
    apart = "AS whole, id, metadata, plan, merge_parent, merge_marks"
    return sql.Query(
        query.replace("*", f"json_object({pairs}) {apart}", 1),
        query.other.replace("*", f"json_build_object({pairs})::text {apart}", 1),
    )


_WHOLE = msgspec.json.Decoder(Unit, strict=False)
_METADATA = msgspec.json.Decoder(dict[str, Any])
_PLAN = msgspec.json.Decoder(dict[str, Any] | None)
_GET = whole(_Q["get"])
_TO_WIND_UP = whole(_Q["to_wind_up"])


def unreadable(unit_id: str, error: Exception) -> StoreUnusable:
    """What a row is reported as that holds what no sf of this version writes."""
    return StoreUnusable(
        f"the row of {unit_id} cannot be read: {error}",
        hint="a newer sf may have written it; else bring the database back from a copy",
    )


def _merging(parent: str | None, marks: str | None) -> Merging | None:
    if parent is None:
        return None
    return msgspec.json.decode(marks, type=Merging) if marks else Merging(parent, label=parent)


def find(tx: Tx, unit_id: str) -> Unit | None:
    """The unit, or None."""
    row = tx.one(_GET, id=unit_id)
    return whole_unit(row) if row else None


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


def stations(tx: Tx) -> list[str]:
    """The stations that have units which are open, or were done and are not wound up."""
    return [row["station"] for row in tx.all(_Q["stations"])]


def bind(tx: Tx, station: str) -> None:
    """Bind to a station whatever has none yet and is of a milestone, or other whole, in which work began."""
    tx.run(_Q["bind"], station=station)


def bind_unit(tx: Tx, unit_id: str, station: str) -> bool:
    """Bind a unit of no station to one that will work on it, or wind it up; False when another was first."""
    return tx.run(_Q["bind_unit"], id=unit_id, station=station) == 1


def unbind_unit(tx: Tx, unit_id: str) -> None:
    """Let a unit that has not begun be taken by any station."""
    tx.run(_Q["unbind_unit"], id=unit_id)


def leave_foreign(tx: Tx, station: str, now: Instant) -> None:
    """Take what ended at other stations for wound up: it is theirs, or nobody's any more."""
    tx.run(_Q["leave_foreign"], station=station, now=now)


def unbind(tx: Tx, station: str, now: Instant) -> None:
    """Forget a station whose store becomes a file; what ended elsewhere stays known as theirs."""
    leave_foreign(tx, station, now)
    tx.run(_Q["unbind"], station=station)


def record_transition(tx: Tx, unit_id: str, origin: Phase, to: Phase, reason: str, now: Instant) -> None:
    """Record a change of phase; for `harness.transition` only."""
    tx.run(
        _Q["record_transition"],
        id=ulid(),
        unit=unit_id,
        origin=origin.value,
        to=to.value,
        reason=reason,
        now=now,
    )


def settle(tx: Tx, origin: Phase, unit: Unit) -> bool:
    """Write where the unit stands now, without a claim; False when it is no longer in the phase it was in.

    Another phase is for `harness.transition` only.
    """
    written = tx.run(
        _Q["settle"],
        id=unit.id,
        origin=origin.value,
        phase=unit.phase.value,
        rank=RANK[unit.phase],
        status=unit.status.value,
        due_at=unit.due_at,
        hold_kind=unit.hold_kind.value if unit.hold_kind else None,
        hold_detail=unit.hold_detail,
        verdict=unit.verdict,
        reassess_reason=unit.reassess_reason,
        plan_version=unit.plan_version,
        archived_at=unit.archived_at,
        now=unit.updated_at,
    )
    return written == 1


def cancel(tx: Tx, unit_id: str, reason: str, now: Instant) -> None:
    """Mark the unit canceled; its run, if any, ends by itself and releases the claim."""
    tx.run(_Q["cancel"], id=unit_id, reason=reason, now=now)


def set_hold(tx: Tx, unit_id: str, kind: HoldKind | None, detail: str, now: Instant) -> None:
    """Park a unit, or let it go."""
    tx.run(_Q["set_hold"], id=unit_id, hold_kind=kind.value if kind else None, hold_detail=detail, now=now)


def allow_runs(tx: Tx, unit_id: str, more: int) -> None:
    """Grant this many runs beyond those already made."""
    tx.run(_Q["allow_runs"], id=unit_id, more=more)


def return_run(tx: Tx, unit: Unit) -> Unit:
    """Grant one run more, for one that does not count."""
    tx.run(_Q["return_run"], id=unit.id)
    return msgspec.structs.replace(unit, run_allowance=unit.run_allowance + 1)


def set_plan(tx: Tx, unit_id: str, plan: Plan, now: Instant) -> None:
    """Keep the accepted plan."""
    tx.run(_Q["set_plan"], id=unit_id, plan=msgspec.json.encode(plan).decode(), now=now)


def set_metadata(tx: Tx, unit_id: str, metadata: dict[str, Any]) -> None:
    """Replace what is noted about the unit."""
    tx.run(_Q["set_metadata"], id=unit_id, metadata=msgspec.json.encode(metadata).decode())


def set_place(
    tx: Tx, unit_id: str, *, workspace: str, now: Instant, branch: str | None = None, base: str | None = None
) -> None:
    """Remember where the unit's work is done."""
    tx.run(_Q["set_place"], id=unit_id, workspace=workspace, branch=branch, base=base, now=now)


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
    return [unit_of(row) for row in tx.all(_Q["reverted"], most=most)]


def to_wind_up(tx: Tx, station: str = "") -> list[Unit]:
    """Terminal units whose worktree, hooks and artifacts are still to be seen to."""
    return [whole_unit(row) for row in tx.all(_TO_WIND_UP, station=station)]


def wound_up(tx: Tx, unit_ids: Sequence[str], now: Instant) -> None:
    """Everything that follows the end of these units is done."""
    if unit_ids:
        tx.run(_Q["wound_up"], ids=msgspec.json.encode(unit_ids).decode(), now=now)


def transitions(tx: Tx, unit_id: str) -> list[Row]:
    """Every recorded change of phase, oldest first."""
    return list(tx.all(_Q["transitions"], id=unit_id))


def open_count(tx: Tx, station: str = "") -> int:
    """How many units are not terminal."""
    row = tx.one(_Q["open_count"], station=station)
    return int(row["n"]) if row else 0


def due_later(tx: Tx, station: str = "") -> list[Unit]:
    """Units that wait for their time."""
    return [unit_of(row) for row in tx.all(_Q["due_later"], station=station)]


def held(tx: Tx, station: str = "") -> list[Unit]:
    """Parked units."""
    return [unit_of(row) for row in tx.all(_Q["held"], station=station)]


def listed(tx: Tx, *, archived: bool = False, most: int = 1000) -> list[Unit]:
    """Units for people, oldest first."""
    return [unit_of(row) for row in tx.all(_Q["listed"], all=int(archived), most=most)]


def queued(tx: Tx, *, most: int | None) -> list[Unit]:
    """Open units that neither run nor are held: those that could, oldest first, then the others."""
    return [unit_of(row) for row in tx.all(_Q["queued"], most=_EVERY if most is None else most)]


def goals_metadata(tx: Tx) -> list[dict[str, Any]]:
    """What is noted about open goals, each note once."""
    return [msgspec.json.decode(row["metadata"]) for row in tx.all(_Q["goals_metadata"])]


def recent(tx: Tx, *, since: int, most: int) -> list[Unit]:
    """Open units and those that ended since an instant, the last changed first."""
    return [unit_of(row) for row in tx.all(_Q["recent"], since=since, most=most)]


def tally(tx: Tx) -> dict[str, tuple[int, int]]:
    """Done and total, by type."""
    return {row["type"]: (int(row["done"]), int(row["total"])) for row in tx.all(_Q["tally"])}


def next_number(tx: Tx, unit_type: UnitType, prefix: str) -> int:
    """The first free number behind a prefix such as `milestone/m`."""
    row = tx.one(_Q["last_number"], type=unit_type, prefix=prefix, pattern=f"{prefix}[0-9]*")
    return int(row["n"] or 0) + 1 if row else 1
