"""The difference between two trees, file by file."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sf.workspaces.git import Git

# Gitlinks stay visible whatever .gitmodules says about ignoring them; nothing of a file's attributes runs.
FLAGS = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "--ignore-submodules=none")
GITLINK = "160000"
"""The mode of a commit of another repository: a submodule."""
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without files, which every repository has."""


class FileChange(msgspec.Struct, frozen=True):
    """One changed path; modes are git's (120000 link, 160000 gitlink, 000000 absent); binary: no counts."""

    path: str
    status: str
    added: int | None
    deleted: int | None
    old_mode: str
    new_mode: str
    old_id: str
    new_id: str


async def between(git: Git, git_dir: Path, base: str, target: str) -> list[FileChange]:
    """Return what changes from `base` to `target`, both trees or commits, in path order."""
    output = await git.run(
        *("diff-tree", "-r", "-z", "--raw", "--numstat", "--abbrev=40", *FLAGS, base, target, "--"),
        git_dir=git_dir,
    )
    return _parse(output.stdout)


def _parse(raw: bytes) -> list[FileChange]:
    fields = iter(raw.split(b"\0"))
    heads: dict[bytes, list[str]] = {}
    counts: dict[bytes, tuple[int | None, int | None]] = {}
    for field in fields:
        if field.startswith(b":"):
            heads[next(fields)] = field[1:].decode().split()
        elif field:
            added, deleted, path = field.split(b"\t", 2)
            counts[path] = (_count(added), _count(deleted))
    return [
        FileChange(
            path=os.fsdecode(path),
            status=status[:1],
            added=counts.get(path, (None, None))[0],
            deleted=counts.get(path, (None, None))[1],
            old_mode=old_mode,
            new_mode=new_mode,
            old_id=old_id,
            new_id=new_id,
        )
        for path, (old_mode, new_mode, old_id, new_id, status) in heads.items()
    ]


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
