"""A kill before any change that sf or its git makes: the next run ends as if nothing had happened."""

from __future__ import annotations

import pytest

from tests.chaos.blows import KILLS
from tests.chaos.ground import Blow, Ground
from tests.chaos.sweep import SHARDS, Tally, sweep

POINTS = {
    "kill everything": 4,
    "kill sf alone": 2,
    "kill one git": 1,
    "tear a write": 1,
    "cut the power": 2,
    "roll back the names": 2,
}


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("blow", KILLS, ids=lambda blow: blow.name.replace(" ", "-"))
def test_nothing_is_lost_or_done_twice_after_a_kill(
    tracer: None, ground: Ground, blow: Blow, shard: int, tally: Tally
) -> None:
    lost = tally(blow.name, sweep(ground, blow, shard, POINTS[blow.name]))
    assert not lost, lost
