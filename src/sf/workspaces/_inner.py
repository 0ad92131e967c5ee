"""What was committed with the `.git` in a worktree's folder, brought over before that `.git` is thrown away.

An agent writes there as it likes: it is read as files, no link is followed, and git sees its objects through
a directory of sf's own.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from sf.errors import WorkspaceFailed
from sf.workspaces import rescue
from sf.workspaces._transfer import present, transfer
from sf.workspaces.owned import OwnedRepository

_ID = re.compile(r"[0-9a-f]{40}")
_MOST = 200
_MOST_FILES = 20_000
_LONGEST = 1 << 20
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


async def bring_over(owned: OwnedRepository, folder: Path, branch: str) -> None:
    """Park every commit that only the folder's own git has a name for.

    The branch's are left out while it is checked out there: their content is in the folder, and is kept as
    its tree. So are those of remotes. Raises GitFailed or WorkspaceFailed for what cannot be brought over.
    """
    missing = await unknown(owned, folder, branch)
    if not missing:
        return
    if len(missing) > _MOST:
        raise WorkspaceFailed(f"{folder / '.git'} names {len(missing)} commits of its own")
    seen = folder.parent / f".{folder.name}.inner-{secrets.token_hex(6)}"
    try:
        await asyncio.to_thread(_show, folder / ".git", seen, owned)
        for name in await _commits(owned, seen, missing):
            if not (await present(owned.git, owned.git_dir, [name]) and await rescue.holds(owned, name)):
                reached = (await owned.refs("refs/")).values()
                await transfer(owned.git, seen, owned.git_dir, name, known=reached)
                await rescue.park(owned, branch, name)
    finally:
        await asyncio.to_thread(shutil.rmtree, seen, ignore_errors=True)


async def unknown(owned: OwnedRepository, folder: Path, branch: str = "") -> list[str]:
    """Return what the folder's own git names and sf's lacks; not the branch's while it is checked out there.

    Raises WorkspaceFailed and OSError.
    """
    found = await asyncio.to_thread(lambda: list(dict.fromkeys(_named(folder / ".git", branch))))
    known = set(await present(owned.git, owned.git_dir, found))
    return [name for name in found if name not in known]


async def _commits(owned: OwnedRepository, seen: Path, names: list[str]) -> list[str]:
    """The commits that objects stand for; what is not there at all is nobody's work."""
    stdin = "".join(f"{name}^{{}}\n" for name in names).encode()
    wanted = ("cat-file", "--batch-check=%(objectname) %(objecttype)")
    output = await owned.git.run(*wanted, git_dir=seen, stdin=stdin)
    pairs = [line.split(" ") for line in output.text().splitlines() if not line.endswith(" missing")]
    if any(kind != "commit" for _, kind in pairs):
        raise WorkspaceFailed("a tag names something that is no commit")
    return list(dict.fromkeys(name for name, _ in pairs))


def _named(inner: Path, branch: str) -> Iterator[str]:
    """The commits that HEAD, stashes, branches and tags name; the dearest first."""
    if not inner.is_dir() or inner.is_symlink():
        return
    head = _text(inner / "HEAD").strip()
    yield from _ids(head)
    for linked in _files(inner / "worktrees"):
        if linked.name == "HEAD":
            yield from _ids(_text(linked).strip())
    for line in _text(inner / "logs" / "refs" / "stash").splitlines():
        yield from (word for word in line.split(" ")[1:2] if _ID.fullmatch(word))
    own = f"refs/heads/{branch}"
    for name, value in _refs(inner):
        checked_out = name == own and head == f"ref: {own}"
        if not checked_out and not name.startswith("refs/remotes/"):
            yield value


def _refs(inner: Path) -> Iterator[tuple[str, str]]:
    for path in _files(inner / "refs"):
        yield from ((path.relative_to(inner).as_posix(), value) for value in _ids(_text(path).strip()))
    for line in _text(inner / "packed-refs").splitlines():
        value, _, name = line.partition(" ")
        if _ID.fullmatch(value):
            yield name, value


def _files(top: Path) -> Iterator[Path]:
    """The files below a folder, without following a link and without recursion: it may be very deep."""
    waiting, met = [top], 0
    while waiting:
        folder = waiting.pop()
        if folder.is_symlink() or not folder.is_dir():
            continue
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            met += 1
            if met > _MOST_FILES:
                raise WorkspaceFailed(f"{top} holds more than {_MOST_FILES} files")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _ids(text: str) -> list[str]:
    return [text] if _ID.fullmatch(text) else []


def _text(path: Path) -> str:
    if any(part.is_symlink() for part in (path, path.parent, path.parent.parent)) or not path.is_file():
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
    for path in _files(inner / "objects"):
        parts = path.relative_to(inner / "objects").parts
        if len(parts) == 2 and parts[0] != "info":
            (seen / "objects" / parts[0]).mkdir(exist_ok=True)
            os.link(path, seen / "objects" / parts[0] / parts[1], follow_symlinks=False)
