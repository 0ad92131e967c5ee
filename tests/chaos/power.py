"""What a power cut takes: files that nobody synced are there afterwards, and are empty."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePath

from tests.chaos.tracer import Boundary

WRITES = ("write", "pwrite64", "writev", "ftruncate", "sendfile")
_SYNCS = ("fsync", "fdatasync")
_TOGETHER = "tmp_objdir-bulk-fsync-"
"""The folder in which git gathers the objects of one command, and syncs them at once."""
_FRESH = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{12}\.new|(?P<locked>.+)\.lock")
"""How a file is called that is written beside its place and then renamed."""
_OWN_GUARANTEE = ("sf.db", "sf.db-wal", "sf.db-shm")


def unsynced(boundaries: Sequence[Boundary]) -> set[str]:
    """The files that were written to and not synced after it, by the names that they have at the end."""
    dirty: set[str] = set()
    for met in boundaries:
        if met.call in WRITES:
            dirty.add(met.place)
        elif met.call == "rename" and (aim := _aim(met.place)):
            # What was there before is gone, whether it was synced or not.
            dirty = dirty - {met.place, aim} | ({aim} if met.place in dirty else set())
        elif met.call in _SYNCS:
            dirty.discard(met.place)
            if _TOGETHER in met.place:
                gathered = str(PurePath(met.place).parent)
                dirty = {place for place in dirty if not place.startswith(gathered)}
    return dirty


def cut(place: Path, boundaries: Sequence[Boundary]) -> list[Path]:
    """Empty what would be empty had the power gone; which files. The database sees to itself."""
    files = sorted(place / name.lstrip("/") for name in unsynced(boundaries))
    found = [
        file for file in files if file.is_file() and not file.is_symlink() and file.name not in _OWN_GUARANTEE
    ]
    for file in found:
        # In place, as a link to it elsewhere is the same file.
        with file.open("r+b") as emptied:
            emptied.truncate(0)
    return found


def _aim(written: str) -> str:
    """What a file is renamed to that was written beside its place; nothing for any other."""
    renamed = _FRESH.fullmatch(PurePath(written).name)
    return str(PurePath(written).with_name(renamed["name"] or renamed["locked"])) if renamed else ""
