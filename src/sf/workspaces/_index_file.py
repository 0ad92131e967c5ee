"""A git index as a file: whether it is whole, and one that is made for a single use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BRIEF = ".brief"
"""The ending of an index that is made for a single use: one that is left is a killed process's."""


def is_whole(index: Path) -> bool:
    """Return whether an index is what git wrote, by the checksum at its end."""
    try:
        content = index.read_bytes()
    except FileNotFoundError:
        return False
    return content[:4] == b"DIRC" and hashlib.sha1(content[:-20]).digest() == content[-20:]


def unlock(index: Path) -> None:
    """Remove the lock of a git process that was killed; only whoever uses the index alone can tell."""
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)


@contextmanager
def brief(index: Path) -> Iterator[Path]:
    """A place beside `index` for one that is used here alone: empty whatever was left, and empty again."""
    used = index.with_name(f"{index.name}{BRIEF}")
    used.unlink(missing_ok=True)
    unlock(used)
    try:
        yield used
    finally:
        used.unlink(missing_ok=True)
