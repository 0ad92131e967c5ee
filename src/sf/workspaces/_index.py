"""A worktree's private index: it only says what the folder was when it was last looked at."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from sf import files
from sf.containment import sanitize
from sf.workspaces._index_file import brief
from sf.workspaces._layout import read_small
from sf.workspaces._transfer import present
from sf.workspaces.owned import OwnedRepository

_LAID_OUT = ".laid-out"
_DONE = "done"


def place(owned: OwnedRepository, folder: Path) -> Path:
    """Where the index of a folder lies, in sf's own repository."""
    digest = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return owned.git_dir / "worktrees" / f"{sanitize(folder.name)[:60]}-{digest}.index"


def every(owned: OwnedRepository) -> list[Path]:
    """The indexes of all folders; of those too that are lost, and of which something is noted."""
    found = [
        *(owned.git_dir / "worktrees").glob("*.index"),
        *(owned.git_dir / "worktrees").glob(f"*{_LAID_OUT}"),
    ]
    return sorted({path.with_suffix(".index") for path in found})


class Layout(msgspec.Struct, frozen=True):
    """A tree that a folder was to become, and where its branch was then."""

    tree: str
    head: str
    is_done: bool
    """Whether it has become that; before, it may still be something between that and what it was."""


def lay_out(index: Path, layout: Layout) -> None:
    """Note what the folder is about to become, or has become; this outlives the index."""
    words = [layout.tree, layout.head, *([_DONE] if layout.is_done else [])]
    files.put(index.with_suffix(_LAID_OUT), " ".join(words), sync=True)


async def laid_out(owned: OwnedRepository, index: Path) -> Layout | None:
    """What was laid out in the folder last, if sf still has it."""
    noted = read_small(index.with_suffix(_LAID_OUT)).split()
    if len(noted) < 2 or not await present(owned.git, owned.git_dir, noted[:1]):
        return None
    return Layout(noted[0], noted[1], noted[2:] == [_DONE])


async def make_anew(owned: OwnedRepository, index: Path, head: str) -> None:
    """Make an index that is gone or damaged anew, for the next snapshot to bring to what the folder has.

    It names every file of what the folder was last: one that is ignored is known by its name alone, and would
    be missing from whatever is committed next. Where a layout was cut off, all of it and of the branch.
    """
    git, git_dir = owned.git, owned.git_dir
    layout = await laid_out(owned, index)
    if layout is not None and layout.head != head:
        # What was committed since then says itself what has become of it.
        layout = None
    with brief(index) as fresh:
        base = layout.tree if layout is not None and layout.is_done else head
        await git.run("read-tree", base, git_dir=git_dir, index=fresh)
        if layout is not None and not layout.is_done:
            entries = (await git.run("ls-tree", "-r", "-z", layout.tree, git_dir=git_dir)).stdout
            command = ("update-index", "--replace", "-z", "--index-info")
            await git.run(*command, git_dir=git_dir, index=fresh, stdin=entries)
        fresh.replace(index)


def remove(index: Path) -> None:
    """Remove an index, and what is noted beside it."""
    index.with_suffix(_LAID_OUT).unlink(missing_ok=True)
    # Last: by the index it is known that there is something left to remove.
    index.unlink(missing_ok=True)
