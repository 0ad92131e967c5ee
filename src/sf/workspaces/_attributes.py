"""What a repository says of its paths, such as that one is never merged by lines: as git would find it."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from sf.workspaces import _everywhere
from sf.workspaces.git import Git

FOLDER = "attributes"
"""In sf's own repository: what is left there is a killed process's."""
_KEY, _EVERYWHERE = "core.attributesfile", "attributes"
_NAME = ".gitattributes"
_FILES = ("100644", "100755")
_NO_NAMES = ("", ".", "..")


async def everywhere(
    git: Git, facade: Path, root: Path, named: str | None, environ: Mapping[str, str]
) -> Path | None:
    """Return the user's file for all repositories, or what the repository's configuration has `named`."""
    path = await _everywhere.file(git, facade, _KEY, _EVERYWHERE, root, named, environ)
    return path if path.is_file() else None


def given(path: Path | None) -> dict[str, str]:
    """The setting by which git follows such a file."""
    return {} if path is None else {_KEY: str(path)}


@asynccontextmanager
async def laid_out(git: Git, git_dir: Path, commit: str) -> AsyncIterator[Path | None]:
    """A folder that has the attributes files of a commit and nothing else; None where it has none.

    Without a checkout git follows no such file: it would merge by lines what is never to be merged so.
    """
    found = await _entries(git, git_dir, commit)
    if not found:
        yield None
        return
    folder = git_dir / FOLDER / secrets.token_hex(6)
    folder.mkdir(parents=True)
    try:
        contents = await _contents(git, git_dir, list(found.values()))
        for name, content in zip(found, contents, strict=True):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        yield folder
    finally:
        shutil.rmtree(folder)


async def _entries(git: Git, git_dir: Path, commit: str) -> dict[str, str]:
    """The attributes files of a commit and their objects; git follows none that is a link."""
    listed = await git.run("ls-tree", "-r", "-z", commit, git_dir=git_dir)
    entries = (record.partition("\t") for record in listed.names())
    return {
        path: head.split()[2]
        for head, _, path in entries
        if path.rpartition("/")[2] == _NAME
        and head.startswith(_FILES)
        and not any(part in _NO_NAMES for part in path.split("/"))
    }


async def _contents(git: Git, git_dir: Path, objects: list[str]) -> list[bytes]:
    """What objects hold, by one process: for each a line that ends with its size, it, and a line's end."""
    stdin = "".join(f"{name}\n" for name in objects).encode()
    left = (await git.run("cat-file", "--batch", git_dir=git_dir, stdin=stdin)).stdout
    found = []
    for _ in objects:
        head, _, left = left.partition(b"\n")
        size = int(head.split()[2])
        found.append(left[:size])
        left = left[size + 1 :]
    return found
