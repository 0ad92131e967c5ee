"""Keeping under `refs/sf/rescue/` what would otherwise be under no name at all."""

from __future__ import annotations

from pathlib import Path

from sf.containment import sanitize
from sf.errors import WorkspaceFailed
from sf.workspaces import parked
from sf.workspaces._snapshot import Snapshot
from sf.workspaces.owned import OwnedRepository


async def park(owned: OwnedRepository, name: str, commit: str) -> str:
    """Keep a commit under a rescue ref of its own; the ref."""
    prefix = f"{parked.RESCUES}{parked.stem(name)}-"
    taken = await owned.refs(parked.RESCUES)
    number = 1
    while f"{prefix}{number}" in taken:
        number += 1
    await owned.set_ref(f"{prefix}{number}", commit, None)
    return f"{prefix}{number}"


async def park_ref(owned: OwnedRepository, ref: str, value: str) -> str:
    """Keep what a ref names under a rescue ref, then delete it; the rescue ref."""
    kept = await park(owned, ref.removeprefix("refs/heads/").removeprefix("refs/"), value)
    await owned.delete_ref(ref, value)
    return kept


async def park_folder(owned: OwnedRepository, folder: Path) -> str:
    """Keep the content of a folder that no branch stands for; the ref. Ignored files are not content.

    Raises WorkspaceFailed for a folder with a repository inside, which a tree cannot hold.
    """
    index = owned.git_dir / "worktrees" / f"rescue-{sanitize(folder.name)[:60]}.index"
    index.unlink(missing_ok=True)
    snapshot = Snapshot(owned.git, owned.git_dir, folder, index)
    try:
        nested = await snapshot.nested()
        if nested:
            raise WorkspaceFailed(f"{folder} has a repository inside: {nested[0]}")
        tree = await snapshot.take()
        commit = await owned.commit_tree(tree, [], f"Rescued from {folder.name}")
    finally:
        index.unlink(missing_ok=True)
    return await park(owned, folder.name, commit)
