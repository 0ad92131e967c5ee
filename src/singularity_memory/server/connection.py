"""A connection that must say its request's head in time: uvicorn alone waits for ever."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def connections_with(head_seconds: float) -> type[H11Protocol]:
    """The protocol for connections that have this long for each head."""

    class TimedConnection(H11Protocol):
        """Closes when a head takes too long, from its first byte or from the connection's beginning."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begin to wait for the first head."""
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            """Stop waiting when the head is whole; begin with the first byte of another."""
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self._timer is None:
                self._wait()

        def on_response_complete(self) -> None:
            """Between two requests uvicorn's own limit for idle connections counts."""
            self._stop()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the timer with the connection."""
            self._stop()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._timer = self.loop.call_later(head_seconds, self._give_up)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            self.transport.abort()

    return TimedConnection
