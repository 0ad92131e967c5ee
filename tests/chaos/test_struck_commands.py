"""Commands that change something, struck like a run: said again, they end as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.chaos.ground import Blow, Ground
from tests.chaos.invariants import broken
from tests.chaos.plays import ASKED, MERGED, REVERTED, UNIT
from tests.chaos.sweep import Tally, Trial, sweep

BLOWS = (
    Blow("kill everything", "kill-all"),
    Blow("kill sf alone", "kill-main"),
    Blow("kill one git", "kill-one", program="git"),
    Blow("ENOSPC from then on", "fail", error="ENOSPC", lasting=True),
)
POINTS = 2


def _names(blow: Blow) -> str:
    return blow.name.replace(" ", "-")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A project whose one unit waits for an answer."""
    with closing(Ground(tmp_path_factory.mktemp("asked"), ASKED)) as ground:
        assert ground.sf("auto").code == ASKED.code
        yield ground


@pytest.mark.parametrize("blow", BLOWS, ids=_names)
@pytest.mark.parametrize("command", ["revert", "clean"])
def test_a_struck_command_is_said_again(
    tracer: None, ground: Ground, command: str, blow: Blow, tally: Tally
) -> None:
    assert ground.sf("auto").code == 0
    assert broken(ground) == []
    trial = _trial(ground, command)
    lost = tally(f"{command}: {blow.name}", sweep(ground, blow, 0, POINTS, trial, stride=1))
    assert not lost, lost


@pytest.mark.parametrize("blow", [BLOWS[0], BLOWS[-1]], ids=_names)
def test_a_struck_answer_is_given_once(tracer: None, asked: Ground, blow: Blow, tally: Tally) -> None:
    reply, *after = ASKED.then
    trial = Trial(reply, MERGED, asked.keep("asked"), done_before="no question waits as", then=tuple(after))
    lost = tally(f"reply: {blow.name}", sweep(asked, blow, 0, POINTS, trial, stride=1))
    assert not lost, lost


def _trial(ground: Ground, command: str) -> Trial:
    begin = ground.keep("merged")
    if command == "clean":
        return Trial(("clean",), MERGED, begin)
    return Trial(("revert", UNIT, "--yes"), REVERTED, begin, done_before="was reverted already")
