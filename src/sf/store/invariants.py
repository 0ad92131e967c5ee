"""Reading everything that the invariants speak of, and writing single columns that broke one."""

from __future__ import annotations

from typing import Any

import msgspec

from sf.domain.books import Balance, Books, LiveRun, OpenBlocker, OpenQuestion, UnitFacts
from sf.domain.clock import Instant
from sf.domain.invariants import SetBalance, SetColumn
from sf.domain.spending import SCOPES, Scope
from sf.store import sql, units
from sf.store.tx import Row, Tx, made_of

_Q = sql.load("invariants")
_AT_ONCE = sql.Query("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ")


def snapshot(tx: Tx, now: Instant | None = None) -> Books:
    """The books of one moment, by a reading connection, while others may write."""
    tx.run(_AT_ONCE)
    try:
        return books(tx, now)
    finally:
        tx.run("ROLLBACK")


def books(tx: Tx, now: Instant | None = None) -> Books:
    """The books, inside a transaction; without an instant no claim is old."""
    return Books(
        now=now or 0,
        units={unit.id: unit for unit in map(_facts, tx.all(_Q["units"]))},
        upstream=tuple((row["task_id"], row["blocked_by"]) for row in tx.all(_Q["upstream"])),
        live=tuple(LiveRun(row["id"], row["unit_id"], row["attempt"]) for row in tx.all(_Q["live"])),
        blockers=tuple(
            OpenBlocker(row["id"], row["unit_id"], row["event"]) for row in tx.all(_Q["blockers"])
        ),
        questions=tuple(
            OpenQuestion(row["id"], row["unit_id"], row["kind"]) for row in tx.all(_Q["questions"])
        ),
        accounts={(row["scope"], row["key"]): _balance(row) for row in tx.all(_Q["accounts"])},
        entries=_entries(tx),
        reserving=tuple(row["run_id"] for row in tx.all(_Q["reserving"])),
    )


def _facts(row: Row) -> UnitFacts:
    values: dict[str, Any] = dict(zip(row.keys(), row, strict=True))
    values["status"] = values.pop("phase_status")
    values["parent_ready"] = bool(values["parent_ready"])
    values["lane_open"] = bool(values["lane_open"])
    try:
        return made_of(UnitFacts, values)
    except msgspec.ValidationError as error:
        raise units.unreadable(values["id"], error) from error


def _balance(row: Row) -> Balance:
    return Balance(int(row["spent"]), int(row["reserved"]))


def _entries(tx: Tx) -> dict[tuple[Scope, str], Balance]:
    found = {}
    for scope in SCOPES:
        for row in tx.all(_Q[f"entries_of_{scope}"]):
            found[(scope, row["key"])] = _balance(row)
    return found


def set_column(tx: Tx, repair: SetColumn) -> None:
    """Write one column of a unit, with the columns that mean nothing without it."""
    tx.run(_Q[f"set_{repair.column}"], id=repair.unit_id, value=repair.value)


def set_balance(tx: Tx, repair: SetBalance) -> None:
    """Write what an account should hold; what a person allowed beyond the cap stays."""
    balance = repair.balance
    tx.run(
        _Q["set_balance"],
        scope=repair.scope,
        key=repair.key,
        spent=balance.spent,
        reserved=balance.reserved,
    )
