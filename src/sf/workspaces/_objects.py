"""The user's objects, brought into a store of sf's own by hard links, so that no `gc` takes them away."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from sf import files
from sf.errors import WorkspaceFailed
from sf.workspaces._layout import read_small

_PASSES = 5
_FAN_OUT = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}")
_PACK = re.compile(r"pack-[0-9a-f]{40}\.(pack|idx|rev)")


def adopt(source: Path, target: Path) -> None:
    """Link (or copy, across filesystems) every object below `source` and its alternates into `target`."""
    (target / "pack").mkdir(parents=True, exist_ok=True)
    (target / "info").mkdir(exist_ok=True)
    for store in _stores(source):
        for _ in range(_PASSES):
            if _adopt_once(store, target):
                break
        else:
            raise WorkspaceFailed(f"the objects in {store} kept changing while they were linked")


def _stores(source: Path) -> list[Path]:
    found: list[Path] = []
    waiting = [source]
    while waiting and len(found) < 32:
        store = waiting.pop(0)
        if store in found or not store.is_dir():
            continue
        found.append(store)
        lines = read_small(store / "info" / "alternates").splitlines()
        waiting += [(store / line.strip()).resolve() for line in lines if line and not line.startswith("#")]
    return found


def _adopt_once(source: Path, target: Path) -> bool:
    """Link what is there now; False when something vanished meanwhile, as a repack makes it."""
    whole = True
    for file, folder in _files(source):
        place = target / folder / file.name
        if place.exists():
            continue
        place.parent.mkdir(exist_ok=True)
        try:
            _link(file, place)
        except FileNotFoundError:
            whole = False
    return whole


def _files(source: Path) -> Iterator[tuple[Path, str]]:
    for folder in sorted(source.iterdir()):
        if not _FAN_OUT.fullmatch(folder.name):
            continue
        for file in _listing(folder):
            if _LOOSE.fullmatch(file.name):
                yield file, folder.name
    # An index without its pack is an error to git, so the packs come first.
    packs = [file for file in _listing(source / "pack") if _PACK.fullmatch(file.name)]
    for file in sorted(packs, key=lambda file: (file.suffix != ".pack", file.name)):
        yield file, "pack"


def _listing(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _link(file: Path, place: Path) -> None:
    try:
        os.link(file, place, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except FileExistsError:
        return
    except OSError:
        temporary = place.with_name(f"tmp_obj_{secrets.token_hex(6)}")
        shutil.copyfile(file, temporary)
        temporary.chmod(0o444)
        # A link has the bytes that the user's git wrote; a copy that a power cut empties stays so.
        files.sync_path(temporary)
        temporary.replace(place)
