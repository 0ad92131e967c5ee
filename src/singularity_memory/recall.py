"""Recall: candidates by words and by meaning, scored by both, weighted by what became of them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from singularity_memory import bm25, decay, labels, ranking, words
from singularity_memory.deadline import Deadline
from singularity_memory.effort import EFFORTS, HURRIED, Lookup, choose
from singularity_memory.embedders import Embedder, Vector
from singularity_memory.errors import EmbeddingFailed
from singularity_memory.maturity import WEIGHTS, maturity
from singularity_memory.model import Explanation, Hit, Query
from singularity_memory.store import Bank, Entry, Nearness, Store

_QUERIES = 512
_WARMED = 4
_HURRY = 0.010
"""With less than this many seconds a recall reads little."""
_PACE = 2e-7
"""Seconds for each entry that a search by meaning takes, until it is known better."""
_RESERVE = 0.004
"""Seconds kept for reading the candidates and ranking them."""


class Found(NamedTuple):
    """The hits, their rows, and why a part of the search was left out, if it was."""

    hits: tuple[Hit, ...]
    rows: tuple[int, ...]
    reason: str


class Recall:
    """Searches the banks of a store."""

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        self._store = store
        self._embedder = embedder
        self._meaning = store.meaning(embedder.name, embedder.dimension) if embedder else None
        self._queries: OrderedDict[str, Vector] = OrderedDict()
        self._lock = Lock()
        self._embedding_takes = 0.0
        self._pace = _PACE

    def search(self, query: Query, now: float) -> Found:
        """The best entries for a query, and what had to be left out."""
        deadline = Deadline(query.deadline_ms)
        bank = self._store.bank(query.bank)
        if bank is None or not bank.entries:
            return Found((), (), "")
        wanted = labels.of_filter(query.filter)
        effort = EFFORTS[query.rerank_quality] if deadline.allows(_HURRY) else HURRIED
        pool = max(effort.pool, query.top_k)
        terms = words.terms(query.text)
        frequencies = self._store.frequencies(bank, terms)
        weights = bm25.weights(frequencies, terms, bank.entries)
        lookup = choose(weights, frequencies, effort)
        rows = self._by_words(bank, lookup, wanted, pool)
        near, reason = self._by_meaning(bank, query.text, pool, wanted, rows, deadline)
        chosen = dict.fromkeys((*rows, *near.nearest) if near else rows)
        best = self._best(query.top_k, bank, list(chosen), weights, near, now)
        return Found(tuple(hit for hit, _ in best), tuple(row for _, row in best), reason)

    def warm(self) -> None:
        """Have the vectors of the largest banks read in the background, before anybody asks for them."""
        if self._meaning is not None:
            for bank in sorted(self._store.banks(), key=lambda bank: -bank.entries)[:_WARMED]:
                self._meaning.ready(bank, 0.0)

    def _by_words(self, bank: Bank, lookup: Lookup, wanted: frozenset[str], pool: int) -> list[int]:
        if not lookup.weighted:
            return []
        found = self._store.lexical(bank, lookup.weighted, wanted, pool, ranked=lookup.ranked)
        return [match.row for match in found]

    def _best(
        self,
        count: int,
        bank: Bank,
        rows: list[int],
        weights: Mapping[str, float],
        near: Nearness | None,
        now: float,
    ) -> list[tuple[Hit, int]]:
        entries = {entry.row: entry for entry in self._store.entries(rows)}
        lexical = {row: bm25.score(entry.words, weights, bank.mean_words) for row, entry in entries.items()}
        similar = near.similarities if near else {}
        asked = ranking.Asked(
            bank.entries,
            bm25.highest(weights),
            bm25.rarity(weights, bank.entries),
            near.background if near else None,
            self._embedder.trust if self._embedder else 0.0,
        )
        fused = ranking.fuse(
            [
                ranking.Candidate(row, found.score, found.coverage, similar.get(row))
                for row, found in lexical.items()
            ],
            asked,
        )
        final = [_Scored(_final(entries[one.row], one, now), one, entries[one.row]) for one in fused]
        alive = sorted((one for one in final if one.score > 0), key=lambda one: (-one.score, one.entry.row))
        return [
            (_hit(one, lexical[one.entry.row], similar.get(one.entry.row), now), one.entry.row)
            for one in alive[:count]
        ]

    def _by_meaning(
        self,
        bank: Bank,
        text: str,
        pool: int,
        wanted: frozenset[str],
        also: Sequence[int],
        deadline: Deadline,
    ) -> tuple[Nearness | None, str]:
        if self._embedder is None or self._meaning is None:
            return None, "lexical only: there is no embedder"
        if not self._meaning.ready(bank, deadline.left()):
            return None, "lexical only: the vectors of this bank are still being read"
        try:
            vector = self._query_vector(self._embedder, text, deadline)
        except EmbeddingFailed as error:
            return None, f"lexical only: {error.message}"
        if vector is None or not deadline.allows(self._pace * bank.entries + _RESERVE):
            return None, "lexical only: no time was left to search by meaning"
        begun = time.monotonic()
        found = self._meaning.nearest(bank, vector, pool, wanted, also)
        # The least of a new figure and twice the old one: the first search of a bank reads its vectors.
        self._pace = min((time.monotonic() - begun) / bank.entries, 2 * self._pace)
        return found, ""

    def _query_vector(self, embedder: Embedder, text: str, deadline: Deadline) -> Vector | None:
        with self._lock:
            known = self._queries.get(text)
        if known is not None:
            return known
        if not deadline.allows(self._embedding_takes + _RESERVE):
            return None
        begun = time.monotonic()
        made = embedder.query(text, deadline.left())
        with self._lock:
            self._embedding_takes = 0.8 * self._embedding_takes + 0.2 * (time.monotonic() - begun)
            self._queries[text] = made
            while len(self._queries) > _QUERIES:
                self._queries.popitem(last=False)
        return made


class _Scored(NamedTuple):
    score: float
    fused: ranking.Fused
    entry: Entry


def _final(entry: Entry, fused: ranking.Fused, now: float) -> float:
    state = maturity(entry.standing, negative=entry.negative, now=now)
    return fused.score * WEIGHTS[state] * decay.factor(entry.standing, negative=entry.negative, now=now)


def _hit(one: _Scored, lexical: bm25.Lexical, similarity: float | None, now: float) -> Hit:
    entry, fused = one.entry, one.fused
    standing, negative = entry.standing, entry.negative
    state = maturity(standing, negative=negative, now=now)
    explanation = Explanation(
        fused=fused.score,
        lexical_rank=fused.lexical_rank,
        lexical_score=lexical.score,
        coverage=lexical.coverage,
        semantic_rank=fused.semantic_rank,
        similarity=similarity,
        lexical_share=fused.lexical_share,
        maturity=state,
        maturity_weight=WEIGHTS[state],
        decay=decay.factor(standing, negative=negative, now=now),
        age_days=decay.age(standing, now),
        half_life_days=decay.half_life(standing.confidence),
        tier=decay.tier(standing, now),
        negative=negative,
        matched=lexical.matched,
    )
    return Hit(entry.id, entry.document_id, entry.content, entry.tags, entry.metadata, one.score, explanation)
