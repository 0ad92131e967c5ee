"""The tree of a folder that an agent has worked in, taken without running anything the agent left there."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from sf import files
from sf.containment import TEMPORARY
from sf.errors import GitFailed, WorkspaceFailed
from sf.workspaces._transfer import present
from sf.workspaces.changes import GITLINK
from sf.workspaces.git import Git, Output

# git opens these by name while it lists or adds files, and waits for ever on one that is a FIFO.
_OPENED_BY_NAME = {".gitattributes", ".gitignore", ".gitmodules", ".mailmap"}
_DIRECTORY_BITS = 0o700


class _Listing(msgspec.Struct, frozen=True):
    """What is in the index, and how the folder differs from it."""

    entries: list[str]
    links: set[str]
    """Those of the entries that are commits of other repositories."""
    deleted: set[str]
    content: list[str]
    """Modified and untracked files, each once."""


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
        try:
            return await self._taken()
        except GitFailed:
            # On a full disk git enters files whose objects it could not put in their place, and does not
            # look at them again: no tree could ever be written.
            if not await self._enter_anew():
                raise
            return await self._taken()

    async def _taken(self) -> str:
        seen = await self._listing()
        gone = seen.deleted | await asyncio.to_thread(_shadowed, self._folder, seen.entries)
        if gone:
            await self._update("--force-remove", names=sorted(gone))
            # Others may lie where they were.
            seen = await self._listing()
        names, links = seen.content, seen.links
        unusable = [name for name in names if not _is_content(self._folder / name, name in links)]
        # A gitlink whose folder is still there stays as it was committed, whatever is inside the folder.
        await self._update("--force-remove", names=[name for name in unusable if name not in links])
        skipped = {*unusable, *(name for name in links if files.is_folder(self._folder / name))}
        changed = [name for name in names if name not in skipped]
        # Before a tree names them: files that a power cut empties would pass for what somebody made of them.
        await asyncio.to_thread(files.sync_all, self._folder, changed)
        await self._add(changed)
        output = await self._run("write-tree")
        return output.text()

    async def nested(self) -> list[str]:
        """Return the untracked, not ignored repositories inside the folder."""
        listed = (await self._run("ls-files", "-z", "-o", "--exclude-standard")).names()
        return [name.rstrip("/") for name in listed if name.endswith("/")]

    async def strangers(self) -> list[str]:
        """Return what lies in the folder and no tree of it can hold.

        Repositories inside it, and what was written below a submodule that nobody has checked out.
        """
        return [*await self.nested(), *await self.strewn()]

    async def strewn(self) -> list[str]:
        """Return what was written below a submodule that nobody has checked out: it belongs nowhere."""
        links = (await self._listing()).links
        return [f"{name}/{inside}" for name in sorted(links) for inside in _strewn(self._folder / name)]

    async def _enter_anew(self) -> bool:
        """Enter anew, from the folder, what is entered without an object; whether there is any."""
        entries = (await self._run("ls-files", "-z", "--stage")).names()
        objects = {entry: entry.split()[1] for entry in entries if not entry.startswith(GITLINK)}
        kept = set(await present(self._git, self._git_dir, objects.values()))
        unkept = [entry for entry, name in objects.items() if name not in kept]
        # Given like this, no time and size are known of the file, by which git would pass it over.
        stdin = b"".join(os.fsencode(entry) + b"\0" for entry in unkept)
        await self._run("update-index", "-z", "--index-info", stdin=stdin)
        names = [entry.partition("\t")[2] for entry in unkept]
        await self._add([name for name in names if _is_content(self._folder / name, is_link=False)])
        return bool(unkept)

    async def _listing(self) -> _Listing:
        """Everything by one process: a turn ends with a snapshot, and starting git is most of its time."""
        exclusions = ("--exclude-standard", f"--exclude={TEMPORARY}*")
        listed = await self._run("ls-files", "-z", "-t", "--stage", "-d", "-m", "-o", *exclusions)
        return _parsed(listed.names())

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


def _parsed(records: list[str]) -> _Listing:
    """The records of `ls-files -t --stage`: `? path`, or a letter, mode, object and stage, tab, path."""
    entries: list[str] = []
    links: set[str] = set()
    deleted: set[str] = set()
    content: dict[str, None] = {}
    for record in records:
        if record.startswith("? "):
            if not record.endswith("/"):
                content[record[2:]] = None
            continue
        head, _, path = record.partition("\t")
        if head[0] == "R":
            deleted.add(path)
        elif head[0] == "C":
            content[path] = None
        else:
            entries.append(path)
            if head[2:].startswith(GITLINK):
                links.add(path)
    return _Listing(entries, links, deleted, list(content))


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
            known[parent] = beyond(parent.rpartition("/")[0]) or not files.is_folder(folder / parent)
        return known[parent]

    return {path for path in paths if beyond(path.rpartition("/")[0])}


def _mode(path: Path) -> int:
    status = files.lstat(path)
    return status.st_mode if status is not None else 0


def _strewn(path: Path) -> list[str]:
    """What lies in a submodule's folder although its repository is not there."""
    if not files.is_folder(path) or os.path.lexists(path / ".git"):
        return []
    return sorted(entry.name for entry in path.iterdir())


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
