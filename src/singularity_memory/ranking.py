"""Ranking: how an entry's words and its nearness in meaning become one score. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Candidate(NamedTuple):
    """What both arms say about one entry."""

    row: int
    lexical: float
    coverage: float
    similarity: float | None


class Fused(NamedTuple):
    """A candidate's score and what it is made of; a rank is None where an arm has nothing to say."""

    row: int
    score: float
    lexical_rank: int | None
    semantic_rank: int | None
    lexical_share: float


def fuse(candidates: Sequence[Candidate]) -> list[Fused]:
    """The candidates, best first."""
    lexical = _ranks([one.lexical if one.lexical > 0 else None for one in candidates])
    semantic = _ranks([one.similarity for one in candidates])
    best = max((one.lexical for one in candidates), default=0.0) or 1.0
    made = []
    for one, words, meaning in zip(candidates, lexical, semantic, strict=True):
        share = 0.35 if one.similarity is not None else 1.0
        near = max(0.0, one.similarity or 0.0)
        score = share * one.lexical / best + (1.0 - share) * near
        made.append(Fused(one.row, score, words, meaning, share))
    return sorted(made, key=lambda one: (-one.score, one.row))


def _ranks(values: Sequence[float | None]) -> list[int | None]:
    order = sorted(
        (index for index, value in enumerate(values) if value is not None),
        key=lambda index: -(values[index] or 0.0),
    )
    ranks: list[int | None] = [None] * len(values)
    for rank, index in enumerate(order, start=1):
        ranks[index] = rank
    return ranks
