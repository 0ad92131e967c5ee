"""What event loops hand to the writer's thread, which sleeps until somebody rings.

It is woken through a pipe: the system lets who is woken by a byte go on where its sender leaves off, on the
same processor, while one that is woken by a lock begins on another and has everything brought there first.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Any thread may put something in and ring; one takes it out."""

    def __init__(self) -> None:
        """Raises OSError when the process has no descriptors left."""
        self._items: deque[T] = deque()
        self._is_asleep = self._is_over = False
        bell, rope = os.pipe()
        # As files: closed twice, or rung when closed, they do not touch who has their numbers by then.
        self._bell, self._rope = os.fdopen(bell, "rb", buffering=0), os.fdopen(rope, "wb", buffering=0)

    def put(self, item: T) -> None:
        """Hand something over: taken at once by one that is awake, else when somebody rings."""
        self._items.append(item)

    def ring(self) -> None:
        """Wake the one who waits, if there is anything to wake for and nobody else did."""
        if self._is_asleep and (self._items or self._is_over):
            self._is_asleep = False
            self._rope.write(b"\0")

    def end(self) -> None:
        """Nothing more comes."""
        self._is_over = True
        self.ring()

    def wait(self) -> T | None:
        """The next item, once there is one; None when everything is taken and nothing more comes."""
        while not self._items and not self._is_over:
            self._is_asleep = True
            # Looked at again: who put it in just before may have found nobody asleep. A byte that is left in
            # the pipe then only has this look once more.
            if not self._items and not self._is_over:
                self._bell.read(64)
        self._is_asleep = False
        return self.take()

    def take(self) -> T | None:
        """The next item, if there is one by now."""
        return self._items.popleft() if self._items else None

    def close(self) -> None:
        """Give the pipe back; nobody may wait any more."""
        self._bell.close()
        self._rope.close()
