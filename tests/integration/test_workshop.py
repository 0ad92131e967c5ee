"""Where runs work, on real git: a run whose lease has ended changes neither a row nor a folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sf.domain.runs import Lease
from sf.domain.units import Merging
from sf.errors import LeaseLost
from sf.harness.workshop import Workshop
from sf.paths import Project
from sf.scheduler import claims, recovery
from sf.store import units
from sf.store.database import Database
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository
from tests.integration.test_workspaces_opening import make_user_repository
from tests.support.ground import Ground

A = "task/a1"


class Site:
    """A unit that was claimed twice: by one that slept past its lease, and by another since."""

    def __init__(self, ground: Ground, workshop: Workshop) -> None:
        self.ground = ground
        self.workshop = workshop
        self.late = self._claimed("late")
        ground.clock.advance(milliseconds=claims.LEASE_MS + 1)
        ground.write(lambda tx: recovery.sweep(tx, "other", "", ground.rules, ground.now))
        self.now = self._claimed("other")

    def _claimed(self, holder: str) -> Lease:
        lease = self.ground.claim(A, holder)
        assert lease is not None
        return lease


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    root = make_user_repository(tmp_path / "project")
    ground = Ground(tmp_path / "sf.db")
    ground.plant(adhoc=True)
    git = Git()
    user = await UserRepository.open(root, tmp_path / "facade", git)
    owned = await OwnedRepository.open(tmp_path / "owned.git", user, git)
    database = Database(ground.place)
    project = Project(root=root, home=tmp_path / "home")
    workshop = Workshop(project, database, user, owned, ground.clock, "branch-per-slice")
    yield Site(ground, workshop)
    database.close()
    ground.close()


async def test_a_run_without_its_lease_gets_no_place(site: Site) -> None:
    before = site.ground.unit(A)
    with pytest.raises(LeaseLost):
        await site.workshop.place(before, site.late)
    assert site.ground.unit(A) == before
    assert not site.workshop.folder(before).exists()


async def test_a_lease_that_ends_meanwhile_leaves_the_row_to_the_next_holder(site: Site) -> None:
    """As `place` goes on once it has looked."""
    before = site.ground.unit(A)
    with pytest.raises(LeaseLost):
        await site.workshop.open(before, site.late)
    assert site.ground.unit(A) == before
    place = await site.workshop.place(before, site.now)
    assert (site.ground.unit(A).base_commit, site.ground.unit(A).workspace) == (place.base, str(place.folder))


async def test_a_merge_that_is_laid_out_is_not_forgotten_by_one_that_is_late(site: Site) -> None:
    place = await site.workshop.place(site.ground.unit(A), site.now)
    merging = Merging(parent=place.base, laid_out_by=site.now.run_id)
    site.ground.write(lambda tx: units.set_merging(tx, A, merging, site.ground.now))
    with pytest.raises(LeaseLost):
        await site.workshop.undo_changes(site.ground.unit(A), place.worktree, site.late)
    assert site.ground.unit(A).merging == merging
    await site.workshop.undo_changes(site.ground.unit(A), place.worktree, site.now)
    assert site.ground.unit(A).merging is None
