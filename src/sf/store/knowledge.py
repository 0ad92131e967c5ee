"""Knowledge on its way: lessons that wait for the memory, the mirror of mistakes, and who was told what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sf.domain.clock import Instant
from sf.domain.ids import ulid
from sf.domain.knowledge import AntiPattern, Entry, Lesson
from sf.domain.runs import Lease
from sf.store import leases, sql
from sf.store.tx import Row, Tx

_Q = sql.load("knowledge")


class Pending(msgspec.Struct, frozen=True):
    """A lesson that the memory does not have yet."""

    id: str
    bank: str
    lesson: Lesson
    attempts: int
    next_retry_at: Instant
    created_at: Instant
    last_error: str = ""


class Waiting(msgspec.Struct, frozen=True):
    """How many lessons wait, since when, and what kept the last one."""

    count: int
    oldest: Instant | None
    error: str


def enqueue(tx: Tx, bank: str, lessons: Iterable[Lesson], now: Instant, station: str = "") -> None:
    """Keep lessons until the memory has them; call it in the transaction of what taught them.

    With a station they are for the memory of its folder, for each folder that shares a store has its own.
    """
    for lesson in lessons:
        text = msgspec.json.encode(lesson).decode()
        payload = _mark(station) + text[1:] if station else text
        tx.run(_Q["enqueue"], id=ulid(), bank=bank, payload=payload, now=now)


def _mark(station: str) -> str:
    """How the payload of a lesson for the memory of one folder begins."""
    return f'{{"station":{msgspec.json.encode(station).decode()},'


def due(tx: Tx, now: Instant, most: int = 100, station: str = "", *, longest: int) -> list[Pending]:
    """The lessons whose time to be delivered has come, oldest first; with a station, none for another's.

    One that is to wait longer than the longest wait was written by a clock that has been set back since.
    """
    mark = _mark(station) if station else ""
    return [_pending(row) for row in tx.all(_Q["due"], now=now, latest=now + longest, most=most, mark=mark)]


def bind(tx: Tx, station: str) -> None:
    """Have every lesson that waits for no memory in particular wait for that of a station's folder."""
    tx.run(_Q["bind"], mark=_mark(station))


def unbind(tx: Tx, station: str) -> int:
    """Forget a station whose store becomes a file: what waits for others stays behind; how many did."""
    left = tx.run(_Q["leave_foreign"], mark=_mark(station))
    tx.run(_Q["unbind"], mark=_mark(station))
    return left


def next_due(tx: Tx) -> Instant | None:
    """When the next lesson is to be delivered."""
    row = tx.one(_Q["next_due"])
    return Instant(row["due"]) if row and row["due"] is not None else None


def waiting(tx: Tx) -> Waiting:
    """What has not been delivered."""
    row = tx.one(_Q["count"])
    assert row is not None
    oldest = Instant(row["oldest"]) if row["oldest"] is not None else None
    return Waiting(int(row["n"]), oldest, row["error"] or "")


def postpone(tx: Tx, pending_id: str, due_at: Instant, error: str) -> None:
    """A delivery failed; try again later."""
    tx.run(_Q["postpone"], id=pending_id, due=due_at, error=error[:500])


def delivered(tx: Tx, pending_id: str) -> None:
    """The memory has it, or will never want it."""
    tx.run(_Q["delivered"], id=pending_id)


def older(tx: Tx, before: int, station: str) -> list[Pending]:
    """Lessons that have waited since before an instant, for the memory of a station's folder or for any."""
    return [_pending(row) for row in tx.all(_Q["older"], before=before, mark=_mark(station))]


def mirror(tx: Tx, pattern: AntiPattern, fingerprint: str, now: Instant) -> None:
    """Keep a mistake here too; a way out that is known already is not forgotten."""
    tx.run(
        _Q["mirror"],
        id=pattern.id,
        description=pattern.description,
        context=pattern.context,
        correct_path=pattern.correct_path,
        source_unit=pattern.source_unit or None,
        fingerprint=fingerprint,
        now=now,
    )


def synced(tx: Tx, pattern_id: str, now: Instant) -> None:
    """The memory has this mistake."""
    tx.run(_Q["synced"], id=pattern_id, now=now)


def unmirror(tx: Tx, pattern_id: str) -> bool:
    """Forget a mistake; whether it was known."""
    return tx.run(_Q["unmirror"], id=pattern_id) == 1


def mirrored(tx: Tx, most: int = 20, *, only_new: bool = False) -> list[AntiPattern]:
    """The mistakes that are known here, or those that the memory does not have yet; newest first."""
    return [_pattern(row) for row in tx.all(_Q["mirrored"], most=most, all=int(not only_new))]


def mistakes_of(tx: Tx, unit_id: str) -> list[AntiPattern]:
    """The mistakes that were made in one unit."""
    return [_pattern(row) for row in tx.all(_Q["mirrored_of"], unit=unit_id)]


def told(tx: Tx, lease: Lease, entries: Sequence[Entry]) -> None:
    """A run was told of these entries, each of its own bank."""
    leases.require_lease(tx, lease)
    for place, entry in enumerate(entries):
        tx.run(
            _Q["recalled"], run=lease.run_id, unit=lease.unit_id, bank=entry.bank, entry=entry.id, place=place
        )


def told_to(tx: Tx, unit_id: str) -> dict[str, str]:
    """The entries that the runs of a unit were told of, each with its bank."""
    return {row["entry_id"]: row["bank"] for row in tx.all(_Q["recalled_for"], unit=unit_id)}


def _pending(row: Row) -> Pending:
    return Pending(
        id=row["id"],
        bank=row["bank"],
        lesson=msgspec.json.decode(row["payload"], type=Lesson),
        attempts=row["attempts"],
        next_retry_at=Instant(row["next_retry_at"]),
        created_at=Instant(row["created_at"]),
        last_error=row["last_error"] or "",
    )


def _pattern(row: Row) -> AntiPattern:
    return AntiPattern(
        id=row["id"],
        description=row["description"],
        context=row["context"],
        correct_path=row["correct_path"],
        source_unit=row["source_unit"] or "",
    )
