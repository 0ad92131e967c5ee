"""What the aggregates read and write through: one connection inside one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from sf.domain.events import Event


def storable(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters that a database takes: a name that is not UTF-8 is written with its bytes escaped."""
    for name, value in params.items():
        if isinstance(value, str) and not value.isascii():
            params[name] = value.encode("utf-8", "backslashreplace").decode()
    return params


class Tx:
    """A transaction, or a plain reading connection. Events announced here are published after the commit."""

    __slots__ = ("_connection", "events")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.events: list[Event] = []

    def one(self, sql: str, **params: Any) -> sqlite3.Row | None:
        """The first row, or None."""
        row: sqlite3.Row | None = self._connection.execute(sql, storable(params)).fetchone()
        return row

    def all(self, sql: str, **params: Any) -> Sequence[sqlite3.Row]:
        """Every row."""
        return self._connection.execute(sql, storable(params)).fetchall()

    def run(self, sql: str, **params: Any) -> int:
        """Execute a statement; the number of rows that it changed."""
        return self._connection.execute(sql, storable(params)).rowcount

    def announce(self, event: Event) -> None:
        """Publish this once the transaction is on disk."""
        self.events.append(event)
