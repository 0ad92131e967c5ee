"""Renewal: a thread that embeds what has no vectors by the present model, until everything has."""

from __future__ import annotations

import threading
from collections.abc import Callable

from singularity_memory.errors import MemoryFault

_PAUSE = 0.05
"""Between portions, so that calls get their turn."""
_PATIENCE = 30.0
"""After a failure."""


class Renewal:
    """Works when it is asked to; `renew` does a portion and says whether there was anything to do."""

    def __init__(self, renew: Callable[[], int]) -> None:
        self._renew = renew
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def want(self) -> None:
        """Have it look for work."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="memory-renewal", daemon=True)
            self._thread.start()
        self._wanted.set()

    def close(self) -> None:
        """End it after the portion that it is at."""
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            self._wanted.wait()
            if self._closed.is_set():
                return
            self._wanted.clear()
            self._until_done()

    def _until_done(self) -> None:
        pause = _PAUSE
        while not self._closed.wait(pause):
            try:
                if not self._renew():
                    return
                pause = _PAUSE
            except MemoryFault:
                pause = _PATIENCE
