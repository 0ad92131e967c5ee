"""The newest id of a store, below which no new one may be: the last row is found by its id.

A clock that was ahead when rows were written, or another machine's, would otherwise leave the newest work
looking older than what it replaced.
"""

from __future__ import annotations

from sf.domain.ids import keep_above
from sf.store import sql
from sf.store.tx import Tx

_Q = sql.load("floor")


def rise(tx: Tx) -> None:
    """Let what this process writes from now on come after every row that the store has."""
    row = tx.one(_Q["newest"])
    keep_above(row["id"] if row else None)
