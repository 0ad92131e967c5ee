"""What the user has git ignore in all repositories: their own ignore file, found as git finds it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from sf.workspaces import _everywhere
from sf.workspaces.git import Git

_MOST = 1 << 20
_MARK = b"\xef\xbb\xbf"
_KEY = "core.excludesfile"


async def patterns(
    git: Git, facade: Path, root: Path, named: str | None, environ: Mapping[str, str]
) -> bytes:
    """Return the patterns of the file that the repository's configuration has `named`, or the user's own."""
    path = await _everywhere.file(git, facade, _KEY, "ignore", root, named, environ)
    # As for git: one that cannot be read ignores nothing.
    with contextlib.suppress(OSError):
        return read(path)
    return b""


def read(path: Path) -> bytes:
    """Return the lines of an ignore file, at most a MiB of them; empty when there is none. Raises OSError."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            text = file.read(_MOST + 1).removeprefix(_MARK)
    except FileNotFoundError:
        return b""
    if len(text) > _MOST:
        text = text[: text.rfind(b"\n") + 1]
    return text if not text or text.endswith(b"\n") else text + b"\n"
