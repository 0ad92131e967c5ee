"""The memory's engine in this process, in threads of its own: nothing here ever holds the loop up."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sf.domain.knowledge import Entry, Lesson
from sf.errors import MemoryOpening, MemoryRefused, MemoryUnavailable
from sf.memory import BankSize, Health, Kept, Recalled
from singularity_memory.errors import Mistake, ModelMissing, UnknownEntry

T = TypeVar("T")
_THREADS = 2
_SLOW = 30.0
"""Seconds after which a write or a look is given up; it may still happen."""


class Embedding(msgspec.Struct, frozen=True):
    """What finds by meaning; all but the name is for one on a server."""

    name: str = "sentence"
    model: str = ""
    url: str = ""
    key: str = ""


class EmbeddedMemory:
    """An engine on one file. It is opened by its first caller, and the model with it."""

    def __init__(self, place: Path, embedder: Embedding) -> None:
        self._place = place
        self._embedder = embedder
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sf-memory")
        self._opened: Future[Any] | None = None

    def warm(self) -> None:
        """Begin to open it, so that the first recall need not wait for that."""
        self._engine()

    async def recall(
        self,
        bank: str,
        query: str,
        *,
        top_k: int,
        only: Mapping[str, str] = {},
        accurate: bool = True,
        deadline: float,
    ) -> Recalled:
        """The entries nearest to a query, within a deadline in seconds."""
        from singularity_memory.model import Query

        asked = Query(
            bank=bank,
            text=query,
            top_k=top_k,
            filter=dict(only),
            rerank_quality="accurate" if accurate else "fast",
            deadline_ms=deadline * 1000,
        )
        answer = await self._do(lambda engine: engine.recall(asked), deadline)
        entries = tuple(
            Entry(hit.id, hit.content, tuple(hit.tags), dict(hit.metadata), hit.score, hit.document_id)
            for hit in answer.entries
        )
        return Recalled(entries, answer.reason if answer.degraded else "")

    async def retain(self, bank: str, lessons: Sequence[Lesson]) -> list[Kept]:
        """Keep lessons; they are on disk when this returns."""
        from singularity_memory.model import Draft

        drafts = [Draft(each.content, each.document_id, each.tags, each.metadata) for each in lessons]
        kept = await self._do(lambda engine: engine.retain(bank, drafts))
        return [
            Kept(each.document_id, each.id, each.reason if each.status == "refused" else "") for each in kept
        ]

    async def feedback(self, entry_id: str, signal: int, *, bank: str) -> None:
        """How an entry served: +1 it helped, −1 it misled."""
        await self._do(lambda engine: engine.feedback(entry_id, signal))

    async def validate(self, entry_id: str, *, bank: str) -> None:
        """An entry contributed to work that was proven."""
        await self._do(lambda engine: engine.validate(entry_id))

    async def forget(self, bank: str, *, ids: Sequence[str] = (), only: Mapping[str, Any] = {}) -> int:
        """Remove entries; how many there were."""
        return int(
            await self._do(lambda engine: engine.forget(bank, ids=tuple(ids), filter=dict(only) or None))
        )

    async def banks(self) -> list[BankSize]:
        """What there is."""
        found = await self._do(lambda engine: engine.banks())
        return [BankSize(each.bank, each.entries, each.negative) for each in found]

    async def health(self) -> Health:
        """Whether it answers."""
        found = await self._do(lambda engine: engine.health())
        if not found.ok:
            raise MemoryUnavailable(f"the memory at {self._place} is not well: {found.reason}")
        return Health(str(self._place), found.embedder, found.entries)

    async def aclose(self) -> None:
        """Let go of the file; what is under way is waited for."""
        opened = self._opened

        def close() -> None:
            if opened is not None and not opened.cancel() and opened.exception() is None:
                opened.result().close()
            self._threads.shutdown(wait=True)

        await asyncio.to_thread(close)

    def _engine(self) -> Future[Any]:
        if self._opened is None or (self._opened.done() and self._opened.exception() is not None):
            self._opened = self._threads.submit(_opened, self._place, self._embedder)
        return self._opened

    async def _do(self, work: Callable[[Any], T], limit: float = _SLOW) -> T:
        """Carry something out in a thread; what takes longer than `limit` seconds is not waited for."""
        opened = self._engine()
        try:
            async with asyncio.timeout(limit):
                engine = await asyncio.shield(asyncio.wrap_future(opened))
                call = functools.partial(work, engine)
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except TimeoutError:
            if not opened.done():
                raise MemoryOpening(f"the memory was still being opened after {limit:g} s") from None
            raise MemoryUnavailable(f"the memory did not answer within {limit:g} s") from None
        except UnknownEntry as error:
            raise MemoryRefused(error.message, hint="sf memory recall shows the ids") from error
        except Mistake as error:
            raise MemoryRefused(error.message) from error
        except Exception as error:  # the memory's boundary: whatever ails its file, work goes on without it
            raise MemoryUnavailable(
                f"the memory at {self._place}: {error or type(error).__name__}"
            ) from error


def _opened(place: Path, chosen: Embedding) -> Any:
    """The engine, with the light model where the chosen one is not installed."""
    from singularity_memory.embedders.factory import Choice, embedder
    from singularity_memory.engine import Engine

    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return Engine.open(
            place, embedder=embedder(Choice(chosen.name, chosen.model, chosen.url, chosen.key))
        )
    except ModelMissing:
        if chosen.name != "sentence":
            raise
        return Engine.open(place, embedder="static")
