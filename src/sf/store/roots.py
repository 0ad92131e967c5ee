"""Which repository a store belongs to, by the first commits of its history."""

from __future__ import annotations

from sf.domain.clock import Instant
from sf.store import sql
from sf.store.tx import Tx

_Q = sql.load("roots")


def known(tx: Tx) -> list[str]:
    """The first commits on record; none where nobody came yet."""
    return [str(row["root_commit"]) for row in tx.all(_Q["all"])]


def belongs(tx: Tx, root: str, station: str, now: Instant) -> bool:
    """Whether a repository with this first commit is the store's.

    It is if it comes first, and also if its folder has worked from here: then its history was rewritten.
    """
    if not known(tx) or tx.one(_Q["has_worked"], station=station) is not None:
        tx.run(_Q["record"], root=root, now=now)
    return root in known(tx)
