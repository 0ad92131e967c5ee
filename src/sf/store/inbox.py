"""What event loops hand to the writer's thread, which sleeps until somebody rings, and what they get back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from sf.store.bell import Bell

T = TypeVar("T")


class Inbox(Generic[T]):
    """Any thread may put something in and ring; one takes it out."""

    def __init__(self) -> None:
        """Raises OSError when the process has no descriptors left."""
        self._items: deque[T] = deque()
        self._is_asleep = self._is_over = False
        self._bell = Bell()

    def put(self, item: T) -> None:
        """Hand something over: taken at once by one that is awake, else when somebody rings."""
        self._items.append(item)

    def ring(self) -> None:
        """Wake the one who waits, if there is anything to wake for and nobody else did."""
        if self._is_asleep and (self._items or self._is_over):
            self._is_asleep = False
            self._bell.ring()

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
                self._bell.wait()
        self._is_asleep = False
        return self.take()

    def take(self) -> T | None:
        """The next item, if there is one by now."""
        return self._items.popleft() if self._items else None

    def close(self) -> None:
        """Give the bell back; nobody may wait any more."""
        self._bell.close()


class Outbox(Generic[T]):
    """What one event loop gets from other threads: it calls `deliver` with each item, in their order.

    What comes after the loop's end is nobody's any more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[T], None]) -> None:
        """Raises OSError when the process has no descriptors left."""
        self.loop = loop
        self._deliver = deliver
        self._items: deque[T] = deque()
        self._bell = Bell()
        loop.add_reader(self._bell, self._heard)

    def put(self, item: T) -> None:
        """Hand something over; quicker than the loop's own way, which looks for a second byte every time."""
        self._items.append(item)
        self._bell.ring()

    def _heard(self) -> None:
        self._bell.wait()
        self._deliver_all()

    def _deliver_all(self) -> None:
        while self._items:
            self._deliver(self._items.popleft())

    def close(self) -> None:
        """Deliver what is there and take it away from its loop, whichever thread this is."""
        if self.loop.is_closed():
            self._bell.close()
        elif self.loop.is_running() and not _runs_here(self.loop):
            self.loop.call_soon_threadsafe(self._leave)
        else:
            self._leave()

    def _leave(self) -> None:
        self.loop.remove_reader(self._bell)
        self._bell.close()
        self._deliver_all()


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
