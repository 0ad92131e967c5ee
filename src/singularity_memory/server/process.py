"""A server as a process: holds the folder, binds the port, says when it is ready, ends cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from singularity_memory.embedders import factory
from singularity_memory.errors import Failure
from singularity_memory.folder import Folder
from singularity_memory.opening import open_desk
from singularity_memory.server.application import application
from singularity_memory.server.connection import connections_with
from singularity_memory.server.gate import Gate
from singularity_memory.server.limits import Limits
from singularity_memory.server.threads import Threads
from singularity_memory.tokens import Tokens

_LOG = logging.getLogger("singularity_memory")
_CLOSING_SECONDS = 5.0
"""How long a thread that is still at work is waited for, after `ending_seconds`."""


class PortTaken(Failure):
    """The address cannot be listened on."""

    code = "port_taken"


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to serve: where, what, to whom."""

    data: Path
    port: int
    host: str = "127.0.0.1"
    store: str = ""
    """A PostgreSQL address; the folder's own file without one."""
    embedder: factory.Choice = factory.Choice()
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    limits: Limits = Limits()


def serve(setting: Setting, ready: Callable[[str, Path], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is told the address and the token's file. Raises Failure."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    folder = Folder(setting.data)
    with folder.served(), _bound(setting.host, setting.port) as listener:
        tokens = Tokens(folder)
        first = tokens.ensure_first()
        desk = open_desk(setting.store or folder.database, setting.embedder)
        limits = setting.limits
        threads = Threads(desk, limits.reading_threads, limits.writing_threads)
        try:
            served = _gated(application(threads, limits), tokens, setting)
            address = _address(listener)
            _Server(_config(served, limits), lambda: ready(address, first)).run([listener])
        finally:
            if not threads.closed_within(_CLOSING_SECONDS):
                _give_up()


def _give_up() -> NoReturn:
    """End now. Nobody was told that what is still in hand is kept, and the store survives any end."""
    _LOG.warning("ended before all that was in hand was done")
    logging.shutdown()
    os._exit(0)


def _gated(inner: ASGIApp, tokens: Tokens, setting: Setting) -> ASGIApp:
    gate = Gate(inner, tokens, setting.limits, hosts=setting.hosts, origins=setting.origins)
    if not setting.origins:
        return gate
    # A page's browser asks first, without the token, whether it may ask at all.
    return CORSMiddleware(
        gate,
        allow_origins=setting.origins,
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type", "Mcp-Protocol-Version"],
    )


class _Server(uvicorn.Server):
    """A server that ends by returning: uvicorn raises the signal again, before the desk is closed."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def _config(served: ASGIApp, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        served,
        http=connections_with(limits.head_seconds, limits.answer_seconds),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=limits.ending_seconds,
        h11_max_incomplete_event_size=limits.head_bytes,
    )


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            # A second server that binds the same port is refused here only once this one listens.
            made.listen(128)
        except OSError:
            made.close()
            raise
    except OSError as error:
        raise PortTaken(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return made


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
