"""`sf revert` and `sf clean`, struck like a run: said again, they end as if nothing had happened."""

from __future__ import annotations

import pytest

from tests.chaos.ground import Blow, Ground
from tests.chaos.invariants import broken
from tests.chaos.plays import MERGED, REVERTED, UNIT
from tests.chaos.sweep import Tally, Trial, sweep

BLOWS = (
    Blow("kill everything", "kill-all"),
    Blow("kill sf alone", "kill-main"),
    Blow("kill one git", "kill-one", program="git"),
    Blow("ENOSPC from then on", "fail", error="ENOSPC", lasting=True),
)
POINTS = 2


@pytest.mark.parametrize("blow", BLOWS, ids=lambda blow: blow.name.replace(" ", "-"))
@pytest.mark.parametrize("command", ["revert", "clean"])
def test_a_struck_command_is_said_again(
    tracer: None, ground: Ground, command: str, blow: Blow, tally: Tally
) -> None:
    assert ground.sf("auto").code == 0
    assert broken(ground) == []
    trial = _trial(ground, command)
    lost = tally(f"{command}: {blow.name}", sweep(ground, blow, 0, POINTS, trial, stride=1))
    assert not lost, lost


def _trial(ground: Ground, command: str) -> Trial:
    begin = ground.keep("merged")
    if command == "clean":
        return Trial(("clean",), MERGED, begin)
    return Trial(("revert", UNIT, "--yes"), REVERTED, begin, done_before="was reverted already")
