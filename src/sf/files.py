"""Files that are there whole or not at all, whenever sf is killed or the power goes."""

from __future__ import annotations

import os
from pathlib import Path


def put(path: Path, content: str | bytes, mode: int | None = None) -> None:
    """Write a file beside its place and move it there by one rename; its folder must exist."""
    # Two that write the same file do not write into each other's: the last rename counts.
    fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    fresh.write_bytes(content.encode() if isinstance(content, str) else content)
    if mode is not None:
        fresh.chmod(mode)
    fresh.replace(path)


def sync_folder(folder: Path) -> None:
    """Make what was created, renamed or removed in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
