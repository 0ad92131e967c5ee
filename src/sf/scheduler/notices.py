"""The doorbell of a store on a server: commands anywhere notify in their transaction, and the loop is woken.

The connection that listens also holds a seat at the store, so that nobody moves the rows away meanwhile.
Errors of the connection are not the loop's: it also looks by itself on every tick.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from sf.errors import ProjectLocked
from sf.store.connection import engine_of, writing
from sf.store.place import Place, Url
from sf.store.server import Listening, unusable

_AGAIN = 1.0


@contextlib.contextmanager
def seat(place: Place) -> Iterator[None]:
    """Have a store on a server alone: no autopilot starts meanwhile. Raises ProjectLocked when one runs."""
    if isinstance(place, Path):
        yield
        return
    # Before the seat is this line's: an upgrade needs it for itself.
    writing(engine_of(place)).close()
    line = _seated(place, alone=True)
    try:
        yield
    finally:
        line.close()


def _seated(url: Url, *, alone: bool) -> Listening:
    try:
        line, taken = _sat_down(url, alone=alone)
    except psycopg.Error as error:
        raise unusable(url, "listen to", error) from error
    if not taken:
        line.close()
        raise ProjectLocked(
            f"another sf works from {url}", hint="sf status shows what runs; sf pause stops it cleanly"
        )
    return line


def _sat_down(url: Url, *, alone: bool) -> tuple[Listening, bool]:
    """A new line, and whether it has a seat. Raises psycopg.Error."""
    line = Listening(url)
    try:
        return line, line.take_seat(alone=alone)
    except psycopg.Error:
        line.close()
        raise


class Notices:
    """Listens on the running event loop. Raises ProjectLocked while someone has the store alone.

    `on_evicted` is called when the connection was lost and someone took the store for itself meanwhile.
    """

    def __init__(self, url: Url, on_ring: Callable[[], None], on_evicted: Callable[[], None]) -> None:
        self._url = url
        self._on_ring = on_ring
        self._on_evicted = on_evicted
        self._loop = asyncio.get_running_loop()
        self._mending: asyncio.Task[None] | None = None
        self._line = _seated(url, alone=False)
        self._fd = -1
        self._listen()

    def _listen(self) -> None:
        self._fd = self._line.fileno()
        self._loop.add_reader(self._fd, self._drain)

    def _stop_listening(self) -> None:
        # Before the socket is closed: its number may be another's at once.
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
        self._fd = -1
        self._line.close()

    def _drain(self) -> None:
        try:
            rung = self._line.drain()
        except psycopg.Error:
            self._stop_listening()
            self._mending = self._loop.create_task(self._mend())
            return
        if rung:
            self._on_ring()

    async def _mend(self) -> None:
        while True:
            if await self._mended():
                return
            await asyncio.sleep(_AGAIN)

    async def _mended(self) -> bool:
        """Whether there is a line again that can be listened to, or nobody to listen for any more."""
        try:
            self._line, taken = await asyncio.to_thread(_sat_down, self._url, alone=False)
            if taken:
                self._listen()
        except psycopg.Error:
            self._line.close()
            return False
        (self._on_ring if taken else self._on_evicted)()
        return True

    async def aclose(self) -> None:
        """Stop listening and give the seat up."""
        if self._mending is not None:
            self._mending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._mending
        # A server notices that a line was closed only after a while.
        self._line.leave_seat()
        self._stop_listening()
