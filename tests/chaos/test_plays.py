"""Longer plays than the one that is struck everywhere, each at a sample of its boundaries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.chaos.blows import FAULTS, KILLS
from tests.chaos.ground import Blow, Ground
from tests.chaos.plays import CONTESTED, EVENTFUL, PLANNED, VETOED, Outcome, contest, veto
from tests.chaos.sweep import FULL, SEED, Trial, strike, sweep
from tests.support.stage import Stage

_BLOWS = (*KILLS, *FAULTS)
_LANDING = Blow("nothing has landed yet", "kill-all", place="tmp_pack_", calls=("unlink",))
_ENDINGS = tuple(blow for blow in KILLS if blow.act != "kill-one")
"""Blows that end the session: whatever makes a run fail is another visit of the script's."""
_STRIDE = 24


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A milestone with a slice and two tasks."""
    with closing(Ground(tmp_path_factory.mktemp("planned"), PLANNED)) as ground:
        yield ground


@pytest.fixture(scope="module")
def eventful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The same with setbacks."""
    with closing(Ground(tmp_path_factory.mktemp("eventful"), EVENTFUL)) as ground:
        yield ground


@pytest.mark.parametrize("blow", _BLOWS if FULL else _BLOWS[:2], ids=lambda blow: blow.name.replace(" ", "-"))
def test_a_planned_milestone_survives_blows(
    tracer: None, planned: Ground, blow: Blow, record_property: Callable[[str, object], None]
) -> None:
    _strike(planned, blow, "planned", Trial(("auto",), PLANNED.outcome), 2, record_property)


@pytest.mark.parametrize("blow", _BLOWS if FULL else _BLOWS[:1], ids=lambda blow: blow.name.replace(" ", "-"))
def test_a_merge_that_conflicts_survives_blows(
    tracer: None, ground: Ground, blow: Blow, record_property: Callable[[str, object], None]
) -> None:
    _strike(ground, blow, "contested", _meanwhile(ground, contest, CONTESTED), 2, record_property)


@pytest.mark.parametrize("blow", _BLOWS if FULL else _BLOWS[:1], ids=lambda blow: blow.name.replace(" ", "-"))
def test_a_merge_that_a_gate_refuses_survives_blows(
    tracer: None, ground: Ground, blow: Blow, record_property: Callable[[str, object], None]
) -> None:
    _strike(ground, blow, "vetoed", _meanwhile(ground, veto, VETOED), 2, record_property)


@pytest.mark.parametrize(
    "blow", _ENDINGS if FULL else _ENDINGS[:1], ids=lambda blow: blow.name.replace(" ", "-")
)
def test_a_milestone_with_setbacks_survives_kills(
    tracer: None, eventful: Ground, blow: Blow, record_property: Callable[[str, object], None]
) -> None:
    _strike(eventful, blow, "eventful", Trial(("auto",), EVENTFUL.outcome), 1, record_property)


def test_a_conflict_that_a_run_did_not_live_to_tell_is_told_by_the_next(tracer: None, ground: Ground) -> None:
    told = Blow("laid out, not told", "kill-all", place="/attempts.md", calls=("openat",))
    report, problems = strike(ground, told, 1, _meanwhile(ground, contest, CONTESTED))
    assert report.acted
    assert not problems, "\n".join(problems)


def _meanwhile(ground: Ground, act: Callable[[Stage], None], outcome: Outcome) -> Trial:
    """The short play, where the user does something just before it lands."""
    _, report = ground.traced(_LANDING, at=1)
    assert report.acted
    act(ground.stage)
    return Trial(("auto",), outcome, ground.keep("meanwhile"))


def _strike(
    ground: Ground,
    blow: Blow,
    play: str,
    trial: Trial,
    points: int,
    record_property: Callable[[str, object], None],
) -> None:
    first = random.Random(f"{SEED} {play} {blow.name}").randrange(_STRIDE)
    swept = sweep(ground, blow, first, points, trial, stride=_STRIDE)
    record_property("chaos", (f"{play}: {blow.name}", swept.boundaries, swept.struck, len(swept.losses)))
    assert swept.struck > 0
    assert not swept.losses, "\n".join(swept.losses)
