"""The doorbell: one datagram wakes the loop after a command has written a row. Errors are ignored by design:
the loop also looks by itself on every tick."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

NAME = "wake.sock"


def _address(folder_fd: int) -> str:
    """A short path to the socket: the real one may be longer than a socket address can be."""
    return f"/proc/self/fd/{folder_fd}/{NAME}"


def ring(runtime: Path) -> None:
    """Wake the loop of a project, if one listens."""
    with contextlib.suppress(OSError):
        folder = os.open(runtime, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
                bell.setblocking(False)
                bell.sendto(b"\0", _address(folder))
        finally:
            os.close(folder)


class Doorbell:
    """Listens for rings on the running event loop."""

    def __init__(self, runtime: Path, on_ring: Callable[[], None]) -> None:
        self._on_ring = on_ring
        runtime.mkdir(parents=True, exist_ok=True)
        self._path = runtime / NAME
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        folder = os.open(runtime, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._socket.bind(_address(folder))
        finally:
            os.close(folder)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._drain)

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._socket.recv(64):
                continue
        self._on_ring()

    def close(self) -> None:
        """Stop listening."""
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)
