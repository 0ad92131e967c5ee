"""A git directory of sf's own that shows the user's repository without its configuration and hooks."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

from sf.errors import UnsupportedRepository
from sf.files import sync_folder
from sf.workspaces._layout import Layout, read_small

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
    if not (facade / "config").exists():
        configure(layout, facade, {})
    copy_head(layout, facade)


def configure(layout: Layout, facade: Path, copied: dict[str, str]) -> None:
    """Write the façade's whole configuration: a fixed part and values from closed sets."""
    values = {"core.logallrefupdates": "true", **copied}
    lines = ["[core]", "\trepositoryformatversion = 0", "\tbare = false"]
    lines += [f"\t{key.removeprefix('core.')} = {value}" for key, value in sorted(values.items())]
    replace_file(facade / "config", "\n".join(lines).encode() + b"\n")
    if values["core.logallrefupdates"] != "false":
        (layout.common / "logs" / "refs").mkdir(parents=True, exist_ok=True)
        (layout.git_dir / "logs").mkdir(exist_ok=True)


def copy_head(layout: Layout, facade: Path) -> str:
    """Bring the façade's HEAD to the user's and return its text."""
    text = read_small(layout.git_dir / "HEAD")
    if not _HEAD.fullmatch(text):
        raise UnsupportedRepository(f"{layout.git_dir / 'HEAD'} is not readable as a HEAD")
    if read_small(facade / "HEAD") != text:
        replace_file(facade / "HEAD", f"{text}\n".encode())
    return text


def replace_file(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Put `content` at `path` whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def _link(link: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if link.readlink() == target:
            return
        link.unlink()
    link.symlink_to(target)
