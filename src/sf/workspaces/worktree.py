"""A slice's folder: files for an agent, an index and a branch that the agent cannot reach."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sf import files
from sf.errors import GitFailed, WorkspaceFailed
from sf.workspaces import _agent_git, _index, _inner, rescue
from sf.workspaces._index_file import brief, is_whole, unlock
from sf.workspaces._snapshot import Snapshot
from sf.workspaces.changes import FileChange
from sf.workspaces.owned import OwnedRepository

_SET_UP = ".set-up"


class Worktree:
    """A folder, a private index and `refs/heads/<branch>` in sf's own repository."""

    def __init__(
        self, owned: OwnedRepository, folder: Path, branch: str, *, disposable: bool = False
    ) -> None:
        self._owned = owned
        self.folder = folder
        self.branch = branch
        self._disposable = disposable
        """Whether nobody works in it: what a tree cannot hold is then thrown away instead of set aside, and
        nothing in it has to outlive a power cut."""
        self._index = _index.place(owned, folder)

    @classmethod
    async def ensure(
        cls, owned: OwnedRepository, folder: Path, branch: str, base: str
    ) -> tuple[Worktree, bool]:
        """Return the worktree of `branch`, and whether its folder was made; an existing one is kept."""
        folder = folder.absolute()
        worktree = cls(owned, folder, branch)
        if await owned.ref(worktree.ref) is None:
            await owned.set_ref(worktree.ref, base, None)
        if folder.is_dir() and not folder.is_symlink():
            # One run at a time owns a worktree, so a lock here is that of a git process that was killed.
            unlock(worktree._index)
            if not worktree._index.exists():
                await _index.make_anew(owned, worktree._index, await worktree.head())
            if not (folder / ".git").is_dir():
                await worktree.refresh_agent_git()
            return worktree, False
        worktree._mark.unlink(missing_ok=True)
        await _fill(owned, folder, await worktree.head(), keep=True)
        await worktree.refresh_agent_git()
        return worktree, True

    @property
    def is_set_up(self) -> bool:
        """Whether what is to be done in a new folder has been done to its end."""
        return self._mark.exists()

    def set_up(self) -> None:
        """Remember that it has."""
        self._mark.touch()

    @property
    def _mark(self) -> Path:
        return self._index.with_suffix(_SET_UP)

    @property
    def ref(self) -> str:
        """The full name of the branch's ref."""
        return f"refs/heads/{self.branch}"

    async def head(self) -> str:
        """Return the commit at the branch's tip."""
        commit = await self._owned.ref(self.ref)
        if commit is None:
            raise WorkspaceFailed(f"branch {self.branch} is not in sf's own repository")
        return commit

    async def snapshot(self) -> str:
        """Return the tree of everything in the folder that is not ignored; no ref moves."""
        try:
            return await self._snapshot().take()
        except GitFailed:
            if await asyncio.to_thread(is_whole, self._index):
                raise
        await _index.make_anew(self._owned, self._index, await self.head())
        return await self._snapshot().take()

    async def commit(self, message: str, *, tree: str | None = None, also: Sequence[str] = ()) -> str | None:
        """Commit the folder's content, or a tree taken before, on the branch; None when it equals the tip's.

        `also` are further parents; with one, an equal tree is committed too.
        """
        tip = await self.head()
        tree = tree or await self.snapshot()
        if tree == await self._owned.tree_of(tip) and not also:
            return None
        commit = await self._owned.commit_tree(tree, [tip, *also], message)
        await self._owned.set_ref(self.ref, commit, tip)
        await self.refresh_agent_git()
        return commit

    async def diff(self, base: str) -> str:
        """Return the unified difference from `base` to the folder's content."""
        return await self._owned.diff(base, await self.snapshot())

    async def changes(self, base: str) -> list[FileChange]:
        """Return the changed files from `base` to the folder's content."""
        return await self._owned.diff_stat(base, await self.snapshot())

    async def reset(self, commit: str) -> None:
        """Make the folder exactly `commit`, ignored files aside, and move the branch there."""
        await self.checkout_tree(commit)
        await self._owned.set_ref(self.ref, commit, await self.head())
        await self.refresh_agent_git()

    async def checkout_tree(self, tree: str) -> None:
        """Make the folder exactly `tree`, ignored files aside; the branch stays where it is.

        Where somebody works its files are on the disk when this returns: one that a power cut empties would
        be taken for what somebody made of it.
        """
        # The snapshot enters untracked files into the index, so that the checkout removes them.
        await self.snapshot()
        await self._clear_strangers()
        if self._disposable:
            await _checkout(self._owned, self.folder, self._index, tree)
            return
        head = await self.head()
        _index.lay_out(self._index, _index.Layout(tree, head, is_done=False))
        await _checkout(self._owned, self.folder, self._index, tree)
        # All of them: git writes files anew that are the same, when it cannot tell by their times.
        await asyncio.to_thread(files.sync_all, self.folder, await self._owned.files(tree))
        _index.lay_out(self._index, _index.Layout(tree, head, is_done=True))

    async def restore_paths(self, paths: Sequence[str], tree: str) -> None:
        """Bring single paths back to what they are in `tree`; everything else in the folder stays."""
        await self.snapshot()
        wanted = set(paths)
        listed = await self._owned.git.run("ls-tree", "-r", "-z", tree, git_dir=self._owned.git_dir)
        known = {name: head for head, _, name in (entry.partition("\t") for entry in listed.names())}
        lines = []
        for path in sorted(wanted):
            mode, _, object_id = known[path].split() if path in known else ("0", "", "0" * 40)
            lines.append(f"{mode} {object_id}\t{path}")
        with brief(self._index) as mended:
            shutil.copyfile(self._index, mended)
            stdin = b"".join(os.fsencode(line) + b"\0" for line in lines)
            git, git_dir = self._owned.git, self._owned.git_dir
            await git.run("update-index", "-z", "--index-info", git_dir=git_dir, index=mended, stdin=stdin)
            mended_tree = (await git.run("write-tree", git_dir=git_dir, index=mended)).text()
        await self.checkout_tree(mended_tree)

    async def strangers(self) -> list[str]:
        """What lies in the folder and no tree of it can hold."""
        return await self._snapshot().strangers()

    async def discard(self, names: Sequence[str]) -> None:
        """Throw away what lies in the folder under these names."""
        for name in names:
            await asyncio.to_thread(_agent_git.discard, self.folder / name)

    async def clear_submodules(self) -> list[str]:
        """Set aside what was written below submodules that nobody has checked out; the paths."""
        names = await self._snapshot().strewn()
        await asyncio.to_thread(rescue.set_aside, self._owned, self.folder, names)
        return names

    async def refresh_agent_git(self) -> None:
        """Give the agent a fresh `.git` at the branch's tip; what only the old one named is parked."""
        tip = await self.head()
        await self._keep_inner()
        await asyncio.to_thread(
            _agent_git.write,
            *(self.folder, self._owned.git_dir, self._index, self.branch, tip, self._owned.identity),
            self._owned.attributes,
        )

    async def remove(self, landed_in: str) -> str | None:
        """Remove the folder; return the rescue ref when `landed_in` lacks its commits or it was not clean."""
        tip = await self.head()
        reachable = await self._owned.is_ancestor(tip, landed_in)
        tree = None
        if self.folder.is_dir() and not self.folder.is_symlink():
            tree = await self.snapshot()
            await self._keep_inner()
            await self._clear_strangers()
        parked = await self.park(tree) if tree is not None else ""
        if not parked and not reachable:
            parked = await rescue.park(self._owned, self.branch, tip)
        gone = _vacate(self.folder)
        if reachable:
            await self._owned.delete_ref(self.ref, tip)
        _forget(self._owned, self.folder)
        # What cannot be deleted lies out of the way by now; the next start tries again, and says so.
        with contextlib.suppress(OSError):
            await asyncio.to_thread(_agent_git.discard, gone)
        return parked or None

    async def is_nearly_removed(self) -> bool:
        """Whether a removal has dropped the branch already, and only its last step is left."""
        return self._index.exists() and await self._owned.ref(self.ref) is None

    async def finish_removal(self, landed_in: str) -> str | None:
        """End a removal that was cut off, or was somebody else's, once the folder was gone.

        Return the rescue ref when commits were on the branch alone.
        """
        tip = await self._owned.ref(self.ref)
        parked = None
        if tip is not None and await self._owned.is_ancestor(tip, landed_in):
            await self._owned.delete_ref(self.ref, tip)
        elif tip is not None and not await rescue.holds(self._owned, tip):
            parked = await rescue.park(self._owned, self.branch, tip)
        await remove_folder(self._owned, self.folder)
        return parked

    async def park(self, tree: str) -> str:
        """Keep a tree that was found in the folder; the rescue ref, or nothing when it is the tip's own."""
        tip = await self.head()
        if tree == await self._owned.tree_of(tip):
            return ""
        return await rescue.park_tree(self._owned, self.branch, tree, tip)

    async def _keep_inner(self) -> None:
        """Park what only the `.git` in the folder names; one that cannot be read is set aside whole."""
        if self._disposable:
            return
        try:
            await _inner.bring_over(self._owned, self.folder, self.branch)
        except (GitFailed, WorkspaceFailed, OSError):
            await asyncio.to_thread(rescue.set_aside, self._owned, self.folder, [".git"])

    async def _clear_strangers(self) -> None:
        """Take out what a tree cannot hold: repositories inside the folder, files below a submodule's."""
        strangers = await self.strangers()
        if self._disposable:
            await self.discard(strangers)
        else:
            await asyncio.to_thread(rescue.set_aside, self._owned, self.folder, strangers)

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._owned.git, self._owned.git_dir, self.folder, self._index)


async def checkout_folder(owned: OwnedRepository, folder: Path, commit: str) -> None:
    """Make `folder` anew with the tree of `commit` and a disposable `.git` in which it is checked out."""
    folder = folder.absolute()
    await remove_folder(owned, folder)
    await _fill(owned, folder, commit)
    await asyncio.to_thread(
        _agent_git.write,
        *(folder, owned.git_dir, _index.place(owned, folder), None, commit, owned.identity),
        owned.attributes,
    )


def discard(path: Path) -> None:
    """Remove a file, or a folder with all that is below it; nothing is kept."""
    _agent_git.discard(path)


async def clear_place(owned: OwnedRepository, place: Path) -> str:
    """Take away what lies at a place and is no unit's worktree, keeping it; where, or nothing if none."""
    if not os.path.lexists(place):
        return ""
    ref = await rescue.park_folder(owned, place) if await _is_content_alone(owned, place) else None
    if ref is None:
        return str(await asyncio.to_thread(rescue.set_aside, owned, place.parent, [place.name]))
    await remove_folder(owned, place)
    return ref


async def _is_content_alone(owned: OwnedRepository, place: Path) -> bool:
    """Return whether a place is a folder, and sf has every commit that a `.git` in it names."""
    if place.is_symlink() or not place.is_dir():
        return False
    inner = place / ".git"
    if os.path.lexists(inner) and (inner.is_symlink() or not inner.is_dir()):
        return False
    try:
        return not await _inner.unknown(owned, place)
    except (GitFailed, WorkspaceFailed, OSError):
        return False


async def remove_folder(owned: OwnedRepository, folder: Path) -> None:
    """Remove a folder and its private index; nothing is kept."""
    gone = _vacate(folder.absolute())
    _forget(owned, folder.absolute())
    await asyncio.to_thread(_agent_git.discard, gone)


class Remains(msgspec.Struct, frozen=True):
    """What lies about of worktrees: folders, and private indexes, with which each removal ends."""

    owned: OwnedRepository
    folders: frozenset[Path]
    indexes: frozenset[Path]

    @classmethod
    def below(cls, owned: OwnedRepository, worktrees: Path) -> Remains:
        """Look at the folder of all worktrees, and for every index."""
        return cls(owned, frozenset(worktrees.iterdir()), frozenset(_index.every(owned)))

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.folders or self.indexes)

    def __contains__(self, folder: Path) -> bool:
        """Whether a folder is there, or its removal has not come to its end."""
        return folder in self.folders or _index.place(self.owned, folder) in self.indexes


def _vacate(folder: Path) -> Path:
    """Take a folder out of its place by one rename; where it lies now.

    A removal that fails half-way must not leave a folder that looks like somebody's work.
    """
    gone = folder
    if os.path.lexists(folder) and not folder.name.startswith("."):
        gone = folder.with_name(f".{folder.name}.gone-{secrets.token_hex(6)}")
        folder.rename(gone)
    return gone


def _forget(owned: OwnedRepository, folder: Path) -> None:
    """Remove the private index of a folder, and what is noted beside it."""
    index = _index.place(owned, folder)
    index.with_suffix(_SET_UP).unlink(missing_ok=True)
    _index.remove(index)


async def _fill(owned: OwnedRepository, folder: Path, commit: str, *, keep: bool = False) -> None:
    """Check `commit` out beside the folder's place and rename it there: the folder is whole or absent.

    With `keep` it is so after a power cut too.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    index = _index.place(owned, folder)
    unlock(index)
    _index.remove(index)
    temporary = folder.parent / f".{folder.name}.new-{secrets.token_hex(6)}"
    try:
        temporary.mkdir()
        await _checkout(owned, temporary, index, commit)
        if keep:
            await asyncio.to_thread(files.sync_all, temporary, await owned.files(commit))
        _agent_git.discard(folder)
        temporary.rename(folder)
    except BaseException:
        _agent_git.discard(temporary)
        raise


async def _checkout(owned: OwnedRepository, folder: Path, index: Path, tree: str) -> None:
    await owned.git.run(
        *("read-tree", "--reset", "-u", tree),
        git_dir=owned.git_dir,
        work_tree=folder,
        index=index,
        timeout=300.0,
    )
    # Once now, so that later scans need not compare the content of every file.
    await owned.git.run(
        *("update-index", "-q", "--ignore-submodules", "--refresh"),
        git_dir=owned.git_dir,
        work_tree=folder,
        index=index,
        ok=(0, 1),
    )
