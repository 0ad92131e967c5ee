"""Merges without a checkout."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sf.errors import GitFailed
from sf.workspaces.git import Git


class MergeResult(msgspec.Struct, frozen=True):
    """A merged tree; or, with `tree` None, the paths in conflict and the tree that holds their markers."""

    tree: str | None
    conflicts: tuple[str, ...]
    detail: str
    conflicted_tree: str | None


async def merge_trees(git: Git, git_dir: Path, ours: str, theirs: str) -> MergeResult:
    """Merge two commits into a tree."""
    output = await git.run(
        *("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs),
        git_dir=git_dir,
        ok=(0, 1),
        timeout=300.0,
    )
    fields = output.stdout.decode("utf-8", "surrogateescape").split("\0")
    tree = fields.pop(0)
    if len(tree) != 40:
        raise GitFailed(f"git merge-tree gave no tree: {output.stderr.strip()[:200]}")
    if output.code == 0:
        return MergeResult(tree, (), "", None)
    end = fields.index("") if "" in fields else len(fields)
    conflicts = tuple(dict.fromkeys(fields[:end]))
    return MergeResult(None, conflicts, _messages(fields[end + 1 :]), tree)


def _messages(fields: list[str]) -> str:
    """The readable part of the records `count, path × count, kind, message`."""
    lines: list[str] = []
    position = 0
    while position < len(fields) and fields[position].isdigit():
        position += 1 + int(fields[position]) + 1
        if position < len(fields):
            lines.append(fields[position].strip())
        position += 1
    return "\n".join(line for line in lines if line)
