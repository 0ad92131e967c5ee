"""Which model works in which phase. The agent has no say in it."""

from __future__ import annotations

import msgspec

from sf.config.schema import Config, Tier
from sf.domain.phases import Phase

_ALWAYS_THINKING = frozenset({Phase.RESEARCH, Phase.PLAN, Phase.REASSESS})


class Route(msgspec.Struct, frozen=True):
    """A model, its tier, and whether it is asked to think."""

    model: str
    tier: Tier
    thinking: bool


def route(config: Config, phase: Phase, tier: Tier | None = None) -> Route:
    """The first model of the tier that the phase is mapped to, or of `tier` where a pass names its own."""
    mapped: Tier = getattr(config.routing, phase.value, "standard") if tier is None else tier
    models: tuple[str, ...] = getattr(config.tiers, mapped).models
    return Route(models[0], mapped, thinking=mapped == "reasoning" or phase in _ALWAYS_THINKING)
