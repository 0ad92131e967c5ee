"""What the user's checkout holds that a landing must not disturb."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from sf.files import is_folder, lstat
from sf.workspaces._layout import Layout, read_small
from sf.workspaces.changes import EMPTY_TREE, GITLINK, FileChange
from sf.workspaces.git import Git

_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer")


def worktrees_using(layout: Layout, branch: str, *, but: Path | None = None) -> list[Path]:
    """Return the git directories of the worktrees that have `branch` out or are rebasing it."""
    found: list[Path] = []
    for folder, head in layout.heads().items():
        if folder == but:
            continue
        states = {head.removeprefix("ref: ")}
        states |= {read_small(folder / kind / "head-name") for kind in ("rebase-merge", "rebase-apply")}
        if f"refs/heads/{branch}" in states:
            found.append(folder)
    return found


def unfinished(layout: Layout) -> list[str]:
    """Return the marks of a merge, rebase, pick or revert that the user has not finished."""
    return [name for name in _UNFINISHED if (layout.git_dir / name).exists()]


def copy_index(index: Path, copy: Path) -> None:
    """Copy an index with its time of writing.

    git compares whole seconds, and looks into a file that has the index's own second or a later one; a copy
    that looks newer than it is would hide a change of the same size made in that second.
    """
    shutil.copyfile(index, copy)
    written = index.stat().st_mtime_ns
    os.utime(copy, ns=(written, written))


async def dirty_paths(git: Git, layout: Layout, facade: Path, state: Path, commit: str | None) -> list[str]:
    """Return tracked paths whose index or file differs from `commit` (None: no commit yet)."""
    with tempfile.TemporaryDirectory(dir=state, prefix="dirty-") as scratch:
        index = Path(scratch) / "index"
        if layout.index.exists():
            copy_index(layout.index, index)
        found = await changed_in_index(git, layout, facade, index, commit)
    return sorted(found)


async def changed_in_index(
    git: Git, layout: Layout, facade: Path, index: Path, commit: str | None
) -> set[str]:
    """Return the paths of a private copy of the index that are staged or changed; refreshes that copy."""
    await git.run(
        *("update-index", "-q", "--ignore-submodules", "--unmerged", "--refresh"),
        git_dir=facade,
        work_tree=layout.root,
        index=index,
        ok=(0, 1),
    )
    flags = ("-z", "--name-only", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-renames")
    staged = await git.run(
        *("diff-index", "--cached", *flags, commit or EMPTY_TREE, "--"),
        git_dir=facade,
        work_tree=layout.root,
        index=index,
    )
    changed = await git.run("diff-files", *flags, "--", git_dir=facade, work_tree=layout.root, index=index)
    return {*staged.names(), *changed.names()}


def in_the_way(root: Path, changes: Iterable[FileChange]) -> list[str]:
    """Return what lies, untracked or ignored, where `changes` would put a file or a folder."""
    listed = list(changes)
    gone = {change.path for change in listed if change.status == "D"}
    found: set[str] = set()
    for change in listed:
        # A submodule's folder holds a repository of its own, which git removes for a file that replaces it.
        if change.status == "A" or (change.status == "T" and change.old_mode == GITLINK):
            found |= _obstacles(root, change.path, gone)
    return sorted(found)


def _obstacles(root: Path, path: str, gone: set[str]) -> set[str]:
    parts = path.split("/")
    for depth in range(1, len(parts)):
        parent = "/".join(parts[:depth])
        status = lstat(root / parent)
        if status is None or (parent in gone and not stat.S_ISDIR(status.st_mode)):
            return set()
        if not stat.S_ISDIR(status.st_mode):
            return {parent}
    status = lstat(root / path)
    if status is None:
        return set()
    if not stat.S_ISDIR(status.st_mode):
        return {path}
    return {os.path.relpath(found, root) for found in _below(root / path)} - gone


def _below(top: Path) -> Iterator[str]:
    """Everything below a folder that is no folder itself; as for git, an empty one is nothing."""
    for folder, folders, names in os.walk(top):
        # Links to folders are listed among the folders, though nothing walks into them.
        yield from (path for name in (*names, *folders) if not is_folder(path := f"{folder}/{name}"))
