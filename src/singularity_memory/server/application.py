"""The application: one route for each operation, the document, and MCP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from singularity_memory import wire
from singularity_memory.errors import MemoryFault
from singularity_memory.operations import OPERATIONS, Operation
from singularity_memory.server import faults, openapi, upkeep
from singularity_memory.server.limits import Limits
from singularity_memory.server.parsing import parsed
from singularity_memory.server.streaming import Streaming
from singularity_memory.server.threads import Threads

_JSON = "application/json"


def application(threads: Threads, limits: Limits) -> Starlette:
    """What serves requests that the gate let in, with their grant in the state."""
    document = openapi.encoded()
    streaming = Streaming(threads, limits.body_bytes)

    async def describe(_: Request) -> Response:
        return Response(document, media_type=_JSON)

    @contextlib.asynccontextmanager
    async def alive(_: Starlette) -> AsyncIterator[None]:
        async with upkeep.kept(threads), streaming.alive():
            yield

    routes = [Route(one.path, _endpoint(one, threads), methods=[one.method]) for one in OPERATIONS]
    return Starlette(
        routes=[
            *routes,
            Route("/openapi.json", describe, methods=["GET"]),
            Route("/mcp", streaming, methods=["POST"]),
        ],
        exception_handlers={HTTPException: _unrouted, MemoryFault: _refused, Exception: _failed},
        lifespan=alive,
    )


def _endpoint(operation: Operation, threads: Threads) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        body = await request.body() if operation.method == "POST" else b"{}"
        reply = await threads.answer(request.state.grant, parsed(body, operation))
        down = isinstance(reply, wire.HealthAnswer) and not reply.ok
        code = 503 if down else 200
        return Response(msgspec.json.encode(reply), code, dict(faults.headers(code)), _JSON)

    return serve


def _refused(_: Request, fault: Exception) -> Response:
    assert isinstance(fault, MemoryFault)
    return faults.response(fault)


def _failed(_: Request, __: Exception) -> Response:
    return faults.response(MemoryFault("the server failed; its log says how"))


def _unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return faults.response(faults.WrongMethod(f"{request.url.path} is not served by {request.method}"))
    return faults.response(
        faults.NoSuchPlace(f"nothing is served at {request.url.path}; /openapi.json says what is")
    )
