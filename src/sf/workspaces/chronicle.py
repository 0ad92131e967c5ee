"""The newest commits of the user's history with the names they changed, read within limits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from sf.domain.past import PastCommit
from sf.errors import GitFailed
from sf.workspaces.git import Git
from sf.workspaces.repository import UserRepository

_SECONDS = 20.0
_FEWER = 20
_MOST_OUTPUT = 128 << 20
# No field and no name is empty, so two zero bytes in a row are the beginning of a commit and nothing else.
_FORMAT = "--format=%x00%x00a%an%x00t%ct%x00s%s"
_BEGINNING = re.compile(rb"\0\0+a")


async def newest(user: UserRepository, git: Git, most: int) -> tuple[list[PastCommit], bool]:
    """Return at most this many commits before HEAD, merges left out, newest first; and whether these are all.

    Where that many take too long, or too much room, a twentieth of them must do; more trouble is GitFailed.
    """
    head = (await user.head()).commit
    if head is None:
        return [], True
    shallow = (user.common_dir / "shallow").exists()
    try:
        found = await _log(user, git, head, most)
    except GitFailed:
        most = max(1, most // _FEWER)
        found = await _log(user, git, head, most)
    return found, len(found) < most and not shallow


async def _log(user: UserRepository, git: Git, head: str, most: int) -> list[PastCommit]:
    output = await git.run(
        *("log", "-z", "--no-merges", "--no-renames", "--name-only", "--no-notes", "--no-mailmap"),
        *("--no-show-signature", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
        *(f"--max-count={most}", _FORMAT, head, "--"),
        git_dir=user.git_dir,
        timeout=_SECONDS,
        most=_MOST_OUTPUT,
    )
    return list(_commits(output.stdout))


def _commits(output: bytes) -> Iterator[PastCommit]:
    for record in _BEGINNING.split(output)[1:]:
        author, at, subject, *names = record.rstrip(b"\0").split(b"\0")
        if names:
            names[0] = names[0].removeprefix(b"\n")
        yield PastCommit(
            author=author.decode("utf-8", "replace"),
            at=int(at[1:] or 0),
            subject=subject[1:].decode("utf-8", "replace"),
            paths=tuple(os.fsdecode(name) for name in names),
        )
