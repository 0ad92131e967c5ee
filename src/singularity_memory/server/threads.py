"""The threads in which a desk answers: a bounded number, and writers never take the readers' place."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec

from singularity_memory import wire
from singularity_memory.desk import Desk
from singularity_memory.grants import Grant
from singularity_memory.operations import BY_REQUEST


class Threads:
    """A desk for asyncio."""

    def __init__(self, desk: Desk, reading: int, writing: int) -> None:
        self._desk = desk
        self.stirred = asyncio.Event()
        """Set when something came in that has no vectors yet."""
        self._readers = ThreadPoolExecutor(reading, "memory-read")
        self._writers = ThreadPoolExecutor(writing, "memory-write")

    async def answer(self, grant: Grant | None, request: wire.Request) -> wire.Reply:
        """The desk's reply; a deadline counts from now. Raises MemoryFault."""
        writes = BY_REQUEST[type(request)].scope == "write"
        pool = self._writers if writes else self._readers
        loop = asyncio.get_running_loop()
        reply = await loop.run_in_executor(pool, self._on_time, grant, request, time.monotonic())
        if isinstance(request, wire.ImportRequest):
            self.stirred.set()
        return reply

    async def warm(self) -> None:
        """Have the vectors of the largest banks read in the background."""
        await asyncio.get_running_loop().run_in_executor(self._readers, self._desk.warm)

    async def refresh(self) -> int:
        """Embed some entries that wait for it; how many there were."""
        return await asyncio.get_running_loop().run_in_executor(self._writers, self._desk.refresh)

    def close(self) -> None:
        """Finish what is in hand, then let go of the desk."""
        self._readers.shutdown()
        self._writers.shutdown()
        self._desk.close()

    def closed_within(self, seconds: float) -> bool:
        """Begin nothing more, and close; whether that was done in time."""
        for pool in (self._readers, self._writers):
            pool.shutdown(wait=False, cancel_futures=True)
        closing = threading.Thread(target=self.close, name="memory-close", daemon=True)
        closing.start()
        closing.join(seconds)
        return not closing.is_alive()

    def _on_time(self, grant: Grant | None, request: wire.Request, arrived: float) -> wire.Reply:
        if isinstance(request, wire.RecallRequest) and request.deadline_ms is not None:
            waited = (time.monotonic() - arrived) * 1000
            request = msgspec.structs.replace(request, deadline_ms=max(0.0, request.deadline_ms - waited))
        return self._desk.answer(grant, request)
