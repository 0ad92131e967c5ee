"""What a server does by itself: the vectors of the largest banks are read, and made for what has none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from singularity_memory.errors import MemoryFault
from singularity_memory.server.threads import Threads

_REST_SECONDS = 30.0
_LOG = logging.getLogger("singularity_memory")


@contextlib.asynccontextmanager
async def kept(threads: Threads) -> AsyncIterator[None]:
    """Keep it up until the block ends."""
    task = asyncio.create_task(_keep(threads))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _keep(threads: Threads) -> None:
    """Look every half minute, and when something came in, whether anything waits; ends when cancelled."""
    warm = False
    while True:
        try:
            if not warm:
                await threads.warm()
                warm = True
            while await threads.refresh():
                pass
        except MemoryFault as fault:
            _LOG.warning("entries wait for their vectors: %s", fault.message)
            await asyncio.sleep(_REST_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(threads.stirred.wait(), _REST_SECONDS)
        threads.stirred.clear()
