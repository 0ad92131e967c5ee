"""A file that is there whole or not at all, whenever sf is killed."""

from __future__ import annotations

import os
from pathlib import Path


def put(path: Path, content: str | bytes, mode: int | None = None) -> None:
    """Write a file beside its place and move it there by one rename; its folder must exist."""
    # Two processes that write the same file do not write into each other's: the last rename counts.
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    fresh.write_bytes(content.encode() if isinstance(content, str) else content)
    if mode is not None:
        fresh.chmod(mode)
    fresh.replace(path)
