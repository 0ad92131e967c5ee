"""`sf revert` and `sf clean`, struck like a run: said again, they end as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.ground import Blow, Ground
from tests.chaos.invariants import broken
from tests.chaos.plays import MERGED, REVERTED, UNIT
from tests.chaos.sweep import SHARDS, Trial, sweep

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
    tracer: None, ground: Ground, command: str, blow: Blow, record_property: Callable[[str, object], None]
) -> None:
    assert ground.sf("auto").code == 0
    assert broken(ground) == []
    trial = _trial(ground, command)
    shards = [sweep(ground, blow, shard, POINTS, trial) for shard in range(SHARDS)]
    struck, losses = (
        sum(swept.struck for swept in shards),
        [loss for swept in shards for loss in swept.losses],
    )
    record_property("chaos", (f"{command}: {blow.name}", shards[0].boundaries, struck, len(losses)))
    assert struck > 0
    assert not losses, "\n".join(losses)


def _trial(ground: Ground, command: str) -> Trial:
    begin = ground.keep("merged")
    if command == "clean":
        return Trial(("clean",), MERGED, begin)
    return Trial(("revert", UNIT, "--yes"), REVERTED, begin, done_before="was reverted already")
