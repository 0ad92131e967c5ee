"""sf's own bare repository: every object, ref and index that sf works with, out of any agent's reach."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from sf import files
from sf.errors import GitFailed, WorkspaceFailed
from sf.paths import beside
from sf.workspaces import _attributes, _excludes, _grafts, _merge, _objects, changes
from sf.workspaces._index_file import BRIEF
from sf.workspaces._merge import FILE_MODES, have_markers, merge_trees
from sf.workspaces._merge import MergeResult as MergeResult
from sf.workspaces._refs import UNSET, Unset, read_ref, update_ref
from sf.workspaces._transfer import transfer
from sf.workspaces.changes import FileChange
from sf.workspaces.git import Git, Identity
from sf.workspaces.refusals import BranchMoved
from sf.workspaces.repository import UserRepository

__all__ = ["Commit", "FileChange", "MergeResult", "OwnedRepository"]

_CONFIG = b"""[core]
\trepositoryformatversion = 0
\tbare = true
\tlogallrefupdates = false
[gc]
\tauto = 0
[pack]
\twriteReverseIndex = false
"""
_MAX_FILE = 64 << 20


class Commit(msgspec.Struct, frozen=True):
    """One commit, as a list shows it; `committed_at` in UNIX seconds."""

    id: str
    subject: str
    committed_at: int


class Joint(msgspec.Struct, frozen=True):
    """A merge on a branch: its commit, what the branch was before, and the commit that it took in."""

    id: str
    first: str
    taken: str


class OwnedRepository:
    """A bare repository with its own configuration and objects that no other repository can prune."""

    def __init__(self, path: Path, user: UserRepository, git: Git, identity: Identity) -> None:
        self._path = path
        self._user = user
        self.attributes = user.attributes
        self._git = git
        self.git = git.set_to(_attributes.given(user.attributes))
        """For what follows the attributes: merges, checkouts, snapshots."""
        self.identity = identity
        self._fetching = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        path: Path,
        user: UserRepository,
        git: Git,
        identity: Identity | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> OwnedRepository:
        """Open the repository at `path`, made from the user's objects when it is not there yet.

        Only for who holds the project: what is ignored from now on is what this process's user ignores.
        """
        path = Path(os.path.abspath(path))  # noqa: PTH100 - a missing path cannot be resolved
        if not (path / "HEAD").exists():
            await asyncio.to_thread(_create, path, user.common_dir)
        environ = os.environ if environ is None else environ
        everywhere = await _excludes.patterns(git, user.git_dir, user.root, user.excludes, environ)
        here = _excludes.read(user.common_dir / "info" / "exclude")
        # The last that fits decides, so what the repository says comes behind what holds everywhere.
        _keep(path / "info" / "exclude", everywhere + here)
        _keep(path / "info" / "attributes", _attributes.beside_tree(user.common_dir))
        _attributes.make_plain(path)
        owned = cls(path, user, git, identity or Identity())
        await owned.follow_grafts()
        return owned

    @classmethod
    def as_it_is(cls, path: Path, user: UserRepository, git: Git) -> OwnedRepository:
        """The repository for a look, perhaps beside an autopilot at work: nothing in it is renewed."""
        return cls(path.absolute(), user, git, Identity())

    @property
    def git_dir(self) -> Path:
        """The directory of the repository."""
        return self._path

    @property
    def _plain(self) -> Path:
        """The same objects and refs where no attributes lie: what is shown follows none."""
        return _attributes.plain(self._path)

    @property
    def objects(self) -> Path:
        """The object store, which an agent needs to read but never to write."""
        return self._path / "objects"

    @property
    def aside(self) -> Path:
        """Where things lie that were in a worktree and no commit can hold; nothing here deletes them."""
        return beside(self._path)

    def clear_locks(self) -> list[str]:
        """Remove what killed git processes left locked; only while no git process can be at work here.

        And the folders in which they gathered objects, and what sf was writing beside an index, or made for a
        single use, when it was killed: what is there was never anybody's.
        """
        indexes = self._path / "worktrees"
        for half in [*indexes.glob(".*.new"), *indexes.glob(f"*{BRIEF}")]:
            half.unlink()
        for half in [*self.objects.glob("tmp_objdir-*"), *(self._path / _attributes.FOLDER).glob("*")]:
            shutil.rmtree(half)
        found = [self._path / f"{name}.lock" for name in ("HEAD", "config", "packed-refs", "shallow")]
        for folder in ("refs", "worktrees"):
            found += (self._path / folder).rglob("*.lock")
        stale = [path for path in found if path.is_file()]
        for path in stale:
            path.unlink()
        return [str(path.relative_to(self._path)) for path in stale]

    async def follow_grafts(self) -> None:
        """Let the history end where the user's does by now, as far as it can."""
        await _grafts.follow(self.git, self._user.common_dir, self._path)

    async def fetch(self, commit: str) -> None:
        """Make sure that a commit of the user, with all it reaches, is here."""
        # One at a time: several units ask for the same commit when the branch has moved.
        async with self._fetching:
            if not await self._is_whole(commit):
                await self._bring(commit)
            await self.set_ref(f"refs/sf/base/{commit}", commit)
            for name, base in (await self.refs("refs/sf/base/", within=commit)).items():
                if base != commit:
                    # Another command of sf's may have been faster.
                    with contextlib.suppress(BranchMoved):
                        await self.delete_ref(name, base)

    async def _bring(self, commit: str) -> None:
        await self.follow_grafts()
        known = (await self.refs("refs/")).values()
        await transfer(self.git, self._user.git_dir, self._path, commit, known=known)
        if not await self._is_whole(commit):
            raise GitFailed(f"commit {commit} could not be fetched whole")

    async def _is_whole(self, commit: str) -> bool:
        output = await self.git.run(
            *("rev-list", "--objects", "--quiet", commit, "--not", "--all"),
            git_dir=self._path,
            ok=(0, 1, 128),
            timeout=300.0,
        )
        return output.code == 0

    async def ref(self, name: str) -> str | None:
        """Return the commit that the full ref `name` has, or None."""
        return await read_ref(self.git, self._path, name)

    async def set_ref(self, name: str, new: str, old: str | Unset | None = UNSET) -> None:
        """Set a full ref; with `old` given, only from that value (None: only if absent), else BranchMoved."""
        await self._update_ref(name, new, old)

    async def delete_ref(self, name: str, old: str) -> None:
        """Delete a full ref that is at `old`; raise BranchMoved when it is not."""
        await self._update_ref(name, None, old)

    async def _update_ref(self, name: str, new: str | None, old: str | Unset | None) -> None:
        try:
            await update_ref(self.git, self._path, name, new, old)
        except GitFailed:
            await self._drop_stale_locks(name)
            # Once more, for a moment's trouble must not leave a ref for good; one that was killed may have
            # come to its end all the same.
            if await self.ref(name) != new:
                await update_ref(self.git, self._path, name, new, old)

    async def _drop_stale_locks(self, name: str, patience: float = 1.0) -> None:
        """Remove the locks that a git killed at this ref left; a live one holds them for a moment only."""
        locks = [self._path / f"{name}.lock", self._path / "packed-refs.lock"]
        before = {lock: lock.stat().st_ino for lock in locks if lock.exists()}
        if before:
            await asyncio.sleep(patience)
        for lock, inode in before.items():
            if lock.exists() and lock.stat().st_ino == inode:
                lock.unlink(missing_ok=True)

    async def holds(self, commit: str) -> bool:
        """Return whether a commit is here."""
        output = await self.git.run(
            "cat-file", "-e", f"{commit}^{{commit}}", git_dir=self._path, ok=(0, 1, 128)
        )
        return output.code == 0

    async def refs(self, prefix: str, *, within: str | None = None) -> dict[str, str]:
        """Return the refs below `prefix` and their commits; with `within`, those that this commit reaches."""
        reached = [] if within is None else [f"--merged={within}"]
        output = await self.git.run(
            *("for-each-ref", *reached, "--format=%(objectname) %(refname)", prefix.rstrip("/")),
            git_dir=self._path,
        )
        pairs = (line.split(" ", 1) for line in output.text().splitlines())
        return {name: commit for commit, name in pairs}

    async def commit_tree(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Write a commit of `tree` and return its id; no ref moves."""
        flags = [part for parent in parents for part in ("-p", parent)]
        output = await self.git.run(
            *("commit-tree", *flags, "-F", "-", tree),
            git_dir=self._path,
            stdin=message.encode("utf-8", "surrogateescape"),
            identity=self.identity,
        )
        return output.text()

    async def parents(self, commit: str) -> list[str]:
        """Return the parents of a commit."""
        output = await self.git.run("rev-list", "--parents", "-n", "1", commit, "--", git_dir=self._path)
        return output.text().split()[1:]

    async def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        return await self._resolve(f"{commit}^{{tree}}")

    async def is_ancestor(self, ancestor: str, commit: str) -> bool:
        """Return whether `commit` reaches `ancestor`; equal counts."""
        output = await self.git.run(
            "merge-base", "--is-ancestor", ancestor, commit, git_dir=self._path, ok=(0, 1)
        )
        return output.code == 0

    async def merge_trees(self, ours: str, theirs: str) -> MergeResult:
        """Merge two commits without a checkout; a conflict is a result, not an error."""
        return await merge_trees(self.git, self._path, ours, theirs)

    async def have_markers(self, changes: Sequence[FileChange], label: str) -> bool:
        """Return whether markers of the merge with this label are left in what files have become."""
        objects = [change.new_id for change in changes if change.new_mode in FILE_MODES]
        return await have_markers(self.git, self._path, objects, label)

    async def merge_from(self, base: str, ours: str, theirs: str) -> MergeResult:
        """Merge two commits or trees as if both had been made from `base`.

        By commits of its own: git before 2.40 takes no base for a merge without a checkout.
        """
        root = await self.commit_tree(await self.tree_of(base), [], "sf: where both sides began")
        left = await self.commit_tree(await self.tree_of(ours), [root], "sf: one side")
        right = await self.commit_tree(await self.tree_of(theirs), [root], "sf: the other side")
        return await self.merge_trees(left, right)

    async def with_paths(self, tree: str, paths: Collection[str], source: str) -> str:
        """Return a commit's or other tree with some paths as they are in another."""
        return await _merge.with_paths(self.git, self._path, tree, paths, source)

    async def diff(self, base: str, target: str, paths: Sequence[str] = ()) -> str:
        """Return the unified difference between two commits or trees."""
        output = await self._git.run(
            *("diff-tree", "-r", "-p", *changes.FLAGS, base, target, "--", *paths), git_dir=self._plain
        )
        return output.stdout.decode("utf-8", "replace")

    async def diff_stat(self, base: str, target: str) -> list[FileChange]:
        """Return the changed files between two commits or trees."""
        return await changes.between(self._git, self._plain, base, target)

    async def log(self, base: str | None, head: str, limit: int = 1000) -> list[Commit]:
        """Return the commits of `head` that `base` does not reach, newest first."""
        without = [] if base is None else [f"^{base}"]
        output = await self.git.run(
            *("log", "-z", f"--max-count={limit}", "--no-notes", "--no-mailmap", "--no-show-signature"),
            *("--format=%H %ct %s", head, *without, "--"),
            git_dir=self._path,
        )
        entries = (record.split(" ", 2) for record in output.names())
        return [Commit(commit, subject, int(at)) for commit, at, subject in entries]

    async def joints(self, base: str, tip: str) -> list[Joint]:
        """Return the merges on the line from `base` to `tip`, the first one first."""
        listed = await self.git.run(
            *("rev-list", "--reverse", "--first-parent", "--parents", f"{base}..{tip}", "--"),
            git_dir=self._path,
        )
        lines = [line.split() for line in listed.text().splitlines()]
        return [Joint(commit, first, taken) for commit, first, *others in lines for taken in others]

    async def joined_by(self, tip: str, head: str) -> str | None:
        """Return the commit by which the line of `head` came to have `tip`: itself if the line has it."""
        if not await self.is_ancestor(tip, head):
            return None
        between = f"{tip}..{head}"
        after = await self.git.run(
            "rev-list", "--parents", "--ancestry-path", between, "--", git_dir=self._path
        )
        parents = {commit: above for commit, *above in map(str.split, after.text().splitlines())}
        line = await self.git.run("rev-list", "--first-parent", between, "--", git_dir=self._path)
        # One by one: git does not look for a path through the parents that it was told to leave out.
        joined = [commit for commit in line.text().split() if commit in parents]
        if not joined or parents[joined[-1]][0] == tip:
            return tip
        if tip in parents[joined[-1]]:
            return joined[-1]
        # A person may have merged the branch into theirs, and their line is the branch's now.
        merges = [commit for commit, above in parents.items() if tip in above[1:]]
        return merges[-1] if merges else joined[-1]

    async def show_file(self, commit: str, path: str, limit: int) -> bytes | None:
        """Return the first `limit` bytes of a file (a link's target for a link), or None if it has none."""
        listing = await self.git.run("ls-tree", "-z", "-l", commit, "--", path, git_dir=self._path)
        if not listing.stdout:
            return None
        _, kind, name, size = listing.stdout.split(b"\t", 1)[0].decode().split()
        if kind != "blob":
            return None
        if int(size) > _MAX_FILE:
            raise WorkspaceFailed(f"{path!r} in {commit[:12]} is larger than {_MAX_FILE >> 20} MiB")
        output = await self.git.run("cat-file", "blob", name, git_dir=self._path)
        return output.stdout[:limit]

    async def files(self, commit: str) -> list[str]:
        """Return every path of a commit or tree."""
        output = await self.git.run("ls-tree", "-r", "-z", "--name-only", commit, git_dir=self._path)
        return output.names()

    async def _resolve(self, name: str) -> str:
        output = await self.git.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", name, git_dir=self._path, ok=(0, 1)
        )
        lines = output.text().splitlines()
        if not lines:
            raise GitFailed(f"{name} is not in sf's own repository")
        return lines[-1]


def _create(path: Path, user_common: Path) -> None:
    """Build the repository beside its place and rename it there, so that it is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for half in path.parent.glob(f".{path.name}.*"):
        shutil.rmtree(half)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        for name in ("objects", "refs/heads", "info", "worktrees"):
            (temporary / name).mkdir(parents=True)
        files.put(temporary / "config", _CONFIG, sync=True)
        # A branch that never exists: internal git reads no file through HEAD.
        files.put(temporary / "HEAD", b"ref: refs/heads/sf-none\n", sync=True)
        _grafts.begin(user_common, temporary)
        _objects.adopt(user_common / "objects", temporary / "objects")
        temporary.rename(path)
        files.sync_path(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _keep(path: Path, content: bytes) -> None:
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        pass
    files.put(path, content)
