"""A memory on a server that several tools share, through the client made from the server's own document."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from sf.domain.knowledge import Entry, Lesson
from sf.errors import MemoryRefused, MemoryUnavailable
from sf.memory import BankSize, Health, Kept, Recalled
from singularity_memory.client import Client, Rejected, Unreachable
from singularity_memory.client.models import (
    Draft,
    FeedbackRequest,
    ForgetRequest,
    RecallRequest,
    RetainRequest,
    ValidateRequest,
)

_MOST_AT_ONCE = 200
_OF_THE_REQUEST = frozenset({"malformed", "bad_request", "mistake", "unknown_entry", "too_large"})
"""What a server says of what it was asked. Any other no, such as to a token, may be a yes tomorrow."""
_SIGNALS: dict[int, Literal[-1, 0, 1]] = {-1: -1, 0: 0, 1: 1}


class RemoteMemory:
    """One server, one token."""

    def __init__(self, url: str, key: str) -> None:
        with _translated():
            self._client = Client(url, key)

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
        request = RecallRequest(
            bank=bank,
            query=query,
            top_k=top_k,
            filter=dict(only),
            rerank_quality="accurate" if accurate else "fast",
            deadline_ms=deadline * 1000,
        )
        with _translated():
            answer = await self._client.recall(request, seconds=deadline)
        entries = tuple(
            Entry(hit.id, hit.content, tuple(hit.tags), hit.metadata, hit.score, hit.document_id)
            for hit in answer.entries
        )
        return Recalled(entries, answer.reason if answer.degraded else "")

    async def retain(self, bank: str, lessons: Sequence[Lesson]) -> list[Kept]:
        """Keep lessons; they are on the server's disk when this returns."""
        kept: list[Kept] = []
        for start in range(0, len(lessons), _MOST_AT_ONCE):
            drafts = [
                Draft(each.content, each.document_id, list(each.tags), each.metadata)
                for each in lessons[start : start + _MOST_AT_ONCE]
            ]
            with _translated():
                answer = await self._client.retain(RetainRequest(bank=bank, entries=drafts))
            if len(answer.entries) != len(drafts):
                raise MemoryUnavailable(
                    f"the memory answered for {len(answer.entries)} of {len(drafts)} lessons"
                )
            kept += [
                Kept(each.document_id, each.id, each.reason if each.status == "refused" else "")
                for each in answer.entries
            ]
        return kept

    async def feedback(self, entry_id: str, signal: int, *, bank: str) -> None:
        """How an entry served: +1 it helped, −1 it misled."""
        with _translated():
            await self._client.feedback(FeedbackRequest(id=entry_id, signal=_SIGNALS[signal], bank=bank))

    async def validate(self, entry_id: str, *, bank: str) -> None:
        """An entry contributed to work that was proven."""
        with _translated():
            await self._client.validate(ValidateRequest(id=entry_id, bank=bank))

    async def forget(self, bank: str, *, ids: Sequence[str] = (), only: Mapping[str, Any] = {}) -> int:
        """Remove entries; how many there were."""
        with _translated():
            answer = await self._client.forget(
                ForgetRequest(bank=bank, ids=list(ids), filter=dict(only) or None)
            )
        return answer.forgotten

    async def banks(self) -> list[BankSize]:
        """What this token may read."""
        with _translated():
            answer = await self._client.banks()
        return [BankSize(each.bank, each.entries, each.negative) for each in answer.banks]

    async def health(self) -> Health:
        """Whether it answers."""
        with _translated():
            found = await self._client.health()
        if not found.ok:
            raise MemoryUnavailable(f"the memory at {self._client.where} is not well: {found.reason}")
        embedder = found.embedder if isinstance(found.embedder, str) else "an embedder of its own"
        return Health(self._client.where, embedder, found.entries if isinstance(found.entries, int) else 0)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Unreachable as error:
        raise MemoryUnavailable(error.message) from error
    except Rejected as error:
        if error.told not in _OF_THE_REQUEST:
            raise MemoryUnavailable(f"the memory refused: {error.message}") from error
        raise MemoryRefused(f"the memory refused: {error.message}") from error
