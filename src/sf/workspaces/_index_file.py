"""A git index as a file: whether it is whole, and one that is made for a single use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
    """A place for an index that is used here alone: empty whatever a killed git left, and empty again."""
    index.unlink(missing_ok=True)
    unlock(index)
    try:
        yield index
    finally:
        index.unlink(missing_ok=True)
