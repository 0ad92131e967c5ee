"""The end of an autopilot: those who hear of it are waited for, unless somebody does not want to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol


class Listener(Protocol):
    """One who does what is left to do when it is closed, within bounds of its own."""

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Do it, and end."""


class Farewell:
    """Closes listeners one after the other."""

    def __init__(self) -> None:
        self._closing: asyncio.Task[None] | None = None
        self.is_cut_short = False

    def cut_short(self) -> None:
        """Wait no longer for the listener whose turn it is; before the first turn this does nothing."""
        if self._closing is not None:
            self.is_cut_short = True
            # Not before it has begun: one that is cancelled earlier could not even say what was left.
            asyncio.get_running_loop().call_soon(self._closing.cancel)

    async def bid(self, *listeners: Listener) -> None:
        """Close everyone in turn."""
        for listener in listeners:
            self._closing = asyncio.create_task(listener.aclose(), name="farewell")
            try:
                await self._closing
            except asyncio.CancelledError:
                if not self.is_cut_short:
                    raise
