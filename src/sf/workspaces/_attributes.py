"""What a repository says of its paths, such as that one is never merged by lines: as git would find it.

Merges, checkouts and snapshots follow it. Differences do not: one line of it would hide a change from whoever
judges it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from sf import files
from sf.errors import GitFailed
from sf.workspaces import _everywhere, _excludes
from sf.workspaces.git import Git

FOLDER = "attributes"
"""In sf's own repository: what is left there is a killed process's."""
_PLAIN = "unattributed"
_KEY, _EVERYWHERE = "core.attributesfile", "attributes"
_NAME = ".gitattributes"
_FILES = ("100644", "100755")
_NO_NAMES = ("", ".", "..")
_NO_PLACE = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
"""A tree may name what no folder can hold."""
_MOST_FILES, _MOST_BYTES = 10_000, 16 << 20
_MARKERS = b"* conflict-marker-size=7\n"
"""The markers of a merge are sf's own, and looked for by it: no file has them longer or shorter."""


async def everywhere(
    git: Git, facade: Path, root: Path, named: str | None, environ: Mapping[str, str]
) -> Path | None:
    """Return the user's file for all repositories, or what the repository's configuration has `named`."""
    path = await _everywhere.file(git, facade, _KEY, _EVERYWHERE, root, named, environ)
    # As for git: one that cannot be read says nothing.
    return path if os.access(path, os.R_OK) and path.is_file() else None


def given(path: Path | None) -> dict[str, str]:
    """The setting by which git follows such a file."""
    return {} if path is None else {_KEY: str(path)}


def beside_tree(common: Path) -> bytes:
    """Return what the user's repository says beside its tree, and what holds for every merge of sf's."""
    return _excludes.read(common / "info" / "attributes") + _MARKERS


def make_plain(owned: Path) -> None:
    """Make the view of sf's own repository in which no attributes lie."""
    view = owned / _PLAIN
    view.mkdir(exist_ok=True)
    for name in ("objects", "refs", "packed-refs"):
        if not (view / name).is_symlink():
            (view / name).symlink_to(Path("..") / name)
    for name in ("config", "HEAD"):
        if not (view / name).exists():
            files.put(view / name, (owned / name).read_bytes(), sync=True)


def plain(owned: Path) -> Path:
    """That view; the repository itself where an earlier sf made it and it is only looked at."""
    view = owned / _PLAIN
    return view if (view / "HEAD").exists() else owned


class _Entry(msgspec.Struct, frozen=True):
    """An attributes file of a commit."""

    path: str
    object_id: str
    size: int


@asynccontextmanager
async def laid_out(git: Git, git_dir: Path, commit: str) -> AsyncIterator[Path | None]:
    """A folder that has the attributes files of a commit and nothing else; None where it has none.

    Without a checkout git follows no such file: it would merge by lines what is never to be merged so.
    """
    found = await _entries(git, git_dir, commit)
    if not found:
        yield None
        return
    if len(found) > _MOST_FILES or sum(entry.size for entry in found) > _MOST_BYTES:
        most = f"{_MOST_FILES} or {_MOST_BYTES >> 20} MiB of them"
        raise GitFailed(f"{commit[:12]} has more attributes files than a merge can follow, which is {most}")
    folder = git_dir / FOLDER / secrets.token_hex(6)
    contents = await _contents(git, git_dir, {entry.object_id for entry in found})
    try:
        await asyncio.to_thread(_write, folder, found, contents)
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _write(folder: Path, found: list[_Entry], contents: Mapping[str, bytes]) -> None:
    try:
        for entry in found:
            path = folder / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents[entry.object_id])
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        raise GitFailed(f"an attributes file of the repository cannot be followed: {error}") from error


async def _entries(git: Git, git_dir: Path, commit: str) -> list[_Entry]:
    """The attributes files of a commit; git follows none that is a link."""
    listed = await git.run("ls-tree", "-r", "-l", "-z", commit, git_dir=git_dir)
    found = []
    for record in listed.names():
        head, _, path = record.partition("\t")
        parts = path.split("/")
        if parts[-1] != _NAME or not head.startswith(_FILES) or any(part in _NO_NAMES for part in parts):
            continue
        _, _, object_id, size = head.split()
        found.append(_Entry(path, object_id, int(size)))
    return found


async def _contents(git: Git, git_dir: Path, objects: set[str]) -> dict[str, bytes]:
    """What objects hold, by one process: for each a line that ends with its size, it, and a line's end."""
    names = sorted(objects)
    stdin = "".join(f"{name}\n" for name in names).encode()
    out = (await git.run("cat-file", "--batch", git_dir=git_dir, stdin=stdin)).stdout
    found, at = {}, 0
    for name in names:
        end = out.index(b"\n", at)
        kind, _, size = out[at:end].decode().partition(" ")[2].partition(" ")
        if kind != "blob":
            raise GitFailed(f"an attributes file of the repository is no file: {name} {kind}")
        found[name] = out[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)
    return found
