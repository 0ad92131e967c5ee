"""Where the history ends in sf's own repository: git's `shallow` file, kept after the user's."""

from __future__ import annotations

import asyncio
import re
import secrets
from functools import partial
from pathlib import Path

from sf import files
from sf.errors import WorkspaceFailed
from sf.workspaces import _objects
from sf.workspaces.git import Git

_FILE = "shallow"
_FOLLOWED = "sf-shallow"
"""Holds the user's file as it was when this repository was last found whole under it."""
_UNDER_WAY = frozenset({"0" * 40})
"""Stands there while the objects of a repository with a hole are being brought over."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONG = 600.0


def begin(user_common: Path, target: Path) -> None:
    """Give a repository that is being made the user's grafts, before the objects come."""
    # The objects that are linked later can only be more than these grafts need.
    grafts = _read(user_common / _FILE) or frozenset()
    _write(target, grafts)
    _settle(target, grafts)


async def follow(git: Git, user_common: Path, target: Path) -> None:
    """Take over the user's grafts; one that was lifted goes only once the history behind it is here."""
    wanted = _read(user_common / _FILE) or frozenset()
    held = _read(target / _FILE) or frozenset()
    followed = _read(target / _FOLLOWED)
    lifted = held - wanted
    if followed == wanted and wanted <= held:
        return
    if lifted or followed is None or followed == _UNDER_WAY:
        try:
            lifted = await _lift(git, user_common, target, wanted, lifted)
        except (OSError, WorkspaceFailed):
            # What could not be done now is tried again at the next opening.
            _write(target, wanted | held)
            return
    _write(target, wanted | lifted)
    _settle(target, wanted)


async def _lift(
    git: Git, user_common: Path, target: Path, wanted: frozenset[str], lifted: frozenset[str]
) -> frozenset[str]:
    """Bring over what lies behind the grafts that were lifted; those without which history has a hole."""
    whole = partial(_is_whole, git, target, wanted)
    if not lifted:
        if _read(target / _FOLLOWED) is None and await whole("--all"):
            return lifted
        # Cut off, it is not to be taken for whole: commits may have come without their files.
        _settle(target, _UNDER_WAY)
    await asyncio.to_thread(_objects.adopt, user_common / "objects", target / "objects")
    if await whole("--all"):
        return frozenset()
    if not lifted:
        raise WorkspaceFailed("history is missing, from the user's repository too")
    return frozenset([name for name in lifted if not await whole(name)])


async def _is_whole(git: Git, target: Path, grafts: frozenset[str], wanted: str) -> bool:
    """Whether every commit that `wanted` reaches is here when the history ends at `grafts`."""
    file = target / f".{_FILE}.{secrets.token_hex(6)}"
    try:
        file.write_bytes(_text(grafts))
        # An empty name is git's word for a history that ends nowhere.
        output = await git.run(
            *("--shallow-file", str(file) if grafts else "", "rev-list", "--quiet", wanted),
            git_dir=target,
            ok=(0, 1, 128),
            timeout=_LONG,
        )
    finally:
        file.unlink(missing_ok=True)
    return output.code == 0


def _read(path: Path) -> frozenset[str] | None:
    try:
        return frozenset(_COMMIT.findall(path.read_text(encoding="ascii", errors="replace")))
    except FileNotFoundError:
        return None


def _text(grafts: frozenset[str]) -> bytes:
    return "".join(f"{name}\n" for name in sorted(grafts)).encode()


def _write(target: Path, grafts: frozenset[str]) -> None:
    if grafts:
        files.put(target / _FILE, _text(grafts), sync=True)
    else:
        (target / _FILE).unlink(missing_ok=True)


def _settle(target: Path, followed: frozenset[str]) -> None:
    files.put(target / _FOLLOWED, _text(followed))
