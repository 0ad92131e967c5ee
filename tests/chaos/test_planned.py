"""A milestone with a slice and two tasks, struck like the short play, at a sample of its boundaries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.chaos.blows import FAULTS, KILLS
from tests.chaos.ground import Blow, Ground
from tests.chaos.plays import PLANNED
from tests.chaos.sweep import FULL, SEED, Trial, sweep

_STRIDE = 24
_TRIAL = Trial(("auto",), PLANNED.outcome)
_BLOWS = (*KILLS, *FAULTS)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The planned project of this worker."""
    with closing(Ground(tmp_path_factory.mktemp("planned"), PLANNED)) as ground:
        yield ground


@pytest.mark.parametrize("blow", _BLOWS if FULL else _BLOWS[:2], ids=lambda blow: blow.name.replace(" ", "-"))
def test_a_planned_milestone_survives_blows(
    tracer: None, planned: Ground, blow: Blow, record_property: Callable[[str, object], None]
) -> None:
    first = random.Random(f"{SEED} {blow.name}").randrange(_STRIDE)
    swept = sweep(planned, blow, first, 3, _TRIAL, stride=_STRIDE)
    record_property("chaos", (f"planned: {blow.name}", swept.boundaries, swept.struck, len(swept.losses)))
    assert swept.struck > 0
    assert not swept.losses, "\n".join(swept.losses)
