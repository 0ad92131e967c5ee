"""The attention queue: every question to a person, until it is answered or has become pointless."""

from __future__ import annotations

from typing import Any

import msgspec

from sf.domain.attention import Patience, Question
from sf.domain.clock import Instant
from sf.domain.ids import ulid
from sf.store import sql
from sf.store.tx import Row, Tx, made_of

_Q = sql.load("attention")


def ask(
    tx: Tx,
    session_id: str,
    kind: str,
    question: str,
    now: Instant,
    *,
    unit_id: str | None = None,
    blocker_id: str | None = None,
    data: dict[str, Any] | None = None,
    patience: Patience | None = None,
) -> str:
    """Put a question to a person; its id."""
    question_id = ulid()
    tx.run(
        _Q["ask"],
        id=question_id,
        session=session_id,
        unit=unit_id,
        blocker=blocker_id,
        kind=kind,
        question=question,
        data=msgspec.json.encode(data or {}).decode(),
        default=patience.default if patience else None,
        due=now + patience.deadline_ms if patience else None,
        now=now,
    )
    return question_id


def waiting(tx: Tx) -> list[Question]:
    """Every open question, oldest first."""
    return [_question(row) for row in tx.all(_Q["open"])]


def of_unit(tx: Tx, unit_id: str) -> list[Question]:
    """The open questions about one unit."""
    return [_question(row) for row in tx.all(_Q["open_of_unit"], unit=unit_id)]


def last(tx: Tx, unit_id: str, kind: str) -> Question | None:
    """The newest question of a kind about a unit, answered or not."""
    row = tx.one(_Q["last_of_unit"], unit=unit_id, kind=kind)
    return _question(row) if row else None


def reword(tx: Tx, question_id: str, question: str, data: dict[str, Any]) -> None:
    """Ask an open question in other words; its id and its deadline stay."""
    tx.run(_Q["reword"], id=question_id, question=question, data=msgspec.json.encode(data).decode())


def reopen(tx: Tx, question_id: str, session_id: str) -> None:
    """Ask a question again that nobody answered, as if it had not been closed."""
    tx.run(_Q["reopen"], id=question_id, session=session_id)


def postpone(tx: Tx, question_id: str, due_at: Instant, now: Instant) -> None:
    """Let an open question count as asked now, and get its default at another time."""
    tx.run(_Q["postpone"], id=question_id, due=due_at, now=now)


def drop_default(tx: Tx, question_id: str) -> None:
    """Let an open question stay until a person answers it."""
    tx.run(_Q["drop_default"], id=question_id)


def withdraw(tx: Tx, question_id: str, by: str, now: Instant) -> None:
    """Close a question that nobody needs to answer any more."""
    tx.run(_Q["close"], id=question_id, answer=None, by=by, now=now)


def close(tx: Tx, question_id: str, answer: str, by: str, now: Instant) -> None:
    """A question was answered."""
    tx.run(_Q["close"], id=question_id, answer=answer, by=by, now=now)


def close_unit(tx: Tx, unit_id: str, by: str, now: Instant) -> None:
    """What was asked about a unit has been settled."""
    tx.run(_Q["close_unit"], unit=unit_id, by=by, now=now)


def close_kind(tx: Tx, kind: str, by: str, now: Instant) -> None:
    """What was asked about the session has been settled."""
    tx.run(_Q["close_kind"], kind=kind, by=by, now=now)


def _question(row: Row) -> Question:
    values: dict[str, Any] = dict(row)
    values["data"] = msgspec.json.decode(values["data"])
    return made_of(Question, values)
