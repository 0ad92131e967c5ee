"""A landing: the user's branch moves by compare-and-swap, and a checkout that has it out moves with it."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

import msgspec

from sf import files
from sf.errors import GitFailed
from sf.workspaces import _busy, _facade, _restore
from sf.workspaces._journal import Desk, Journal
from sf.workspaces._layout import Layout
from sf.workspaces._refs import RefTransaction, read_ref, update_ref
from sf.workspaces._transfer import transfer
from sf.workspaces._user_checkout import changed_in_index, copy_index, in_the_way, unfinished, worktrees_using
from sf.workspaces.changes import FileChange, between
from sf.workspaces.git import Call, Git, Identity
from sf.workspaces.refusals import BranchMoved, CheckoutBusy


class Landed(msgspec.Struct, frozen=True):
    """A branch that moved, and whether the user's checkout moved with it."""

    branch: str
    old: str
    new: str
    checkout: bool


class Landing:
    """Moves one branch of the user's repository; either all of it happens or none."""

    def __init__(self, git: Git, layout: Layout, state: Path, identity: Identity) -> None:
        self._git = git
        self._layout = layout
        self._state = state
        self._facade = state / "facade"
        self._identity = identity
        self._desk = Desk(layout, state)

    async def run(self, branch: str, old: str, new: str, source: Path, *, checkout: bool) -> Landed:
        """Land `new` on `branch`; a cancellation waits until the landing is whole."""
        others = worktrees_using(self._layout, branch, but=self._layout.git_dir if checkout else None)
        if others:
            raise _busy.elsewhere(self._layout, branch, others)
        settings = tuple(os.fsencode(setting) for setting in self._git.settings)
        journal = Journal(secrets.token_hex(16), branch, old, new, "checking", settings)
        task = asyncio.ensure_future(self._land(journal, source, checkout=checkout))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise
        return Landed(branch, old, new, checkout=checkout)

    async def _land(self, journal: Journal, source: Path, *, checkout: bool) -> None:
        name = f"refs/heads/{journal.branch}"
        async with self._desk.claimed(patience=15.0):
            await settle_leftover(self._git, self._layout, self._state, self._desk)
            await self._check_branch(name, journal.old)
            # Before the first thing is left in the user's repository: the journal is how it is found again.
            self._desk.write(journal)
            try:
                await transfer(
                    *(self._git, source, self._facade, journal.new),
                    known=[journal.old],
                    keep=f"sf {journal.landing_id}",
                )
                self._desk.keep_guards(journal)
                await (self._with_checkout(journal) if checkout else self._ref_alone(journal))
                self._desk.clear(journal)
            except BaseException:
                # The ref decides: settled forward when it moved, back when it did not.
                await settle_leftover(self._git, self._layout, self._state, self._desk)
                raise

    async def _ref_alone(self, journal: Journal) -> None:
        """Move a branch that is checked out nowhere; HEAD is held, so that nobody checks it out meanwhile."""
        await self._desk.lock_head(journal)
        if worktrees_using(self._layout, journal.branch):
            raise CheckoutBusy(f"branch {journal.branch} has just been checked out")
        self._desk.write(msgspec.structs.replace(journal, step="preparing"))
        name = f"refs/heads/{journal.branch}"
        try:
            await update_ref(self._git, self._facade, name, journal.new, journal.old, identity=self._identity)
        except GitFailed as error:
            await self._check_branch(name, journal.old)
            raise _busy.ref_locked(self._layout, journal.branch, error) from error

    async def _with_checkout(self, journal: Journal) -> None:
        await self._desk.lock(journal)
        changes = await self._check_checkout(journal)
        moving = msgspec.structs.replace(journal, step="moving")
        self._desk.write(msgspec.structs.replace(journal, step="preparing"))
        transaction = await self._prepare(journal)
        try:
            self._desk.note_files([change.path for change in changes])
            self._desk.write(moving)
            await self._move_files(journal)
            # While the journal is there: what a power cut leaves of them is known for sf's only by it.
            await asyncio.to_thread(files.sync_all, self._layout.root, [change.path for change in changes])
            await transaction.commit()
        finally:
            await transaction.abort()
        self._desk.install_index(journal)

    async def _check_branch(self, name: str, old: str) -> None:
        actual = await read_ref(self._git, self._facade, name)
        if actual != old:
            raise BranchMoved(f"{name} is at {actual or 'nothing'}, not at {old}", actual=actual)

    async def _check_checkout(self, journal: Journal) -> list[FileChange]:
        """Return what is to change; raise unless the locked checkout is clean and has room for it."""
        head = _facade.copy_head(self._layout, self._facade)
        if head != f"ref: refs/heads/{journal.branch}":
            raise CheckoutBusy(f"the checkout has just left branch {journal.branch}")
        marks = unfinished(self._layout)
        if marks:
            raise _busy.midway(self._layout, marks)
        # The branch first: a commit made since is a moved branch, not a staged change.
        await self._check_branch(f"refs/heads/{journal.branch}", journal.old)
        if self._layout.index.exists():
            copy_index(self._layout.index, self._desk.index)
        found = await changed_in_index(self._git, self._layout, self._facade, self._desk.index, journal.old)
        if found:
            raise CheckoutBusy(
                f"the checkout has uncommitted changes in {_some(sorted(found))}",
                paths=tuple(sorted(found)),
                tracked=True,
                hint="commit or stash them",
            )
        changes = await between(self._git, self._facade, journal.old, journal.new)
        blocked = in_the_way(self._layout.root, changes)
        if blocked:
            raise CheckoutBusy(
                f"untracked files are in the way: {_some(blocked)}",
                paths=tuple(blocked),
                hint="move them away",
            )
        return changes

    async def _prepare(self, journal: Journal) -> RefTransaction:
        name = f"refs/heads/{journal.branch}"
        call = Call(
            ("update-ref", "--no-deref", "-m", "sf: landed", "--stdin"),
            self._facade,
            identity=self._identity,
            pass_fds=(self._desk.descriptor,),
        )
        try:
            return await RefTransaction.prepare(self._git, call, name, journal.new, journal.old)
        except GitFailed as error:
            await self._check_branch(name, journal.old)
            raise _busy.ref_locked(self._layout, journal.branch, error) from error

    async def _move_files(self, journal: Journal) -> None:
        try:
            await self._git.run(
                *("read-tree", "-m", "-u", journal.old, journal.new),
                git_dir=self._facade,
                work_tree=self._layout.root,
                index=self._desk.index,
                timeout=300.0,
                pass_fds=(self._desk.descriptor,),
            )
        except GitFailed as error:
            where = (self._git, self._layout, self._facade, self._desk.index)
            raise await _busy.unmoved(*where, journal.old, journal.new, error) from error


async def recover(git: Git, layout: Layout, state: Path) -> str | None:
    """End an interrupted landing, forward when its branch has moved, else back; say which."""
    desk = Desk(layout, state)
    if desk.read() is None:
        return None
    async with desk.claimed(patience=30.0):
        return await settle_leftover(git, layout, state, desk)


async def settle_leftover(git: Git, layout: Layout, state: Path, desk: Desk) -> str | None:
    """Bring checkout and index to the side that the branch is on; the landing lock is held."""
    journal = desk.read()
    if journal is None:
        return None
    if journal.settings is not None:
        # Files are compared as they were written.
        git = git.given(tuple(os.fsdecode(setting) for setting in journal.settings))
    facade = state / "facade"
    landed = journal.step in ("preparing", "moving") and await _has_landed(git, facade, journal)
    said = f"the landing of {journal.new[:12]} on {journal.branch} was {'finished' if landed else 'undone'}"
    if journal.step == "cut":
        said = "the journal of a landing that was cut off is cut short too: its checkout is left as it is"
    if journal.step == "moving":
        await desk.relock(journal)
        left_at = await _left_at(git, layout, facade, desk, journal, landed=landed)
        if left_at is not None:
            await _restore.bring(git, layout.root, facade, journal, desk, forward=landed)
            if landed and left_at != journal.new:
                desk.install_index(journal)
        else:
            said = f"a landing on {journal.branch} was cut off; its checkout has changed since: left alone"
    await desk.drop_nameless(journal)
    desk.clear(journal)
    return said


async def _left_at(
    git: Git, layout: Layout, facade: Path, desk: Desk, journal: Journal, *, landed: bool
) -> str | None:
    """Return which commit the checkout's index is at: the new one once it was installed.

    None when somebody has worked with git there since: they may have removed the locks.
    """
    if _facade.copy_head(layout, facade) != f"ref: refs/heads/{journal.branch}":
        return None
    expected = journal.new if landed else journal.old
    if await read_ref(git, facade, f"refs/heads/{journal.branch}") != expected:
        return None
    index = desk.index.with_name("found")
    index.unlink(missing_ok=True)
    if layout.index.exists():
        copy_index(layout.index, index)
    for commit in (*([journal.new] if landed else []), journal.old):
        flags = ("--cached", "--quiet", "--ignore-submodules=all", "--no-ext-diff", commit, "--")
        output = await git.run("diff-index", *flags, git_dir=facade, index=index, ok=(0, 1))
        if output.code == 0:
            return commit
    return None


async def _has_landed(git: Git, facade: Path, journal: Journal) -> bool:
    actual = await read_ref(git, facade, f"refs/heads/{journal.branch}")
    if actual is None or actual == journal.new:
        return actual == journal.new
    output = await git.run(
        *("merge-base", "--is-ancestor", journal.new, actual), git_dir=facade, ok=(0, 1, 128)
    )
    return output.code == 0


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
