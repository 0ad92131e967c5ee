"""Single files of a commit, written where nothing of the rest of it is."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sf.workspaces.owned import OwnedRepository

_LINK = "120000"
_FILES = {"100644": 0o644, "100755": 0o755}


class Entry(msgspec.Struct, frozen=True):
    """One file or link of a commit."""

    path: str
    mode: str
    id: str


async def entries(owned: OwnedRepository, commit: str, paths: Sequence[str]) -> list[Entry]:
    """Return what a commit holds at some paths, folders as a whole."""
    listed = await owned.git.run("ls-tree", "-r", "-z", commit, "--", *paths, git_dir=owned.git_dir)
    found = []
    for line in listed.names():
        head, _, path = line.partition("\t")
        mode, _, object_id = head.split()
        found.append(Entry(path, mode, object_id))
    return found


def is_link(entry: Entry) -> bool:
    """Return whether an entry is a symbolic link."""
    return entry.mode == _LINK


async def leads_to(owned: OwnedRepository, link: Entry) -> tuple[str, str]:
    """Return the path in the commit that a link leads to, empty when it leads out, and the link's words."""
    blob = await owned.git.run("cat-file", "blob", link.id, git_dir=owned.git_dir)
    words = os.fsdecode(blob.stdout)
    path = os.path.normpath(Path(link.path).parent / words)
    is_out = Path(path).is_absolute() or Path(path).parts[:1] == ("..",)
    return "" if is_out else path, words


def as_run(root: Path, wanted: Sequence[Entry], gate: str, *, has_run_bits: bool) -> list[Entry]:
    """Return entries with the run bits that a checkout has where git has none, and the gate's own.

    A repository without run bits (core.fileMode is false) says nothing by their absence.
    """
    return [
        msgspec.structs.replace(entry, mode="100755")
        if entry.mode == "100644" and (_runs(root / entry.path) or (entry.path == gate and not has_run_bits))
        else entry
        for entry in wanted
    ]


def lie_in(root: Path, wanted: Sequence[Entry], tracked: Sequence[str]) -> bool:
    """Return whether a checkout holds exactly these, byte for byte, of all that it tracks beside them."""
    here = set(tracked) == {entry.path for entry in wanted}
    return here and all(_lies_in(root, entry) for entry in wanted)


async def extract(owned: OwnedRepository, wanted: Sequence[Entry], folder: Path) -> None:
    """Make `folder` with these. One that is there is taken as it is: its name must say what is in it."""
    if folder.is_dir():
        return
    half = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        half.mkdir(parents=True)
        for entry in wanted:
            if entry.mode in (*_FILES, _LINK):
                blob = await owned.git.run("cat-file", "blob", entry.id, git_dir=owned.git_dir)
                await asyncio.to_thread(_write, half, entry, blob.stdout)
        await asyncio.to_thread(half.replace, folder)
    except OSError:
        # Another run was faster.
        if not folder.is_dir():
            raise
    finally:
        await asyncio.to_thread(shutil.rmtree, half, ignore_errors=True)


def _lies_in(root: Path, entry: Entry) -> bool:
    path = root / entry.path
    try:
        if path.is_symlink():
            content = os.fsencode(path.readlink())
            return entry.mode == _LINK and _id(content) == entry.id
        return entry.mode == ("100755" if _runs(path) else "100644") and _id(path.read_bytes()) == entry.id
    except OSError:
        return False


def _runs(path: Path) -> bool:
    try:
        return path.is_file() and bool(path.lstat().st_mode & 0o100) and not path.is_symlink()
    except OSError:
        return False


def _id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _write(top: Path, entry: Entry, content: bytes) -> None:
    path = top / entry.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.mode != _LINK:
        path.write_bytes(content)
        path.chmod(_FILES[entry.mode])
        return
    target = os.fsdecode(content)
    # One that leads out of what was asked for would lead to whatever happens to lie there.
    if not Path(target).is_absolute() and Path(os.path.normpath(path.parent / target)).is_relative_to(top):
        path.symlink_to(target)
