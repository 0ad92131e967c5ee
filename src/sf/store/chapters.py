"""Chapters: what an agent was doing and why, in stretches; read again by whoever goes on after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from sf.domain.clock import Instant
from sf.domain.ids import ulid
from sf.domain.runs import Lease
from sf.store import leases, sql
from sf.store.tx import Row, Tx

_Q = sql.load("knowledge")
Outcome = Literal["success", "failure", "pivot"]


class Chapter(msgspec.Struct, frozen=True):
    """One stretch of work; one without an outcome was never ended."""

    id: str
    run_id: str
    name: str
    intent: str
    opened_at: Instant
    closed_at: Instant | None
    outcome: Outcome | None
    spans: tuple[str, ...]


def begin(tx: Tx, lease: Lease, name: str, now: Instant) -> str:
    """Open a chapter of a run; its id."""
    leases.require_lease(tx, lease)
    chapter_id = ulid()
    tx.run(_Q["open_chapter"], id=chapter_id, unit=lease.unit_id, run=lease.run_id, name=name[:200], now=now)
    return chapter_id


def end(
    tx: Tx, lease: Lease, chapter_id: str, intent: str, outcome: Outcome, spans: Sequence[str], now: Instant
) -> None:
    """Close a chapter with what it was for, in a sentence."""
    leases.require_lease(tx, lease)
    encoded = msgspec.json.encode(list(spans)).decode()
    tx.run(_Q["close_chapter"], id=chapter_id, intent=intent, outcome=outcome, spans=encoded, now=now)


def of_unit(tx: Tx, unit_id: str) -> list[Chapter]:
    """The unit's chapters, oldest first."""
    return [_chapter(row) for row in tx.all(_Q["chapters_of"], unit=unit_id)]


def _chapter(row: Row) -> Chapter:
    return Chapter(
        id=row["id"],
        run_id=row["run_id"],
        name=row["name"],
        intent=row["intent"],
        opened_at=Instant(row["opened_at"]),
        closed_at=Instant(row["closed_at"]) if row["closed_at"] is not None else None,
        outcome=row["outcome"],
        spans=tuple(msgspec.json.decode(row["span_ids"])),
    )
