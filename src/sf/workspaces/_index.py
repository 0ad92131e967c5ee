"""A worktree's private index: it only says what the folder was when it was last looked at."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sf import files
from sf.containment import sanitize
from sf.workspaces._index_file import brief
from sf.workspaces._layout import read_small
from sf.workspaces._transfer import present
from sf.workspaces.owned import OwnedRepository

_LAID_OUT = ".laid-out"


def place(owned: OwnedRepository, folder: Path) -> Path:
    """Where the index of a folder lies, in sf's own repository."""
    digest = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return owned.git_dir / "worktrees" / f"{sanitize(folder.name)[:60]}-{digest}.index"


def every(owned: OwnedRepository) -> list[Path]:
    """The indexes of all folders."""
    return sorted((owned.git_dir / "worktrees").glob("*.index"))


def lay_out(index: Path, tree: str, head: str) -> None:
    """Note that the folder is about to become a tree, and where its branch is; this outlives the index."""
    files.put(index.with_suffix(_LAID_OUT), f"{tree} {head}", sync=True)


async def laid_out(owned: OwnedRepository, index: Path, head: str | None = None) -> str | None:
    """What was laid out in the folder last, if sf still has it; with `head`, only since its branch is there.

    What was committed since then says itself what has become of it.
    """
    tree, _, at = read_small(index.with_suffix(_LAID_OUT)).partition(" ")
    if not tree or head not in (None, at):
        return None
    return tree if await present(owned.git, owned.git_dir, [tree]) else None


async def make_anew(owned: OwnedRepository, index: Path, head: str) -> None:
    """Make an index that is gone or damaged anew, for the next snapshot to bring to what the folder has.

    It names every file of the branch and of what was laid out on it: one that is ignored is known by its name
    alone, and would be missing from whatever is committed next.
    """
    git, git_dir = owned.git, owned.git_dir
    with brief(index.with_name(f"{index.name}.fresh")) as fresh:
        await git.run("read-tree", head, git_dir=git_dir, index=fresh)
        tree = await laid_out(owned, index, head)
        if tree is not None:
            entries = (await git.run("ls-tree", "-r", "-z", tree, git_dir=git_dir)).stdout
            command = ("update-index", "--replace", "-z", "--index-info")
            await git.run(*command, git_dir=git_dir, index=fresh, stdin=entries)
        fresh.replace(index)


def remove(index: Path) -> None:
    """Remove an index, and what is noted beside it."""
    index.unlink(missing_ok=True)
    index.with_suffix(_LAID_OUT).unlink(missing_ok=True)
