"""Ranking: what two arms say about an entry becomes one score. Pure.

Each arm is read as evidence: how unlikely it is that an entry that has nothing to do with the query would
look like this. For words that is BM25, a sum of logarithms of how rare each matching word is, and for an
entry that has all that was asked for, the logarithm of how few do. For meaning it is z²/2, where z says how
far the similarity stands out from that of the bank's other entries. Evidence adds up, and so it weighs the
arms anew for every query: a rare identifier speaks louder than a vague likeness, and a paraphrase that
stands out louder than a common word.

Words are heard as far as they have something to say about this query at all: little when the best entry has
hardly any of what was asked for (a query in other words), and little when ten entries have it alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

LEXICAL_WEIGHT = 0.45
COMPLETE_WEIGHT = 1.5
COMPLETE = 0.84
"""The share of a query's weight from which an entry is taken to have all that was asked for."""
_USUAL_RARITY = 0.45
_ENOUGH_SAID = 0.3
"""The share of a query's weight that the best entry must have for words to be heard in full."""
_USUAL_LEAD = 0.4
_LEAST_LEAD = 0.2
_SHORTFALL = 0.25
"""The power of an entry's coverage, as a share of the best one's."""
_KNEE = 2.0
_STRAIGHT = 30.0
_PRIOR_ENTRIES = 20
_PRIOR_MEAN = 0.1
_PRIOR_DEVIATION = 0.12
"""What is taken for the likeness of unrelated texts as long as a bank has few."""


class Background(NamedTuple):
    """How similar the entries of a bank are to a query on the whole."""

    mean: float
    deviation: float


class Asked(NamedTuple):
    """What a score is measured against."""

    entries: int
    whole: float
    """The lexical score of a text that says all words of the query over and over."""
    rarity: float
    """How rare the query's words are on average: 0 when everywhere, about 1 when in one entry each."""
    behind: Background | None
    trust: float = 1.0
    """What the embedder's judgement weighs."""


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


def background(count: int, total: float, squares: float) -> Background:
    """From the number, the sum and the sum of squares of similarities; steady for few of them."""
    entries = count + _PRIOR_ENTRIES
    mean = (total + _PRIOR_ENTRIES * _PRIOR_MEAN) / entries
    prior = _PRIOR_ENTRIES * (_PRIOR_DEVIATION**2 + _PRIOR_MEAN**2)
    variance = (squares + prior) / entries - mean**2
    return Background(mean, math.sqrt(max(variance, 1e-6)))


def fuse(candidates: Sequence[Candidate], asked: Asked) -> list[Fused]:
    """The candidates, best first; 1 is the score of an entry that says the query in so many words."""
    lexical = _ranks([one.lexical if one.lexical > 0 else None for one in candidates])
    semantic = _ranks([one.similarity for one in candidates])
    complete = sum(one.coverage >= COMPLETE for one in candidates)
    for_all = _for_all(asked, complete)
    weight = lexical_weight(candidates)
    most = max((one.coverage for one in candidates), default=0.0) or 1.0
    perfect = weight * asked.whole + for_all + asked.trust * _meaning(1.0, asked.behind)
    made = []
    for one, by_words, by_meaning in zip(candidates, lexical, semantic, strict=True):
        words = weight * one.lexical * (one.coverage / most) ** _SHORTFALL
        words += for_all if one.coverage >= COMPLETE else 0.0
        evidence = words + asked.trust * _meaning(one.similarity, asked.behind)
        share = words / evidence if evidence else 0.0
        made.append(Fused(one.row, evidence / (perfect or 1.0), by_words, by_meaning, share))
    return sorted(made, key=lambda one: (-one.score, one.row))


def lexical_weight(candidates: Sequence[Candidate]) -> float:
    """What a point of BM25 weighs: by how much of the query the best has, and its lead over the tenth."""
    scores = sorted((one.lexical for one in candidates), reverse=True)
    if not scores or scores[0] <= 0:
        return LEXICAL_WEIGHT
    said = min(1.0, max(one.coverage for one in candidates) / _ENOUGH_SAID)
    tenth = scores[9] if len(scores) > 9 else 0.0
    lead = max(_LEAST_LEAD, 1.0 - tenth / scores[0])
    return LEXICAL_WEIGHT * said * math.sqrt(said) * lead / _USUAL_LEAD


def _for_all(asked: Asked, complete: int) -> float:
    """To have all words of a query tells much when few have them, and more when the words are rare ones."""
    few = math.log(max(1.0, asked.entries / (complete + 0.5)))
    return COMPLETE_WEIGHT * few * (asked.rarity / _USUAL_RARITY) ** 2


def _meaning(similarity: float | None, behind: Background | None) -> float:
    if similarity is None or behind is None:
        return 0.0
    bent = _KNEE * (similarity - behind.mean) / behind.deviation
    # softplus instead of max(0, z): what does not stand out still has an order.
    standing_out = (bent if bent > _STRAIGHT else math.log1p(math.exp(bent))) / _KNEE
    return standing_out**2 / 2


def _ranks(values: Sequence[float | None]) -> list[int | None]:
    order = sorted(
        (index for index, value in enumerate(values) if value is not None),
        key=lambda index: -(values[index] or 0.0),
    )
    ranks: list[int | None] = [None] * len(values)
    for rank, index in enumerate(order, start=1):
        ranks[index] = rank
    return ranks
