"""Session blockers: what waits for a person, shown in `sf status` until it is resolved."""

from __future__ import annotations

from collections.abc import Sequence

from sf.domain.clock import Instant
from sf.domain.ids import ulid
from sf.store import sql
from sf.store.tx import Row, Tx

_Q = sql.load("records")


def open_blocker(tx: Tx, session_id: str, event: str, unit_id: str | None, detail: str, now: Instant) -> str:
    """Put a blocker up; its id."""
    blocker_id = ulid()
    tx.run(
        _Q["open_blocker"],
        id=blocker_id,
        session=session_id,
        event=event,
        unit=unit_id,
        detail=detail,
        now=now,
    )
    return blocker_id


def reopen(tx: Tx, blocker_id: str, session_id: str) -> None:
    """Put a resolved blocker up again."""
    tx.run(_Q["reopen_blocker"], id=blocker_id, session=session_id)


def reword(tx: Tx, blocker_id: str, detail: str) -> None:
    """Tell what an open blocker is about in other words."""
    tx.run(_Q["reword_blocker"], id=blocker_id, detail=detail)


def resolve_unit(tx: Tx, unit_id: str, by: str, now: Instant, *, but: str = "") -> int:
    """Resolve everything open about a unit, but for one kind if it is named."""
    return tx.run(_Q["resolve_unit_blockers"], unit=unit_id, by=by, now=now, but=but)


def resolve_event(tx: Tx, event: str, by: str, now: Instant, unit_id: str | None = None) -> int:
    """Resolve the open blockers of one kind."""
    return tx.run(_Q["resolve_event"], event=event, by=by, now=now, unit=unit_id)


def resolve(tx: Tx, blocker_id: str, by: str, now: Instant) -> bool:
    """Resolve one blocker."""
    return tx.run(_Q["resolve_blocker"], id=blocker_id, by=by, now=now) == 1


def matching(tx: Tx, part: str) -> Sequence[Row]:
    """Open blockers whose id begins or ends so."""
    return tx.all(_Q["blocker"], part=part)


def open_blockers(tx: Tx) -> Sequence[Row]:
    """Every open blocker, oldest first."""
    return tx.all(_Q["open_blockers"])
