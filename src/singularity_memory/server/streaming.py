"""MCP over streamable HTTP, on the server's own port and under its tokens; loaded with its first request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from singularity_memory import wire
from singularity_memory.errors import Failure
from singularity_memory.server.threads import Threads

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_LOG = logging.getLogger("singularity_memory")


class Streaming:
    """An ASGI application; `alive` holds what it has begun. Every request stands for itself: no sessions."""

    def __init__(self, threads: Threads, body_bytes: int) -> None:
        self._threads, self._body_bytes = threads, body_bytes
        self._wanted, self._ready, self._ending = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._manager: StreamableHTTPSessionManager | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        self._wanted.set()
        await self._ready.wait()
        if self._manager is None:
            raise Failure("MCP could not be loaded; the server's log says why")
        await self._manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Requests may come until the block ends."""
        task = asyncio.create_task(self._run())
        yield
        self._ending.set()
        self._wanted.set()
        await task

    async def _run(self) -> None:
        """The manager's own tasks must begin and end in one task."""
        await self._wanted.wait()
        if self._ending.is_set():
            return
        try:
            manager = await asyncio.to_thread(self._made)
        except ImportError:
            _LOG.exception("MCP is not served")
            self._ready.set()
            return
        async with manager.run():
            self._manager = manager
            self._ready.set()
            await self._ending.wait()

    def _made(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from singularity_memory.server import tools

        # Host and origin were judged at the gate.
        return StreamableHTTPSessionManager(
            tools.server(self._answer),
            json_response=True,
            stateless=True,
            max_request_body_size=self._body_bytes,
        )

    async def _answer(self, context: ServerRequestContext[Any, Any], request: wire.Request) -> wire.Reply:
        assert context.request is not None, "over HTTP every message has its request"
        return await self._threads.answer(context.request.state.grant, request)
