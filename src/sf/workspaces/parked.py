"""What sf keeps of work that is on no branch of the user's: rescue refs, and the snapshots of runs."""

from __future__ import annotations

import re

import msgspec

from sf.containment import sanitize
from sf.workspaces.changes import EMPTY_TREE
from sf.workspaces.owned import Commit, FileChange, OwnedRepository

RESCUES = "refs/sf/rescue/"
RUNS = "refs/sf/runs/"
_NUMBER = re.compile(r"-\d+$")


class Parked(msgspec.Struct, frozen=True):
    """One ref: the name after its prefix, the commit it keeps, and where that left the work before it."""

    name: str
    ref: str
    commit: Commit
    base: str | None


def stem(branch: str) -> str:
    """Return how the rescue refs of a branch begin; a number follows."""
    return sanitize(branch).strip(".-")


def stem_of(name: str) -> str:
    """Return the stem of a rescue ref's name."""
    return _NUMBER.sub("", name)


async def names(owned: OwnedRepository, prefix: str) -> list[str]:
    """Return the names of the refs below a prefix."""
    return sorted(ref.removeprefix(prefix) for ref in await owned.refs(prefix))


async def look(owned: OwnedRepository, prefix: str, name: str, onto: str | None) -> Parked | None:
    """Return what a ref keeps, measured from where it left `onto`, else from its parent; None for nothing."""
    tip = await owned.ref(f"{prefix}{name}")
    if tip is None:
        return None
    found = await owned.log(None, tip, limit=1)
    return Parked(name, f"{prefix}{name}", found[0], await _base(owned, tip, onto)) if found else None


async def changes(owned: OwnedRepository, parked: Parked) -> list[FileChange]:
    """Return the files that it changes; all of them when it came from nothing."""
    return await owned.diff_stat(parked.base or EMPTY_TREE, parked.commit.id)


async def commits(owned: OwnedRepository, parked: Parked) -> list[Commit]:
    """Return its commits, newest first."""
    return await owned.log(parked.base, parked.commit.id)


async def _base(owned: OwnedRepository, tip: str, onto: str | None) -> str | None:
    if onto is not None:
        output = await owned.git.run("merge-base", tip, onto, git_dir=owned.git_dir, ok=(0, 1, 128))
        if output.code == 0 and output.text() != tip:
            return output.text()
    parents = await owned.parents(tip)
    return parents[0] if parents else None
