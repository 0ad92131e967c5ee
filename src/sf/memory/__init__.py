"""The memory as sf sees it: one protocol, the engine in this process or a server elsewhere behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sf.domain.knowledge import Entry, Lesson


class Recalled(msgspec.Struct, frozen=True):
    """What a recall found, best first, and why it is less than it could be."""

    entries: tuple[Entry, ...] = ()
    degraded: str = ""


class Kept(msgspec.Struct, frozen=True):
    """What became of a lesson; a refusal has a reason, and then there is no id."""

    document_id: str
    id: str
    refused: str = ""


class BankSize(msgspec.Struct, frozen=True):
    """How much a bank holds."""

    bank: str
    entries: int
    negative: int


class Health(msgspec.Struct, frozen=True):
    """Where the memory is, and how it searches."""

    place: str
    embedder: str
    entries: int


class Memory(Protocol):
    """Every call raises MemoryUnavailable when nobody answers, MemoryRefused when the answer is no."""

    async def recall(
        self,
        bank: str,
        query: str,
        *,
        top_k: int,
        only: Mapping[str, str] = ...,
        accurate: bool = True,
        deadline: float,
    ) -> Recalled:
        """The entries nearest to a query, within a deadline in seconds."""
        ...

    async def retain(self, bank: str, lessons: Sequence[Lesson]) -> list[Kept]:
        """Keep lessons; they are on disk when this returns."""
        ...

    async def feedback(self, entry_id: str, signal: int, *, bank: str) -> None:
        """How an entry served: +1 it helped, −1 it misled."""
        ...

    async def validate(self, entry_id: str, *, bank: str) -> None:
        """An entry contributed to work that was proven."""
        ...

    async def forget(self, bank: str, *, ids: Sequence[str] = (), only: Mapping[str, Any] = ...) -> int:
        """Remove entries; how many there were."""
        ...

    async def banks(self) -> list[BankSize]:
        """What there is."""
        ...

    async def health(self) -> Health:
        """Whether it answers."""
        ...

    async def aclose(self) -> None:
        """Let go of it."""
        ...
