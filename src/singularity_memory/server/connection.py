"""A connection with patience for a request's head and for the reading of answers: uvicorn waits for ever."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

_LOG = logging.getLogger("singularity_memory")


class PatientConnection(H11Protocol):
    """Closes when a head takes too long, from its first byte or from the connection's beginning."""

    head_seconds: ClassVar[float]
    answer_seconds: ClassVar[float]
    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Stop waiting when the head is whole; begin with the first byte of another."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_head()
        elif self._head is None:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        """Between two requests uvicorn's own limit for idle connections counts."""
        self._stop_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """More is written than the client has read: it has a while to catch up."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.answer_seconds, self._give_up_reader)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._stop_unread()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers with the connection."""
        self._stop_head()
        self._stop_unread()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head = self.loop.call_later(self.head_seconds, self.transport.abort)

    def _give_up_reader(self) -> None:
        _LOG.warning("a client did not read its answer in time")
        self.transport.abort()

    def _stop_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def connections_with(head_seconds: float, answer_seconds: float) -> type[PatientConnection]:
    """The protocol for connections that have this long for each head, and to read what was answered."""
    limits = {"head_seconds": head_seconds, "answer_seconds": answer_seconds}
    return type("LimitedConnection", (PatientConnection,), limits)
