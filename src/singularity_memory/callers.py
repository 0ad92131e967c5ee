"""Where a request is answered: by the memory of a folder in this process, or by a server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from singularity_memory import wire
from singularity_memory.client.connection import Connection
from singularity_memory.desk import Desk
from singularity_memory.grants import EVERYTHING
from singularity_memory.operations import BY_REQUEST
from singularity_memory.server import upkeep
from singularity_memory.server.threads import Threads

_READING, _WRITING = 4, 2


class Caller(Protocol):
    """Answers requests."""

    async def call(self, request: wire.Request) -> wire.Reply:
        """The reply. Raises MemoryFault."""


class Near:
    """A desk in this process, to which everything is allowed."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    async def call(self, request: wire.Request) -> wire.Reply:
        """The reply. Raises MemoryFault."""
        return await self._threads.answer(EVERYTHING, request)


class Far:
    """A server, within what the connection's token allows."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def call(self, request: wire.Request) -> wire.Reply:
        """The reply. Raises Unreachable or Rejected."""
        operation = BY_REQUEST[type(request)]
        body = request if operation.method == "POST" else None
        return await self._connection.ask(operation.method, operation.path, body, operation.reply)


@contextlib.asynccontextmanager
async def near(desk: Desk, *, lasting: bool) -> AsyncIterator[Caller]:
    """A caller on a desk, which is closed at the end; what is imported gets its vectors before that."""
    threads = Threads(desk, _READING, _WRITING)
    try:
        async with upkeep.kept(threads) if lasting else contextlib.nullcontext():
            yield Near(threads)
        while threads.stirred.is_set() and await threads.refresh():
            pass
    finally:
        threads.close()


@contextlib.asynccontextmanager
async def far(url: str, token: str) -> AsyncIterator[Caller]:
    """A caller on a server."""
    async with Connection(url, token) as connection:
        yield Far(connection)
