"""What sf's rows call done is on the disk by then: a power cut takes what no sync has put there."""

from __future__ import annotations

import pytest

from tests.chaos.ground import Blow, Ground
from tests.chaos.power import WRITES, unsynced
from tests.chaos.tracer import Boundary


@pytest.fixture(scope="module")
def met(tracer: None, project: Ground) -> list[Boundary]:
    """Every boundary of the short play, in order; what an agent's own repository is given aside."""
    project.reset()
    _, clean = project.traced(Blow("nothing", "none"))
    return [one for one in clean.boundaries if "/.sf/worktrees/" not in one.place]


def test_objects_and_refs_are_synced(met: list[Boundary]) -> None:
    written = [one for one in met if "/logs/" not in one.place and not one.place.endswith(".keep")]
    for part in ("/objects/", "/refs/", "-index"):
        assert any(one.call in WRITES and part in one.place for one in written), part
        assert not [place for place in unsynced(written) if part in place]


def test_the_branch_is_synced_before_the_merge_is_on_record(met: list[Boundary]) -> None:
    calls = [(one.call, one.place) for one in met]
    moved = next(n for n, (call, place) in enumerate(calls) if _moves(call, place))
    kept = calls.index(("fsync", "/project/.git/refs/heads"), moved)
    recorded = next(n for n, (call, place) in enumerate(calls) if n > moved and _commits(call, place))
    assert kept < recorded


def test_a_new_repository_of_sfs_own_is_synced_before_it_has_its_name(met: list[Boundary]) -> None:
    making = [one for one in met if "/.project-" in one.place]
    for part in ("/.HEAD.", "/.config."):
        assert any(one.call in WRITES and part in one.place for one in making), part
        assert not [place for place in unsynced(making) if part in place]


def _moves(call: str, place: str) -> bool:
    return call == "rename" and place.endswith("/refs/heads/main.lock")


def _commits(call: str, place: str) -> bool:
    return call in ("fsync", "fdatasync") and place.endswith("sf.db-wal")
