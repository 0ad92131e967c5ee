"""BM25 over an entry's own words, so that every store ranks alike, whatever its index computes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

K1 = 1.2
B = 0.75
_FEW = 16


class Lexical(NamedTuple):
    """How an entry's words meet a query's."""

    score: float
    coverage: float
    """The share of the query's weight whose words the entry has."""
    matched: tuple[str, ...]


def weights(frequencies: Mapping[str, int], terms: list[str], entries: int) -> dict[str, float]:
    """How telling each word of a query is in a bank: its inverse document frequency, above 0."""
    return {
        term: math.log(1.0 + (entries - found + 0.5) / (found + 0.5))
        for term in terms
        for found in (min(entries, frequencies.get(term, 0)),)
    }


def highest(weighted: Mapping[str, float]) -> float:
    """The score that no entry reaches: every word of the query, over and over."""
    return sum(weighted.values()) * (K1 + 1.0)


def rarity(weighted: Mapping[str, float], entries: int) -> float:
    """The mean weight of a query's words, as a share of what a word in a single entry would have."""
    return sum(weighted.values()) / len(weighted) / math.log(max(3, entries)) if weighted else 0.0


def score(words: str, weighted: Mapping[str, float], mean_words: float) -> Lexical:
    """One entry's score."""
    cut = words.split(" ")
    length = K1 * (1.0 - B + B * len(cut) / (mean_words or 1.0))
    total = covered = 0.0
    matched = []
    # To count a word is quick, to count a thousand one by one in a long entry takes longer than any deadline.
    times_of = cut.count if len(weighted) <= _FEW else Counter(cut).__getitem__
    for term, weight in weighted.items():
        if times := times_of(term):
            total += weight * times * (K1 + 1.0) / (times + length)
            covered += weight
            matched.append(term)
    return Lexical(total, covered / (sum(weighted.values()) or 1.0), tuple(matched))
