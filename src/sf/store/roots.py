"""Which repository a store belongs to, by the first commits of its history."""

from __future__ import annotations

from collections.abc import Sequence

from sf.domain.clock import Instant
from sf.store import sql
from sf.store.tx import Tx

_Q = sql.load("roots")


def known(tx: Tx) -> list[str]:
    """The first commits on record; none where nobody came yet."""
    return [str(row["root_commit"]) for row in tx.all(_Q["all"])]


def belongs(tx: Tx, firsts: Sequence[str], station: str, now: Instant, *, is_kin: bool = False) -> bool:
    """Whether a repository that begins with these commits is the store's; then all of them are recorded.

    It is if it comes first, if one of them is on record, if it is known to be kin, and if its folder has
    worked from here: then its history was rewritten, or has taken in another.
    """
    before = known(tx)
    shared = is_kin or not before or not set(firsts).isdisjoint(before)
    if not shared and tx.one(_Q["has_worked"], station=station) is None:
        return False
    for root in firsts:
        tx.run(_Q["record"], root=root, now=now)
    return True
