"""Which lock files this process itself holds: neither the file lock nor a pid in the file can tell.

A lock that is taken keeps out its own process as well, and in containers every sf has the same pid.
"""

from __future__ import annotations

import os

_HELD: set[tuple[int, int]] = set()


def hold(descriptor: int) -> None:
    """Note that the lock on an open file is this process's."""
    _HELD.add(_file(descriptor))


def let_go(descriptor: int) -> None:
    """Note that it is not any more; before the file is closed."""
    _HELD.discard(_file(descriptor))


def is_held(descriptor: int) -> bool:
    """Whether this process has the lock on a file, opened here once more."""
    return _file(descriptor) in _HELD


def _file(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
