"""An entry's history as counts and times (seconds since the epoch), and how each event changes it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

DAY = 86_400.0
SCORE_HALF_LIFE_DAYS = 90.0
"""How fast the memory of having helped fades: the half-life of an entry of middling confidence."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
Moment = Annotated[float, Meta(ge=0, le=1e12)]
Score = Annotated[float, Meta(ge=0, le=1e12)]
"""What an import may say: a history outside of this would make every later recall of its bank fail."""


class Standing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happened to an entry so far."""

    created_at: Moment
    updated_at: Moment
    fresh_at: Moment
    """When the decay timer began: at creation, the last validation, or the last time it helped."""
    observations: Count = 1
    helpful: Count = 0
    harmful: Count = 0
    helpful_score: Score = 0.0
    helpful_at: Moment = 0.0
    accesses: Count = 0
    accessed_at: Moment = 0.0

    @property
    def confidence(self) -> float:
        """How far its votes speak for it, in [0, 1]; 0.5 without any."""
        return (self.helpful + 1) / (self.helpful + self.harmful + 2)


def born(now: float) -> Standing:
    """The standing of an entry at its first retain."""
    return Standing(created_at=now, updated_at=now, fresh_at=now)


def seen_again(standing: Standing, now: float) -> Standing:
    """After the same document was retained once more: one more observation, and it is fresh."""
    return msgspec.structs.replace(
        standing, observations=standing.observations + 1, updated_at=now, fresh_at=now
    )


def faded_score(standing: Standing, now: float) -> float:
    """The helpful score at a moment: each time it helped counts one and halves every 90 days."""
    days = max(0.0, now - standing.helpful_at) / DAY
    return float(standing.helpful_score * 0.5 ** (days / SCORE_HALF_LIFE_DAYS))


def helped(standing: Standing, now: float) -> Standing:
    """After +1: an observation that speaks for it; the decay timer begins anew."""
    return msgspec.structs.replace(
        standing,
        observations=standing.observations + 1,
        helpful=standing.helpful + 1,
        helpful_score=faded_score(standing, now) + 1.0,
        helpful_at=now,
        fresh_at=now,
    )


def harmed(standing: Standing) -> Standing:
    """After −1: an observation that speaks against it, a failed use."""
    return msgspec.structs.replace(
        standing, observations=standing.observations + 1, harmful=standing.harmful + 1
    )


def validated(standing: Standing, now: float) -> Standing:
    """After somebody said that it still holds: the decay timer begins anew."""
    return msgspec.structs.replace(standing, fresh_at=now)


def accessed(standing: Standing, times: int, now: float) -> Standing:
    """After it was recalled."""
    return msgspec.structs.replace(
        standing, accesses=standing.accesses + times, accessed_at=max(now, standing.accessed_at)
    )
