"""The user's repository, read and moved through a façade that holds none of its configuration."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from sf.errors import BadUsage, GitFailed
from sf.workspaces import _attributes, _busy, _excludes, _facade, _layout
from sf.workspaces._journal import Desk
from sf.workspaces._landing import Landed, Landing, recover
from sf.workspaces._layout import read_small
from sf.workspaces._refs import read_ref, update_ref
from sf.workspaces._transfer import present, transfer
from sf.workspaces._user_checkout import dirty_paths, worktrees_using
from sf.workspaces.git import Git, Identity

_STALE = 600.0
_GUARD, _GUARD_AGE = "sf branch", 3600.0
"""What guards the objects of a branch until it has its ref; an old one was left by a process that is dead."""
_FILTER = re.compile(r"\sfilter=\S")

__all__ = ["Head", "Landed", "ObjectSource", "UserRepository"]


class Head(msgspec.Struct, frozen=True):
    """What the user's checkout has out: no branch when detached, no commit when unborn."""

    branch: str | None
    commit: str | None


class ObjectSource(Protocol):
    """A repository that commits are taken from."""

    @property
    def git_dir(self) -> Path:
        """Its git directory."""
        ...


class UserRepository:
    """The user's repository; nothing of its configuration, hooks, filters or submodules executes."""

    def __init__(self, layout: _layout.Layout, state: Path, git: Git, identity: Identity) -> None:
        self._layout = layout
        self._state = state
        self._git = git
        self._identity = identity
        self.excludes: str | None = None
        """The ignore file that the repository's configuration names."""
        self.attributes: Path | None = None
        """The attributes file that holds for it besides its own."""
        self.has_run_bits = True
        """Whether git looks at the run bits of its files: not with core.fileMode = false."""

    @classmethod
    async def open(
        cls,
        root: Path,
        state: Path,
        git: Git,
        identity: Identity | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> UserRepository:
        """Open the repository whose top level is `root`, keeping the façade below `state`."""
        layout = _layout.locate(root)
        state = state.resolve()
        _facade.build(layout, _facade_in(state))
        environ = os.environ if environ is None else environ
        settings = await _layout.settings(git, layout, _facade_in(state), environ)
        if settings.copied.get("core.logallrefupdates") != "false":
            _facade.make_logs(layout)
        # Given with every command: others who open the repository meanwhile may have settings of their own.
        attributes = await _attributes.everywhere(
            git, _facade_in(state), layout.root, settings.attributes, environ
        )
        set_to = git.set_to(settings.copied | _attributes.given(attributes))
        repository = cls(layout, state, set_to, identity or Identity())
        repository.excludes = settings.excludes
        repository.attributes = attributes
        repository.has_run_bits = settings.copied.get("core.filemode") != "false"
        return repository

    @property
    def root(self) -> Path:
        """The top level of the user's checkout."""
        return self._layout.root

    @property
    def git_dir(self) -> Path:
        """The façade's directory."""
        return _facade_in(self._state)

    @property
    def common_dir(self) -> Path:
        """The directory of the user's repository that holds objects and refs; for reading files only."""
        return self._layout.common

    def exclude(self, mark: str, patterns: str) -> None:
        """Add patterns and a mark to the repository's own ignore file, once. Raises OSError."""
        path = self._layout.common / "info" / "exclude"
        if mark.encode() not in _excludes.read(path).splitlines():
            path.parent.mkdir(exist_ok=True)
            # The mark last: what is cut short here is added again.
            with path.open("ab") as file:
                file.write(b"\n" * (file.tell() > 0) + f"{patterns}{mark}\n".encode())

    async def origin(self) -> str:
        """The address of the remote `origin`; empty when there is none."""
        return await _layout.origin(self._git, self._layout, self.git_dir)

    async def head(self) -> Head:
        """Return what the user's checkout has out."""
        text = _facade.copy_head(self._layout, self.git_dir)
        if not text.startswith("ref: "):
            return Head(None, text)
        name = text.removeprefix("ref: ")
        return Head(name.removeprefix("refs/heads/"), await read_ref(self._git, self.git_dir, name))

    def branch_out(self) -> str | None:
        """Return the branch that the user's checkout has out, None when it is detached."""
        text = _facade.copy_head(self._layout, self.git_dir)
        return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else None

    @property
    def head_file(self) -> Path:
        """What git writes anew whenever another branch is checked out."""
        return self._layout.git_dir / "HEAD"

    @property
    def index_files(self) -> tuple[Path, Path]:
        """The index, and the lock that a git has on it while it writes files of the checkout."""
        return self._layout.index, self._layout.index.with_name("index.lock")

    def is_at_work(self) -> bool:
        """Return whether a git may be writing the user's checkout: HEAD follows the files, not the other way.

        A lock that is old was left by a git that is dead; one of the future says nothing of its age.
        """
        try:
            lock = self.index_files[1].stat()
            return abs(time.time() - lock.st_mtime) < _STALE
        except FileNotFoundError:
            return False

    def is_out_elsewhere(self, branch: str) -> bool:
        """Return whether another worktree of the user's has a branch out, or is rebasing it."""
        return bool(worktrees_using(self._layout, branch, but=self._layout.git_dir))

    async def branch_commit(self, branch: str) -> str | None:
        """Return the commit of a branch, or None when there is no such branch."""
        return await read_ref(self._git, self.git_dir, f"refs/heads/{branch}")

    async def first_commits(self) -> list[str] | None:
        """Return every commit that HEAD's history begins with, or None where its beginning is not here."""
        head = await self.head()
        if (self.common_dir / "shallow").exists():
            return None
        if head.commit is None:
            return []
        output = await self._git.run("rev-list", "--max-parents=0", head.commit, git_dir=self.git_dir)
        return output.text().split()

    async def has_any(self, commits: Sequence[str]) -> bool:
        """Return whether one of these commits is here."""
        return bool(await present(self._git, self.git_dir, commits))

    async def contains(self, branch: str, commit: str) -> bool:
        """Return whether a branch reaches a commit; no such branch reaches none."""
        name = f"refs/heads/{branch}"
        output = await self._git.run(
            *("merge-base", "--is-ancestor", commit, name), git_dir=self.git_dir, ok=(0, 1, 128)
        )
        return output.code == 0

    def has_left(self, branch: str, commit: str) -> bool:
        """Return whether a branch was at a commit and has moved on, going by its log, if that can be read."""
        log = self.common_dir / "logs" / "refs" / "heads" / branch
        # A pipe in its place would be waited for.
        if log.is_file():
            with contextlib.suppress(OSError), log.open("rb") as lines:
                return any(line.startswith(f"{commit} ".encode()) for line in lines)
        return False

    async def tracked_files(self) -> list[str]:
        """Return every path in the user's index."""
        output = await self._git.run("ls-files", "-z", "--cached", git_dir=self.git_dir, work_tree=self.root)
        return list(dict.fromkeys(output.names()))

    async def dirty(self, touched: Sequence[str] | None = None) -> list[str]:
        """Return the tracked paths with staged or unstaged changes, at most those in `touched`."""
        self._state.mkdir(parents=True, exist_ok=True)
        head = await self.head()
        found = await dirty_paths(self._git, self._layout, self.git_dir, self._state, head.commit)
        return [path for path in found if touched is None or path in set(touched)]

    async def land(self, branch: str, old: str, new: str, owned: ObjectSource) -> Landed:
        """Move `branch` from `old` to `new`, checkout included; it raises before anything moves."""
        head = await self.head()
        if old == new:
            return Landed(branch, old, new, checkout=False)
        if await present(self._git, owned.git_dir, [old]) == []:
            raise GitFailed(f"{old} is not known to sf's own repository; fetch it first")
        landing = Landing(self._git, self._layout, self._state, self._identity)
        return await landing.run(branch, old, new, owned.git_dir, checkout=head.branch == branch)

    async def recover_landing(self) -> str | None:
        """Finish or undo a landing that was interrupted; say in one line what was done, None if nothing."""
        self._drop_old_guards()
        return await recover(self._git, self._layout, self._state)

    def _drop_old_guards(self) -> None:
        for guard in (self._layout.common / "objects" / "pack").glob("pack-*.keep"):
            # Another may have been faster; what is somebody else's may be closed to us.
            with contextlib.suppress(FileNotFoundError, PermissionError):
                is_old = time.time() - guard.stat().st_mtime > _GUARD_AGE
                if is_old and read_small(guard) == _GUARD:
                    guard.unlink()

    def unfinished_landing(self) -> str:
        """What a landing that has not ended says of itself, and the locks it holds; empty for none."""
        journal = Desk(self._layout, self._state).read()
        if journal is None:
            return ""
        names = ("HEAD.lock", "index.lock")
        held = [name for name in names if read_small(self._layout.git_dir / name) == journal.landing_id]
        return f"{journal.new[:10]} into {journal.branch} ({journal.step})" + (
            f", which holds {' and '.join(held)}" if held else ""
        )

    async def filtered(self) -> list[str]:
        """Return the lines of attributes that ask for a filter, as `file: line`."""
        tracked = [name for name in await self.tracked_files() if name.rpartition("/")[2] == ".gitattributes"]
        # Of the files in the tree git follows none that is a link.
        files = {name: self.root / name for name in tracked if not (self.root / name).is_symlink()}
        files["info/attributes"] = self._layout.common / "info" / "attributes"
        if self.attributes is not None:
            files[str(self.attributes)] = self.attributes
        return [
            f"{name}: {line.strip()}"
            for name, path in files.items()
            for line in read_small(path).splitlines()
            if _FILTER.search(line) and not line.lstrip().startswith("#")
        ]

    async def keep_branch(
        self, name: str, commit: str, owned: ObjectSource, *, only_new: bool = False
    ) -> None:
        """Create a branch, or move one forward that is checked out nowhere, bringing its commits along.

        A branch that has the commit already is left alone; one with commits of its own is refused, and with
        `only_new` every other branch of that name.
        """
        await self._check_branch_name(name)
        old = await self.branch_commit(name)
        if old == commit or (old is not None and not only_new and await self.contains(name, commit)):
            return
        self._refuse_checked_out(name)
        if old is not None and (only_new or not await self._is_behind(old, commit, owned)):
            raise BadUsage(f"there is a branch {name!r} already, at {old[:12]}", hint="choose another name")
        heads = await self._git.run(
            "for-each-ref", "--format=%(objectname)", "refs/heads", git_dir=self.git_dir
        )
        known = heads.text().split()
        guard = None
        if commit not in known:
            guard = await transfer(self._git, owned.git_dir, self.git_dir, commit, known=known, keep=_GUARD)
        try:
            await update_ref(
                self._git, self.git_dir, f"refs/heads/{name}", commit, old, identity=self._identity
            )
        finally:
            if guard is not None:
                guard.unlink(missing_ok=True)

    async def _is_behind(self, old: str, commit: str, owned: ObjectSource) -> bool:
        output = await self._git.run(
            *("merge-base", "--is-ancestor", old, commit), git_dir=owned.git_dir, ok=(0, 1, 128)
        )
        return output.code == 0

    async def delete_branch(self, name: str, expected: str) -> None:
        """Delete a branch that is checked out nowhere and still at `expected`."""
        self._refuse_checked_out(name)
        await self._check_branch_name(name)
        await update_ref(self._git, self.git_dir, f"refs/heads/{name}", None, expected)

    async def _check_branch_name(self, name: str) -> None:
        output = await self._git.run(
            "check-ref-format", f"refs/heads/{name}", git_dir=self.git_dir, ok=(0, 1)
        )
        if output.code != 0 or name.startswith("-"):
            raise BadUsage(f"{name!r} is not a branch name")

    def _refuse_checked_out(self, name: str) -> None:
        users = worktrees_using(self._layout, name)
        if users:
            raise _busy.elsewhere(self._layout, name, users)


def _facade_in(state: Path) -> Path:
    return state / "facade"
