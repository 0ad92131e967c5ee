"""The tree of a folder that an agent has worked in, taken without running anything the agent left there."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from sf.containment import TEMPORARY
from sf.errors import GitFailed, WorkspaceFailed
from sf.workspaces.git import Git, Output

# git opens these by name while it lists or adds files, and waits for ever on one that is a FIFO.
_OPENED_BY_NAME = {".gitattributes", ".gitignore", ".gitmodules", ".mailmap"}
_DIRECTORY_BITS = 0o700


class Snapshot:
    """Brings a private index to the content of a folder and writes its tree."""

    def __init__(self, git: Git, git_dir: Path, folder: Path, index: Path) -> None:
        self._git = git
        self._git_dir = git_dir
        self._folder = folder
        self._index = index

    async def take(self) -> str:
        """Return the tree of everything in the folder that is not ignored; nested repositories stay out."""
        if self._folder.is_symlink() or not self._folder.is_dir():
            raise WorkspaceFailed(f"the worktree folder {self._folder} is gone")
        await asyncio.to_thread(_disarm, self._folder)
        links, entries = await self._entries()
        shadowed = await asyncio.to_thread(_shadowed, self._folder, entries)
        deleted = set((await self._list("-d")).names())
        await self._update("--force-remove", names=sorted(deleted | shadowed))
        listed = (await self._list("-o", "-m", "--exclude-standard", f"--exclude={TEMPORARY}*")).names()
        names = [name for name in dict.fromkeys(listed) if not name.endswith("/")]
        unusable = [name for name in names if not _is_content(self._folder / name, name in links)]
        # A gitlink whose folder is still there stays as it was committed, whatever is inside the folder.
        await self._update("--force-remove", names=[name for name in unusable if name not in links])
        skipped = {*unusable, *(name for name in links if _is_directory(self._folder / name))}
        await self._add([name for name in names if name not in skipped])
        output = await self._run("write-tree")
        return output.text()

    async def nested(self) -> list[str]:
        """Return the untracked, not ignored repositories inside the folder."""
        listed = (await self._list("-o", "--exclude-standard")).names()
        return [name.rstrip("/") for name in listed if name.endswith("/")]

    async def _entries(self) -> tuple[set[str], list[str]]:
        """Return the gitlinks of the index, and all its paths."""
        output = await self._run("ls-files", "-z", "--stage")
        links: set[str] = set()
        paths: list[str] = []
        for record in output.names():
            head, _, path = record.partition("\t")
            paths.append(path)
            if head.startswith("160000"):
                links.add(path)
        return links, paths

    async def _list(self, *flags: str) -> Output:
        return await self._run("ls-files", "-z", *flags)

    async def _add(self, names: list[str]) -> None:
        """Add names in one go; when git refuses, halve until the name at fault is alone, and mend that."""
        try:
            await self._update("--add", "--remove", "--replace", names=names)
        except GitFailed:
            if len(names) > 1:
                middle = len(names) // 2
                await self._add(names[:middle])
                await self._add(names[middle:])
            elif not _make_readable(self._folder / names[0]):
                raise
            else:
                await self._update("--add", "--remove", "--replace", names=names)

    async def _update(self, *flags: str, names: Iterable[str]) -> None:
        stdin = b"".join(os.fsencode(name) + b"\0" for name in names)
        if stdin:
            await self._run("update-index", *flags, "-z", "--stdin", stdin=stdin)

    async def _run(self, *args: str, stdin: bytes = b"") -> Output:
        return await self._git.run(
            *args,
            git_dir=self._git_dir,
            work_tree=self._folder,
            index=self._index,
            stdin=stdin,
            timeout=120.0,
        )


def _disarm(folder: Path) -> None:
    """Remove the special files that git would open, and give back access to closed directories."""
    waiting: list[tuple[str, bool]] = [(str(folder), False)]
    while waiting:
        place, in_git = waiting.pop()
        for entry in _scan(place):
            if entry.is_dir(follow_symlinks=False):
                # Only the top of a nested .git is opened while git looks whether it is a repository.
                if not in_git:
                    waiting.append((entry.path, entry.name == ".git"))
            elif in_git or entry.name in _OPENED_BY_NAME:
                _remove_special(entry)


def _scan(place: str) -> list[os.DirEntry[str]]:
    mode = stat.S_IMODE(os.lstat(place).st_mode)
    try:
        if mode & _DIRECTORY_BITS != _DIRECTORY_BITS:
            os.chmod(place, mode | _DIRECTORY_BITS)  # noqa: PTH101 - text from scandir
        with os.scandir(place) as entries:
            return list(entries)
    except OSError as error:
        raise WorkspaceFailed(f"cannot read the folder {place}: {error.strerror}") from error


def _remove_special(entry: os.DirEntry[str]) -> None:
    if not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
        os.unlink(entry.path)  # noqa: PTH108 - text from scandir


def _shadowed(folder: Path, paths: list[str]) -> set[str]:
    """Return the index paths that lie beyond a link or a file where a directory was."""
    known: dict[str, bool] = {"": False}

    def beyond(parent: str) -> bool:
        if parent not in known:
            known[parent] = beyond(parent.rpartition("/")[0]) or not _is_directory(folder / parent)
        return known[parent]

    return {path for path in paths if beyond(path.rpartition("/")[0])}


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _is_directory(path: Path) -> bool:
    return stat.S_ISDIR(_mode(path))


def _is_content(path: Path, is_link: bool) -> bool:
    mode = _mode(path)
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or (is_link and stat.S_ISDIR(mode))


def _make_readable(path: Path) -> bool:
    """Give the owner read access to a regular file; False when that was not the trouble."""
    mode = _mode(path)
    if not stat.S_ISREG(mode) or mode & stat.S_IRUSR:
        return False
    path.chmod(stat.S_IMODE(mode) | stat.S_IRUSR)
    return True
