"""A disk that refuses: sf says so in a line or goes on, and a later run ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.ground import Blow, Ground
from tests.chaos.sweep import SHARDS, sweep

FAULTS = (
    Blow("ENOSPC once", "fail", error="ENOSPC"),
    Blow("ENOSPC from then on", "fail", error="ENOSPC", lasting=True),
    Blow("EIO once", "fail", error="EIO"),
    Blow("EROFS from then on", "fail", error="EROFS", lasting=True),
    Blow("EMFILE once", "fail", error="EMFILE", kind="descriptors"),
)
POINTS = {
    "ENOSPC once": 2,
    "ENOSPC from then on": 2,
    "EIO once": 2,
    "EROFS from then on": 2,
    "EMFILE once": 2,
}


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("blow", FAULTS, ids=lambda blow: blow.name.replace(" ", "-"))
def test_a_fault_costs_time_at_most(
    tracer: None, ground: Ground, blow: Blow, shard: int, record_property: Callable[[str, object], None]
) -> None:
    swept = sweep(ground, blow, shard, POINTS[blow.name])
    record_property("chaos", (blow.name, swept.boundaries, swept.struck, len(swept.losses)))
    assert swept.struck > 0
    assert not swept.losses, "\n".join(swept.losses)
