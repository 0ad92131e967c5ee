"""Files that are there whole or not at all, whenever sf is killed."""

from __future__ import annotations

import os
from pathlib import Path


def put(path: Path, content: str | bytes, mode: int | None = None, *, sync: bool = False) -> None:
    """Write a file beside its place and move it there by one rename; its folder must exist.

    With `sync` it is so also when the power goes, and is on the disk when this returns.
    """
    # Two that write the same file do not write into each other's: the last rename counts.
    fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    try:
        with fresh.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if mode is not None:
            fresh.chmod(mode)
        fresh.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            # A write that the disk refuses does not say where.
            error.filename = str(path)
        fresh.unlink(missing_ok=True)
        raise
    if sync:
        sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Make a file's content durable, or what was created, renamed or removed in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
