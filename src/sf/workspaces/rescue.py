"""Keeping under `refs/sf/rescue/` what would otherwise be under no name at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from sf.containment import sanitize
from sf.workspaces import parked
from sf.workspaces._index_file import brief
from sf.workspaces._snapshot import Snapshot
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.refusals import BranchMoved


async def park(owned: OwnedRepository, name: str, commit: str) -> str:
    """Keep a commit under a rescue ref of its own; the ref."""
    prefix = f"{parked.RESCUES}{parked.stem(name)}-"
    taken = await owned.refs(parked.RESCUES)
    number = 1
    while True:
        if (ref := f"{prefix}{number}") not in taken:
            # Somebody else may take it at this very moment.
            with contextlib.suppress(BranchMoved):
                await owned.set_ref(ref, commit, None)
                return ref
        number += 1


async def park_tree(owned: OwnedRepository, name: str, tree: str, tip: str) -> str:
    """Keep a tree that was found on top of a commit; the ref, an older one when that has the tree already."""
    prefix = f"{parked.RESCUES}{parked.stem(name)}-"
    for ref, commit in (await owned.refs(parked.RESCUES)).items():
        if ref.startswith(prefix) and await owned.tree_of(commit) == tree:
            return ref
    return await park(owned, name, await owned.commit_tree(tree, [tip], f"Rescued from {name}"))


async def holds(owned: OwnedRepository, commit: str) -> bool:
    """Return whether a rescue ref reaches a commit already."""
    for kept in (await owned.refs(parked.RESCUES)).values():
        if await owned.is_ancestor(commit, kept):
            return True
    return False


def set_aside(owned: OwnedRepository, folder: Path, names: Sequence[str]) -> Path | None:
    """Move what no commit can hold from a folder to a new one beside sf's repository; the new one."""
    present = [name for name in names if os.path.lexists(folder / name)]
    if not present:
        return None
    place = owned.aside / f"{folder.name}-{secrets.token_hex(4)}"
    for name in present:
        # In sight, and no two in one place: only a folder's own `.git` comes without its dot.
        target = place / ("git" if name == ".git" else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / name, target)
    return place


async def park_ref(owned: OwnedRepository, ref: str, value: str) -> str:
    """Keep what a ref names under a rescue ref, then delete it; the rescue ref."""
    kept = await park(owned, ref.removeprefix("refs/heads/").removeprefix("refs/"), value)
    await owned.delete_ref(ref, value)
    return kept


async def park_folder(owned: OwnedRepository, folder: Path) -> str | None:
    """Keep the content of a folder that no branch stands for; the ref. Ignored files are not content.

    None for a folder with a repository inside, which a tree cannot hold.
    """
    with brief(owned.git_dir / "worktrees" / f"rescue-{sanitize(folder.name)[:60]}") as index:
        snapshot = Snapshot(owned.git, owned.git_dir, folder, index)
        if await snapshot.nested():
            return None
        tree = await snapshot.take()
        commit = await owned.commit_tree(tree, [], f"Rescued from {folder.name}")
    return await park(owned, folder.name, commit)
