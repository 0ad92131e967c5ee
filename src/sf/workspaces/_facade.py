"""A git directory of sf's own that shows the user's repository without its configuration and hooks."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from sf import files
from sf.errors import UnsupportedRepository
from sf.workspaces._layout import Layout, read_small

_CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = false
\tlogallrefupdates = true
"""
_HEAD = re.compile(r"ref: refs/\S+|[0-9a-f]{40}")


def build(layout: Layout, facade: Path) -> None:
    """Make or renew the façade; every link names a place, so a ref or pack made later is seen too."""
    facade.mkdir(parents=True, exist_ok=True)
    (facade / "logs").mkdir(exist_ok=True)
    for name in ("objects", "refs", "packed-refs", "info", "shallow"):
        _link(facade / name, layout.common / name)
    _link(facade / "index", layout.index)
    _link(facade / "logs" / "refs", layout.common / "logs" / "refs")
    _link(facade / "logs" / "HEAD", layout.git_dir / "logs" / "HEAD")
    if read_small(facade / "config") != _CONFIG.strip():
        files.put(facade / "config", _CONFIG)
    copy_head(layout, facade)


def make_logs(layout: Layout) -> None:
    """Make the folders of the user's reflogs, which git would make in the façade instead."""
    (layout.common / "logs" / "refs").mkdir(parents=True, exist_ok=True)
    (layout.git_dir / "logs").mkdir(exist_ok=True)


def copy_head(layout: Layout, facade: Path) -> str:
    """Bring the façade's HEAD to the user's and return its text."""
    text = read_small(layout.git_dir / "HEAD")
    if not _HEAD.fullmatch(text):
        raise UnsupportedRepository(f"{layout.git_dir / 'HEAD'} is not readable as a HEAD")
    if read_small(facade / "HEAD") != text:
        files.put(facade / "HEAD", f"{text}\n".encode())
    return text


def _link(link: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if link.readlink() == target:
            return
        link.unlink()
    try:
        link.symlink_to(target)
    except FileExistsError:
        # Another process opens the same project.
        if link.readlink() != target:
            raise
