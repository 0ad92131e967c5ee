"""How much a recall reads: which of a query's words are looked up, and how closely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from singularity_memory.model import Quality


class Effort(NamedTuple):
    """The bounds of one recall."""

    pool: int
    """How many candidates each arm names."""
    ranked: int
    """Up to how many index entries the words that were chosen are ranked by the index itself."""
    scanned: int
    """How many index entries are read at most, the query's rarest words first."""


EFFORTS: dict[Quality, Effort] = {
    "fast": Effort(pool=120, ranked=2_000, scanned=30_000),
    "accurate": Effort(pool=120, ranked=50_000, scanned=1_000_000),
}
HURRIED = Effort(pool=30, ranked=500, scanned=2_000)
"""When there is hardly any time left."""


class Lookup(NamedTuple):
    """The words to look up with their weights, and whether the index ranks what it finds."""

    weighted: dict[str, float]
    ranked: bool


def choose(weights: Mapping[str, float], frequencies: Mapping[str, int], effort: Effort) -> Lookup:
    """The rarest words until the bound is reached; one word at least, if any is in the bank.

    What is left out is common, so it tells little, and what is found is scored by all words of the query.
    """
    chosen: dict[str, float] = {}
    read = 0
    for term in sorted(frequencies, key=lambda term: (frequencies[term], term)):
        if chosen and read + frequencies[term] > effort.scanned:
            break
        chosen[term] = weights[term]
        read += frequencies[term]
    return Lookup(chosen, read <= effort.ranked)
