"""MCP over standard input and output."""

from __future__ import annotations

import contextlib
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.stdio import stdio_server

from singularity_memory import wire
from singularity_memory.callers import Caller
from singularity_memory.server import tools


async def speak(reached: contextlib.AbstractAsyncContextManager[Caller]) -> None:
    """Answer until standard input ends."""
    async with reached as caller:

        async def answer(_: ServerRequestContext[Any, Any], request: wire.Request) -> wire.Reply:
            return await caller.call(request)

        made = tools.server(answer)
        async with stdio_server() as (reading, writing):
            await made.run(reading, writing, made.create_initialization_options())
