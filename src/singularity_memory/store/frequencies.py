"""How many entries have a word: remembered, because counting a common one anew takes milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from singularity_memory.store import Bank

_EXACT = 1000
"""Below this many entries a count is only good for the version of the bank that it was made for."""
_DRIFT = 0.02
"""By how much a larger bank may have grown or shrunk since."""
_MOST = 50_000


class _Count(NamedTuple):
    entries: int
    version: int
    found: int


class Frequencies:
    """Counts by bank and word. Safe for threads: each step is one operation of a dictionary."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, str], _Count] = {}

    def knows(self, bank: Bank, term: str) -> bool:
        """Whether a count is there and still good."""
        count = self._counts.get((bank.number, term))
        if count is None:
            return False
        if bank.entries < _EXACT:
            return count.version == bank.version
        return abs(bank.entries - count.entries) <= _DRIFT * count.entries

    def learn(self, bank: Bank, terms: Sequence[str], found: Mapping[str, int]) -> None:
        """Remember counts; a word without one is in no entry."""
        if len(self._counts) > _MOST:
            self._counts.clear()
        for term in terms:
            self._counts[bank.number, term] = _Count(bank.entries, bank.version, found.get(term, 0))

    def of(self, bank: Bank, terms: Sequence[str]) -> dict[str, int]:
        """The counts of words, without those in no entry."""
        known = {term: self._counts.get((bank.number, term)) for term in terms}
        return {term: count.found for term, count in known.items() if count is not None and count.found}
