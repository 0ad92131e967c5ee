"""A disk that refuses: sf says so in a line or goes on, and a later run ends as if nothing had happened."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing

import pytest

from tests.chaos.blows import FAULTS
from tests.chaos.ground import Blow, Ground
from tests.chaos.invariants import broken
from tests.chaos.stable import Ended
from tests.chaos.sweep import FULL, SHARDS, Tally, sweep

POINTS = {
    "ENOSPC once": 1,
    "ENOSPC from then on": 1,
    "EIO once": 1,
    "EROFS from then on": 1,
    "EMFILE once": 1,
    "SQLITE_BUSY once": 1,
}


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("blow", FAULTS, ids=lambda blow: blow.name.replace(" ", "-"))
def test_a_fault_costs_time_at_most(
    tracer: None, ground: Ground, blow: Blow, shard: int, tally: Tally
) -> None:
    lost = tally(blow.name, sweep(ground, blow, shard, POINTS[blow.name]))
    assert not lost, lost


@pytest.mark.parametrize("runs", range(4) if FULL else [1])
def test_a_store_that_another_program_keeps_locked_is_told_and_costs_time_at_most(
    ground: Ground, runs: int
) -> None:
    """Locked from the beginning of the n-th run until sf has given up."""
    ended: list[Ended] = []
    session = threading.Thread(target=lambda: ended.append(ground.sf("auto")))
    with closing(sqlite3.connect(ground.project.database, isolation_level=None)) as other:
        session.start()
        while session.is_alive() and other.execute("SELECT COUNT(*) FROM runs").fetchone()[0] < runs:
            time.sleep(0.005)
        other.execute("BEGIN IMMEDIATE")
        session.join(60)
    assert ended[0].code == 1, ended[0]
    assert "database is locked" in ended[0].stderr and "another program" in ended[0].stderr
    assert "Traceback" not in ended[0].stderr
    assert ground.sf("auto").code == 0
    assert broken(ground) == []
