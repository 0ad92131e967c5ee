"""Confidence decay: an entry counts less with the time since it last proved right, unless it is a warning."""

from __future__ import annotations

from singularity_memory.model import Tier
from singularity_memory.standing import DAY, Standing

BASE_DAYS = 90.0
HOT_DAYS = 7.0
WARM_DAYS = 30.0
BUFFER_ACCESSES = 10
BUFFER_DAYS = 7.0


def half_life(confidence: float) -> float:
    """The half-life in days for a confidence in [0, 1]: 45 to 135."""
    return BASE_DAYS * (0.5 + min(1.0, max(0.0, confidence)))


def age(standing: Standing, now: float) -> float:
    """The age in days that decay sees: since the timer began, less the buffer of an entry in use."""
    days = max(0.0, now - standing.fresh_at) / DAY
    return max(0.0, days - BUFFER_DAYS) if standing.accesses >= BUFFER_ACCESSES else days


def factor(standing: Standing, *, negative: bool, now: float) -> float:
    """What the score is multiplied by, in (0, 1]; always 1 for an anti-pattern."""
    if negative:
        return 1.0
    return float(0.5 ** (age(standing, now) / half_life(standing.confidence)))


def tier(standing: Standing, now: float) -> Tier:
    """How lately an entry was used; being written counts as use."""
    days = (now - max(standing.accessed_at, standing.created_at)) / DAY
    if days <= HOT_DAYS:
        return "hot"
    return "warm" if days <= WARM_DAYS else "cold"
