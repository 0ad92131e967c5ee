"""What was committed with the `.git` in a worktree's folder, brought over before that `.git` is thrown away.

An agent writes there as it likes: it is read as files, and git sees its objects through a directory of
sf's own.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from sf.workspaces import rescue
from sf.workspaces._transfer import present, transfer
from sf.workspaces.owned import OwnedRepository

_ID = re.compile(r"[0-9a-f]{40}")
_MOST = 200
_LONGEST = 1 << 20
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


async def bring_over(owned: OwnedRepository, folder: Path, branch: str) -> list[str]:
    """Park every commit that only the folder's own git has a name for, the branch's aside; the rescue refs.

    What is on the branch is in the folder too, and is kept as its tree. Raises GitFailed for objects that
    are not whole.
    """
    inner = folder / ".git"
    found = list(dict.fromkeys(_named(inner, branch)))[:_MOST]
    known = set(await present(owned.git, owned.git_dir, found))
    kept = []
    missing = [name for name in found if name not in known]
    if not missing:
        return []
    seen = folder.parent / f".{folder.name}.inner-{secrets.token_hex(6)}"
    try:
        _show(inner, seen, owned)
        for name in await present(owned.git, seen, missing):
            reached = (await owned.refs("refs/")).values()
            await transfer(owned.git, seen, owned.git_dir, name, known=reached)
            kept.append(await rescue.park(owned, branch, name))
    finally:
        shutil.rmtree(seen, ignore_errors=True)
    return kept


def _named(inner: Path, branch: str) -> Iterator[str]:
    """The commits that HEAD, branches, tags and stashes name."""
    if not inner.is_dir() or inner.is_symlink():
        return
    yield from _ids(inner / "HEAD")
    for path in sorted((inner / "refs").rglob("*")):
        if path != inner / "refs" / "heads" / branch:
            yield from _ids(path)
    for line in _text(inner / "packed-refs").splitlines():
        name, _, ref = line.partition(" ")
        if _ID.fullmatch(name) and ref != f"refs/heads/{branch}":
            yield name
    for line in _text(inner / "logs" / "refs" / "stash").splitlines():
        yield from (word for word in line.split(" ")[1:2] if _ID.fullmatch(word))


def _ids(path: Path) -> list[str]:
    text = _text(path).strip()
    return [text] if _ID.fullmatch(text) else []


def _text(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(_LONGEST).decode("ascii", "replace")


def _show(inner: Path, seen: Path, owned: OwnedRepository) -> None:
    """A git directory with the same object files, and no link, setting or alternate of the agent's."""
    for name in ("objects/info", "objects/pack", "refs"):
        (seen / name).mkdir(parents=True)
    (seen / "HEAD").write_text("ref: refs/heads/sf-none\n")
    (seen / "config").write_text(_CONFIG)
    (seen / "objects" / "info" / "alternates").write_text(f"{owned.objects}\n")
    objects = inner / "objects"
    for path in objects.glob("*/*"):
        parts = (objects, path.parent, path)
        if path.parent.name != "info" and path.is_file() and not any(part.is_symlink() for part in parts):
            target = seen / "objects" / path.parent.name / path.name
            target.parent.mkdir(exist_ok=True)
            os.link(path, target, follow_symlinks=False)
