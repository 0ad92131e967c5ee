"""Packing sf's own repository: nothing that a ref or a worktree's index names is ever dropped."""

from __future__ import annotations

from pathlib import Path

from sf.workspaces import _index
from sf.workspaces._index_file import is_whole
from sf.workspaces.owned import OwnedRepository

_GUARDS = "refs/sf/index/"
_LONG = 3600.0


async def loose(owned: OwnedRepository) -> int:
    """The bytes of objects that are not packed yet."""
    output = await owned.git.run("count-objects", "-v", git_dir=owned.git_dir)
    values = dict(line.split(": ", 1) for line in output.text().splitlines())
    return int(values.get("size", "0")) * 1024


async def repack(owned: OwnedRepository, expire: str) -> None:
    """Pack everything that is reachable; what is not and is older than `expire` (git's words) goes.

    Packs that are hard links into the user's repository stay as they are: packed again, they would cost room.
    Only while nobody else writes here.
    """
    guards = await _guard_indexes(owned)
    try:
        shared = [f"--keep-pack={pack.name}" for pack in _packs(owned.objects) if pack.stat().st_nlink > 1]
        await owned.git.run(
            *("repack", "-A", "-d", "-q", f"--unpack-unreachable={expire}", *shared),
            git_dir=owned.git_dir,
            timeout=_LONG,
        )
        await owned.git.run("prune", f"--expire={expire}", git_dir=owned.git_dir, timeout=_LONG)
    finally:
        for name, tree in guards.items():
            await owned.delete_ref(name, tree)


def _packs(objects: Path) -> list[Path]:
    return sorted((objects / "pack").glob("pack-*.pack"))


async def _guard_indexes(owned: OwnedRepository) -> dict[str, str]:
    """Refs to the trees of all private indexes, which git does not know to be in use.

    One that is damaged names nothing: it is made anew from its branch and from what was laid out last.
    """
    for name, tree in (await owned.refs(_GUARDS)).items():
        await owned.delete_ref(name, tree)
    trees: list[str] = []
    for index in _index.every(owned):
        if is_whole(index):
            trees.append((await owned.git.run("write-tree", git_dir=owned.git_dir, index=index)).text())
        if (laid_out := await _index.laid_out(owned, index)) is not None:
            trees.append(laid_out.tree)
    guards = {f"{_GUARDS}{number}": tree for number, tree in enumerate(trees)}
    for name, tree in guards.items():
        await owned.set_ref(name, tree)
    return guards
