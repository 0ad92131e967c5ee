"""From the options of a command to whoever answers its requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from singularity_memory.callers import Caller, far, near
from singularity_memory.cli.options import Place
from singularity_memory.errors import BadRequest
from singularity_memory.folder import Folder
from singularity_memory.opening import open_desk

T = TypeVar("T")
TOKEN_VARIABLE = "SINGULARITY_MEMORY_TOKEN"


def reach(
    place: Place, *, writes: bool = True, lasting: bool = False
) -> contextlib.AbstractAsyncContextManager[Caller]:
    """Who answers: a server when an address is given, else the memory of the folder, which writing makes."""
    if place.url:
        return far(place.url, _token(place))
    if not writes and not place.store and not (place.data.expanduser() / "memory.db").exists():
        raise BadRequest(f"there is no memory in {place.data}; `retain` and `serve` make one")
    folder = Folder(place.data.expanduser())
    return near(open_desk(place.store or folder.database, place.embedder), lasting=lasting)


def with_caller(place: Place, work: Callable[[Caller], Awaitable[T]], *, writes: bool = True) -> T:
    """Do something with whoever answers."""

    async def run() -> T:
        async with reach(place, writes=writes) as caller:
            return await work(caller)

    return asyncio.run(run())


def _token(place: Place) -> str:
    if place.token_file is None:
        return os.environ.get(TOKEN_VARIABLE, "")
    try:
        token = place.token_file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{place.token_file} holds no token") from error
    if not token or not token.isprintable() or " " in token:
        raise BadRequest(f"{place.token_file} holds no token")
    return token
