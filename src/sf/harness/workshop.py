"""Where a unit's work is done: its worktree, its branch, and the commit that its diff is measured against."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sf.domain.clock import Clock
from sf.domain.facts import WorktreeMode
from sf.domain.ids import branch_name, folder_name
from sf.domain.units import Unit
from sf.errors import WorkMissing, WorkspaceFailed
from sf.harness import artifacts
from sf.paths import Project
from sf.store import sessions, units
from sf.store.database import Database
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository
from sf.workspaces.worktree import Worktree


class Place(msgspec.Struct, frozen=True):
    """A worktree ready for a run."""

    worktree: Worktree
    folder: Path
    base: str
    """The commit that the unit's own diff starts from."""
    created: bool


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

    def integration_branch(self) -> str:
        """The branch that finished work is merged into."""
        session = sessions.current(self._database.read)
        branch = session["integration_branch"] if session else None
        if not branch:
            raise WorkspaceFailed("no integration branch is known", hint="run sf plan on a branch")
        return str(branch)

    async def integration_head(self) -> str:
        """The integration branch's newest commit, present in sf's own repository."""
        branch = self.integration_branch()
        commit = await self.user.branch_commit(branch)
        if commit is None:
            raise WorkspaceFailed(f"the integration branch {branch!r} does not exist any more")
        await self.owned.fetch(commit)
        return commit

    def owner(self, unit: Unit) -> Unit:
        """The unit whose worktree this one works in."""
        read = self._database.read
        place = unit
        if place.in_slice:
            place = units.get(read, str(place.parent_id))
        if place.type == "slice" and place.parent_id and self._mode == "milestone-per-worktree":
            place = units.get(read, place.parent_id)
        return place

    def folder(self, owner: Unit) -> Path:
        """The folder of a worktree."""
        return self.project.worktrees / folder_name(owner.id)

    async def open(self, owner: Unit) -> tuple[Worktree, bool]:
        """The owner's worktree, made from the integration head when it has none yet."""
        branch = owner.branch or branch_name(owner.id, owner.title)
        base = owner.base_commit or await self.integration_head()
        if owner.base_commit is not None and await self.owned.ref(f"refs/heads/{branch}") is None:
            raise WorkMissing(
                f"the branch {branch} of {owner.id} is not in {self.project.repository}",
                hint="was the project copied, or sf's home moved? bring it back, or sf abandon the unit",
            )
        worktree, created = await Worktree.ensure(self.owned, self.folder(owner), branch, base)
        if owner.base_commit is None:
            await self._database.write(
                lambda tx: units.set_place(
                    tx,
                    owner.id,
                    workspace=str(self.folder(owner)),
                    branch=branch,
                    base=base,
                    now=self._clock.now(),
                )
            )
        if created and owner.merge_parent:
            await self._forget_merge(owner)
        return worktree, created

    async def _forget_merge(self, owner: Unit) -> None:
        """The folder no longer holds what was merged into it; its commit must not become a parent."""
        now = self._clock.now()
        await self._database.write(lambda tx: units.set_merge_parent(tx, owner.id, None, now))

    async def undo_changes(self, owner: Unit, worktree: Worktree) -> None:
        """Bring the folder back to its branch; a merge laid out in it is gone with the rest."""
        await worktree.reset(await worktree.head())
        await self._forget_merge(owner)

    async def place(self, unit: Unit) -> Place:
        """The place for a run of this unit."""
        owner = self.owner(unit)
        worktree, created = await self.open(owner)
        folder = self.folder(owner)
        if unit.type == "milestone" and self._mode == "branch-per-slice":
            # It only reads here: what it sees is the integration branch as it is now.
            await worktree.reset(await self.integration_head())
        if owner.id != unit.id and owner.merge_parent:
            # A re-planned task must not start on a half-resolved conflict; the merge will find it again.
            await self.undo_changes(owner, worktree)
        base = unit.base_commit or (await worktree.head() if owner.id != unit.id else None)
        if unit.base_commit is None and owner.id != unit.id:
            tip = str(base)
            await self._database.write(
                lambda tx: units.set_place(
                    tx, unit.id, workspace=str(folder), base=tip, now=self._clock.now()
                )
            )
        if base is None:
            base = str(units.get(self._database.read, unit.id).base_commit)
        artifacts.link_workspace(self.project, unit.id, folder)
        return Place(worktree, folder, base, created)
