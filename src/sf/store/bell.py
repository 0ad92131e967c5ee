"""A byte in a pipe wakes who waits for it.

The system lets who is woken so go on where its sender leaves off, on the same processor, while one that is
woken by a lock begins on another and has everything brought there first.
"""

from __future__ import annotations

import os


class Bell:
    """Rung by any thread, heard by one."""

    def __init__(self) -> None:
        """Raises OSError when the process has no descriptors left."""
        bell, rope = os.pipe()
        # As files: closed twice, or rung when closed, they do not touch who has their numbers by then.
        self._bell, self._rope = os.fdopen(bell, "rb", buffering=0), os.fdopen(rope, "wb", buffering=0)

    def fileno(self) -> int:
        """What can be read from once it was rung, for an event loop."""
        return self._bell.fileno()

    def ring(self) -> None:
        """Wake who waits, or let it not sleep the next time."""
        self._rope.write(b"\0")

    def wait(self) -> None:
        """Sleep until it is rung, unless it was since the last time."""
        self._bell.read(64)

    def close(self) -> None:
        """Give the pipe back; nobody may wait any more."""
        self._bell.close()
        self._rope.close()

    def __del__(self) -> None:
        # Whoever rings it holds it: with nobody left it is nobody's, and no thread is in the middle of it.
        if hasattr(self, "_rope"):
            self.close()
