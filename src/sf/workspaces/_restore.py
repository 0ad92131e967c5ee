"""A half-moved checkout brought to one side: only what the landing itself wrote is touched."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from pathlib import Path
from typing import Literal

import msgspec

from sf import files
from sf.workspaces._index_file import brief, is_whole
from sf.workspaces._journal import Desk, Journal
from sf.workspaces.changes import GITLINK, FileChange, between
from sf.workspaces.git import Git

_LINK = "120000"
_ABSENT = "000000"
_LARGEST = 16 << 30
"""Whatever was landed must be comparable again: a landing that cannot be ended holds the user's locks."""


class _Content(msgspec.Struct, frozen=True):
    kind: Literal["absent", "file", "link", "other"]
    content: bytes = b""


async def bring(git: Git, root: Path, facade: Path, journal: Journal, desk: Desk, *, forward: bool) -> None:
    """Give every path that holds the other side, or a beginning of the new one, its target content."""
    untouched = set() if forward else desk.untouched_files()
    ended = forward or await _has_ended(git, facade, journal, desk)
    remove: list[str] = []
    write: list[str] = []
    for change in await between(git, facade, journal.old, journal.new):
        if GITLINK in (change.old_mode, change.new_mode) or change.path in untouched:
            continue
        now = _current(root, change.path)
        if now.kind == "absent" and (change.new_mode if forward else change.old_mode) == _ABSENT:
            continue
        old = await _blob(git, root, facade, change, change.old_mode, change.old_id)
        new = await _blob(git, root, facade, change, change.new_mode, change.new_id)
        target, other = (new, old) if forward else (old, new)
        same_content = change.old_id == change.new_id
        if (now == target and not same_content) or not _is_half_moved(now, other, new, ended=ended):
            continue
        (remove if target.kind == "absent" else write).append(change.path)
    for path in remove:
        _unlink(root, path)
    # What is still no file or link here holds something of the user's; checkout-index would delete it. So it
    # would a file or a link that lies where a folder was: the landing's own are removed by now.
    write = [path for path in write if not _is_blocked(root, path) and _current(root, path).kind != "other"]
    if write:
        commit = journal.new if forward else journal.old
        await _write(git, root, facade, desk, commit, write)


async def _has_ended(git: Git, facade: Path, journal: Journal, desk: Desk) -> bool:
    """Return whether all files were written: the index is, after the last of them."""
    if not is_whole(desk.index):
        return False
    # It needs no lock: one that a killed git left must not make an edit of the user's look half-written.
    flags = ("--cached", "--quiet", "--ignore-submodules=none", "--no-ext-diff")
    output = await git.run(
        "diff-index", *flags, journal.new, "--", git_dir=facade, index=desk.index, ok=(0, 1)
    )
    return output.code == 0


def _is_half_moved(now: _Content, other: _Content, new: _Content, *, ended: bool) -> bool:
    # git unlinks a file before it writes the new one, so absence is a half-moved state too. A directory
    # stands there when a file became one; its files are judged as paths of their own.
    if now.kind in ("absent", "other") or now == other:
        return True
    if now.kind != "file" or new.kind != "file":
        return False
    # Once all were written only a machine that stopped leaves less, and then nothing; a part is an edit.
    return not now.content or (not ended and new.content.startswith(now.content))


async def _blob(git: Git, root: Path, facade: Path, change: FileChange, mode: str, name: str) -> _Content:
    if mode == _ABSENT:
        return _Content("absent")
    if mode == _LINK:
        output = await git.run("cat-file", "blob", name, git_dir=facade)
        return _Content("link", output.stdout)
    output = await git.run(
        *("cat-file", "--filters", f"--path={change.path}", name),
        git_dir=facade,
        work_tree=root,
        timeout=600.0,
        most=_LARGEST,
    )
    return _Content("file", output.stdout)


def _current(root: Path, path: str) -> _Content:
    place, status = root / path, files.lying(root, path)
    if status is None:
        return _Content("absent")
    try:
        if stat.S_ISLNK(status.st_mode):
            return _Content("link", os.fsencode(place.readlink()))
        if stat.S_ISREG(status.st_mode):
            return _Content("file", place.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return _Content("absent")
    return _Content("other")


def _is_blocked(root: Path, path: str) -> bool:
    """Whether a file or a link lies where a folder above the path would be."""
    return any(files.lstat(folder) and not files.is_folder(folder) for folder in files.above(root, path))


def _unlink(root: Path, path: str) -> None:
    place = root / path
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        place.unlink()
    for parent in place.parents:
        if parent == root:
            return
        try:
            parent.rmdir()
        except OSError:
            return


async def _write(git: Git, root: Path, facade: Path, desk: Desk, commit: str, paths: list[str]) -> None:
    with brief(desk.index.with_name("restore")) as index:
        await git.run("read-tree", commit, git_dir=facade, index=index)
        await git.run(
            *("checkout-index", "--force", "-z", "--stdin"),
            git_dir=facade,
            work_tree=root,
            index=index,
            stdin=b"".join(os.fsencode(path) + b"\0" for path in paths),
            timeout=300.0,
            pass_fds=(desk.descriptor,),
        )
    await asyncio.to_thread(files.sync_all, root, paths)
