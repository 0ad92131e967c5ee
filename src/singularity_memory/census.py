"""The census: what every bank holds, counted anew when it changed, and at least once a minute.

To count reads the history of every entry, half a second for 100,000 of them. What another process says about
an entry without writing one (feedback, accesses) is seen with the next minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from singularity_memory import decay, maturity
from singularity_memory.model import BankStats
from singularity_memory.store import Bank, Store

_SECONDS = 60.0


class _Counted(NamedTuple):
    bank: Bank
    said: int
    at: float
    stats: BankStats


class Census:
    """Counts the entries of banks by what became of them. Safe for threads."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._known: dict[int, _Counted] = {}
        self._said = 0

    def stir(self) -> None:
        """Something happened to an entry that its bank's version does not tell."""
        self._said += 1

    def of(self, bank: Bank, unembedded: int) -> BankStats:
        """What a bank holds."""
        now, said = self._clock(), self._said
        known = self._known.get(bank.number)
        if known is None or (known.bank, known.said) != (bank, said) or not 0 <= now - known.at < _SECONDS:
            known = self._known[bank.number] = _Counted(bank, said, now, self._counted(bank, now))
        return BankStats(
            known.stats.bank,
            known.stats.entries,
            known.stats.negative,
            unembedded,
            dict(known.stats.tiers),
            dict(known.stats.maturity),
        )

    def _counted(self, bank: Bank, now: float) -> BankStats:
        negatives = 0
        tiers: Counter[str] = Counter()
        states: Counter[str] = Counter()
        for negative, one in self._store.histories(bank):
            negatives += negative
            tiers[decay.tier(one, now)] += 1
            states[maturity.maturity(one, negative=negative, now=now)] += 1
        return BankStats(bank.name, bank.entries, negatives, 0, dict(tiers), dict(states))
