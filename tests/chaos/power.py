"""What a power cut takes: content that nobody synced, and names that no journal has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePath

from tests.chaos.ground import Ground
from tests.chaos.tracer import SYNCS, Boundary, is_of_rows

WRITES = ("write", "pwrite64", "writev", "ftruncate", "sendfile")
_TOGETHER = "tmp_objdir-bulk-fsync-"
"""The folder in which git gathers the objects of one command, and syncs them at once."""
_FRESH = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{12}\.new|(?P<locked>.+)\.lock")
"""How a file is called that is written beside its place and then renamed."""
_OWN_GUARANTEE = ("sf.db", "sf.db-wal", "sf.db-shm")
_ELSEWHERE = "told.txt"
"""What a hook told stands for a message to somebody else's machine."""


def unsynced(boundaries: Sequence[Boundary]) -> set[str]:
    """The files that were written to and not synced after it, by the names that they have at the end."""
    dirty: set[str] = set()
    for met in boundaries:
        if met.call in WRITES:
            dirty.add(met.place)
        elif met.call == "rename" and (aim := _aim(met.place)):
            # What was there before is gone, whether it was synced or not.
            dirty = dirty - {met.place, aim} | ({aim} if met.place in dirty else set())
        elif met.call == "syncfs":
            dirty.clear()
        elif met.call in SYNCS:
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


def roll_back(ground: Ground, boundaries: Sequence[Boundary]) -> None:
    """Put every name back to what the journal has, and the rows to what was synced after that."""
    place = ground.place
    stays = {file: file.read_bytes() for name in (*_OWN_GUARANTEE, _ELSEWHERE) for file in place.rglob(name)}
    ground.reset(ground.journal)
    for file, content in stays.items():
        file.write_bytes(content)
    cut(place, boundaries[: _kept_at(boundaries)])


def _kept_at(boundaries: Sequence[Boundary]) -> int:
    """How many calls were carried out when the journal was kept for the last time."""
    kept, is_due = 0, False
    for number, met in enumerate(boundaries):
        if is_due and met.call not in SYNCS:
            kept, is_due = number, False
        is_due = is_due or (met.call in SYNCS and not is_of_rows(met))
    return kept


def _aim(written: str) -> str:
    """What a file is renamed to that was written beside its place; nothing for any other."""
    renamed = _FRESH.fullmatch(PurePath(written).name)
    return str(PurePath(written).with_name(renamed["name"] or renamed["locked"])) if renamed else ""
