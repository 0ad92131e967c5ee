"""Where a unit's work is done: its worktree, its branch, and the commit that its diff is measured against."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sf.domain.clock import Clock
from sf.domain.facts import WorktreeMode
from sf.domain.ids import branch_name, folder_name
from sf.domain.phases import WRITING
from sf.domain.runs import Lease
from sf.domain.units import RESOLVES, Merging, Unit
from sf.errors import BranchGone, WorkMissing
from sf.harness import artifacts
from sf.paths import Project
from sf.store import leases, runs, sessions, units
from sf.store.database import Database
from sf.store.tx import Tx
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository
from sf.workspaces.worktree import Worktree, clear_place

_TELLING = ("merge_conflict", "gate_failed", "gate_timeout")
"""How a run ends that lays a merge out and says so."""


class Place(msgspec.Struct, frozen=True):
    """A worktree ready for a run."""

    worktree: Worktree
    folder: Path
    base: str
    """The commit that the unit's own diff starts from."""
    created: bool
    merging: Merging | None = None
    """The merge that is laid out here for this unit to resolve."""

    @property
    def shown_from(self) -> str:
        """The commit that people and reviewers see the diff from: what was merged in is not the unit's."""
        return self.merging.parent if self.merging else self.base


class Workshop:
    """Makes and finds worktrees."""

    def __init__(
        self,
        project: Project,
        database: Database,
        user: UserRepository,
        owned: OwnedRepository,
        clock: Clock,
        mode: WorktreeMode,
    ) -> None:
        self.project = project
        self.user = user
        self.owned = owned
        self._database = database
        self._clock = clock
        self._mode = mode

    def integration_branch(self, unit: Unit) -> str:
        """The branch that a unit's finished work is merged into: the one current when it was planned."""
        session = sessions.current(self._database.read)
        branch = unit.metadata.get("integration_branch") or (
            session["integration_branch"] if session else None
        )
        if not branch:
            raise WorkMissing("no integration branch is known", hint="set [harness] integration_branch")
        return str(branch)

    async def landed_in(self, unit: Unit) -> str:
        """What tells which of the unit's commits have landed: its integration branch.

        Where that is gone, the commit that the work began on: nothing has landed then.
        """
        if unit.base_commit and await self.user.branch_commit(self.integration_branch(unit)) is None:
            return unit.base_commit
        return await self.integration_head(unit)

    async def integration_head(self, unit: Unit) -> str:
        """The integration branch's newest commit, present in sf's own repository."""
        branch = self.integration_branch(unit)
        commit = await self.user.branch_commit(branch)
        if commit is None:
            raise branch_gone(branch)
        await self.owned.fetch(commit)
        return commit

    def mode(self, unit: Unit) -> WorktreeMode:
        """How the unit's milestone uses worktrees; as it was planned."""
        planned: WorktreeMode = unit.metadata.get("worktree_mode", self._mode)
        return planned

    def owner(self, unit: Unit) -> Unit:
        """The unit whose worktree this one works in."""
        read = self._database.read
        place = unit
        if place.in_slice:
            place = units.get(read, str(place.parent_id))
        if place.type == "slice" and place.parent_id and self.mode(place) == "milestone-per-worktree":
            place = units.get(read, place.parent_id)
        return place

    def folder(self, owner: Unit) -> Path:
        """The folder of a worktree."""
        return self.project.worktrees / folder_name(owner.id)

    def removed(self, owner: Unit) -> Worktree:
        """The owner's worktree whose folder is gone, and is not made again."""
        branch = owner.branch or branch_name(owner.id, owner.title)
        return Worktree(self.owned, self.folder(owner), branch)

    async def open(self, owner: Unit, lease: Lease | None = None) -> tuple[Worktree, bool]:
        """The owner's worktree, made from the integration head when it has none yet.

        For a run, under its lease; winding up has none. Raises LeaseLost.
        """
        branch = owner.branch or branch_name(owner.id, owner.title)
        folder = self.folder(owner)
        if owner.base_commit is None:
            return await self._begin(owner, branch, lease)
        if await self.owned.ref(f"refs/heads/{branch}") is None:
            raise WorkMissing(
                f"the branch {branch} of {owner.id} is not in {self.project.repository}",
                hint="was the project copied, or sf's home moved? bring it back, or sf abandon the unit",
            )
        if owner.merging and not folder.is_dir():
            # Before the folder is filled again: what was merged into it is gone.
            await self._forget_merge(owner, lease)
        worktree, created = await Worktree.ensure(self.owned, folder, branch, owner.base_commit)
        if created and owner.merging is None:
            await self._bring_back(owner, worktree)
        return worktree, created

    async def _bring_back(self, owner: Unit, worktree: Worktree) -> None:
        """The folder was gone: what its last run left, and no commit has, is put into the new one."""
        left = await self._left_behind(owner, worktree)
        if left is not None:
            await worktree.checkout_tree(left)

    async def _left_behind(self, owner: Unit, worktree: Worktree) -> str | None:
        """The tree that the last writing run in this worktree left; None when that is not known."""
        shared = owner.type == "slice" or self.mode(owner) == "milestone-per-worktree"
        run = runs.last_writing(self._database.read, owner.id, below=shared)
        if run is None:
            return None
        snapshot = await self.owned.ref(f"refs/sf/runs/{run.id}") if run.tree else None
        tip = await worktree.head()
        if snapshot and await self.owned.parents(snapshot) == [tip]:
            return await self.owned.tree_of(snapshot)
        # The branch has moved on since: what the run left was committed. Without a snapshot nobody knows.
        return await self.owned.tree_of(tip) if run.tree else None

    async def settle_tree(self, place: Place, unit: Unit) -> str:
        """Make the folder what the last run left in it, before it is proven, reviewed or merged.

        Whatever came in between, a cleaner, a process that lived on, a merge that a crash cut off, is undone.
        A merge that is laid out is left alone: a person may be resolving it. Where what was undone is kept,
        or nothing.
        """
        if place.merging is not None:
            return ""
        left = await self._left_behind(self.owner(unit), place.worktree)
        found = await place.worktree.snapshot()
        if left is None or left == found:
            return ""
        kept = await place.worktree.park(found)
        await place.worktree.checkout_tree(left)
        return kept or place.worktree.ref

    async def _begin(self, owner: Unit, branch: str, lease: Lease | None) -> tuple[Worktree, bool]:
        """A first worktree. What lies in its place is nobody's any more: it is parked, never taken over."""
        base = await self.integration_head(owner)
        leftover = await self.owned.ref(f"refs/heads/{branch}")
        if leftover is not None:
            await Worktree(self.owned, self.folder(owner), branch).remove(landed_in=base)
            if await self.owned.ref(f"refs/heads/{branch}") == leftover:
                await self.owned.delete_ref(f"refs/heads/{branch}", leftover)
        await clear_place(self.owned, self.folder(owner))
        worktree, created = await Worktree.ensure(self.owned, self.folder(owner), branch, base)
        await self._set_place(owner, branch, base, lease)
        return worktree, created

    async def _set_place(self, unit: Unit, branch: str | None, base: str, lease: Lease | None) -> None:
        workspace, now = str(self.folder(self.owner(unit))), self._clock.now()

        def write(tx: Tx) -> None:
            _require(tx, lease)
            units.set_place(tx, unit.id, workspace=workspace, branch=branch, base=base, now=now)

        await self._database.write(write)

    async def _forget_merge(self, owner: Unit, lease: Lease | None) -> None:
        """The folder no longer holds what was merged into it; its commit must not become a parent."""
        now = self._clock.now()

        def write(tx: Tx) -> None:
            _require(tx, lease)
            units.set_merging(tx, owner.id, None, now)

        await self._database.write(write)

    async def undo_changes(self, owner: Unit, worktree: Worktree, lease: Lease | None = None) -> None:
        """Bring the folder back to its branch; a merge laid out in it is forgotten first.

        What neither a run nor that merge put there is somebody's work, and is parked.
        """
        run = runs.last_writing(self._database.read, owner.id, below=True)
        merging = units.get(self._database.read, owner.id).merging
        found = await worktree.snapshot()
        if found not in (run.tree if run else None, merging.tree if merging else None):
            await worktree.park(found)
        await self._forget_merge(owner, lease)
        await worktree.reset(await worktree.head())

    async def place(self, unit: Unit, lease: Lease) -> Place:
        """The place for a run of this unit. Raises LeaseLost when the claim has ended."""
        leases.require_lease(self._database.read, lease)
        owner = self.owner(unit)
        worktree, created = await self.open(owner, lease)
        folder = self.folder(owner)
        if unit.type == "milestone" and self.mode(unit) == "branch-per-slice":
            # It only reads here: what it sees is the integration branch as it is now.
            await worktree.reset(await self.integration_head(unit))
        merging = units.get(self._database.read, owner.id).merging
        if merging and (await self._is_untold(merging, worktree) or not _is_for(unit, merging)):
            # The merge will find it again, and tell who is to see to it.
            await self.undo_changes(owner, worktree, lease)
            merging = None
        base = await self._base(unit, owner, worktree, lease)
        artifacts.link_workspace(self.project, unit.id, folder)
        return Place(worktree, folder, base, created, merging)

    async def _is_untold(self, merging: Merging, worktree: Worktree) -> bool:
        """Whether the run that laid a merge out ended otherwise, and nobody has worked on it since."""
        run = runs.get(self._database.read, merging.laid_out_by)
        if run is None or run.error_code in _TELLING:
            return False
        return await worktree.snapshot() == merging.tree

    async def _base(self, unit: Unit, owner: Unit, worktree: Worktree, lease: Lease) -> str:
        """The commit that the unit's own diff starts from: where the branch was when it first wrote."""
        tip = await worktree.head()
        if owner.id == unit.id:
            return str(units.get(self._database.read, unit.id).base_commit)
        parent = units.get(self._database.read, str(unit.parent_id))
        if parent.id != owner.id and parent.base_commit is None:
            await self._set_place(parent, None, tip, lease)
        if unit.base_commit is not None:
            return unit.base_commit
        if unit.phase in WRITING:
            await self._set_place(unit, None, tip, lease)
        return tip


def _require(tx: Tx, lease: Lease | None) -> None:
    if lease is not None:
        leases.require_lease(tx, lease)


def _is_for(unit: Unit, merging: Merging) -> bool:
    """A task that was planned anew must not start on a half-resolved conflict."""
    return not unit.in_slice or unit.metadata.get(RESOLVES) == merging.parent


def branch_gone(branch: str) -> BranchGone:
    """The error for a branch that work is to be merged into and that is not there."""
    return BranchGone(
        f"the branch {branch!r}, which this is to be merged into, is not in this repository",
        branch=branch,
        hint=f"git branch {branch} <commit> brings it back",
    )
