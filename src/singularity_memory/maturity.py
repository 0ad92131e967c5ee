"""Maturity: what an entry's history says about it, the weight that gives it, and when it is a warning."""

from __future__ import annotations

from singularity_memory.model import Maturity
from singularity_memory.standing import Standing, faded_score

ENOUGH = 3
ESTABLISHED_BELOW = 0.30
PROVEN_SCORE = 5.0
PROVEN_BELOW = 0.15
FAILED_USES = 3
AVOID = "AVOID: "

WEIGHTS: dict[Maturity, float] = {
    "candidate": 0.5,
    "established": 1.0,
    "proven": 1.5,
    "deprecated": 0.0,
    "negative": 1.0,
}


def harmful_ratio(standing: Standing) -> float:
    """The share of its observations that speak against it."""
    return standing.harmful / standing.observations if standing.observations else 0.0


def maturity(standing: Standing, *, negative: bool, now: float) -> Maturity:
    """The state of an entry: the first rule that applies decides; see docs/design/013-memory.md."""
    if negative:
        return "negative"
    if standing.observations < ENOUGH:
        return "candidate"
    ratio = harmful_ratio(standing)
    if ratio > ESTABLISHED_BELOW:
        return "deprecated"
    if ratio < PROVEN_BELOW and faded_score(standing, now) >= PROVEN_SCORE:
        return "proven"
    return "established"


def is_to_avoid(standing: Standing) -> bool:
    """Whether an entry failed so often that it is now a warning."""
    return standing.harmful >= FAILED_USES


def as_warning(content: str) -> str:
    """The content of an entry that is to be avoided; the same when it says so already."""
    return content if content.startswith(AVOID) else AVOID + content
