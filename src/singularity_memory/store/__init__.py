"""Where entries are kept: one protocol, one implementation for a file and one for a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from singularity_memory.embedders import Halves, Vector
from singularity_memory.ranking import Background
from singularity_memory.standing import Standing


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as it is kept. `row` is the store's own number for it, of no meaning outside."""

    row: int
    id: str
    document_id: str
    content: str
    words: str
    """Its words as the lexical index has them, separated by spaces."""
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    negative: bool
    standing: Standing


class Record(NamedTuple):
    """What is to be written of one entry."""

    id: str
    document_id: str
    content: str
    words: str
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    labels: frozenset[str]
    negative: bool
    vectors: Halves | None
    """A row for each of its passages; none when they could not be made."""


class Bank(NamedTuple):
    """A bank and how often it changed: `version` with every write, `epoch` when something was taken away."""

    number: int
    name: str
    version: int
    epoch: int
    entries: int
    mean_words: float


class Kept(NamedTuple):
    """The vectors of one entry."""

    row: int
    vectors: bytes
    """Of its passages, one after the other, in half precision."""


class Nearness(NamedTuple):
    """How near entries of a bank are to a query: half for the whole entry, half for its nearest passage."""

    similarities: dict[int, float]
    """By row, of the nearest and of those that were asked about; without those that have no vectors."""
    nearest: list[int]
    background: Background


class Meaning(Protocol):
    """Search by meaning in the banks of a store, by one embedder's vectors."""

    def ready(self, bank: Bank, seconds: float | None) -> bool:
        """Whether a search can begin within that time; if not, what it needs is read in the background."""

    def nearest(
        self, bank: Bank, query: Vector, limit: int, labels: frozenset[str], also: Sequence[int]
    ) -> Nearness:
        """The nearest entries that have all of the labels, nearest first, and something of others."""


class Match(NamedTuple):
    """One entry that has words of a query; a higher score is better, and means nothing between stores."""

    row: int
    score: float


class Changed(NamedTuple):
    """What becomes of an entry: its history, and its content when that changes too (its vectors stay)."""

    standing: Standing
    record: Record | None = None


Change = Callable[[Entry], Changed]
Settle = Callable[[Entry | None, Record], Changed]
"""From what is there, if anything is, and what is to be written: what will be there."""


class Store(Protocol):
    """Entries, their words and their vectors. Thread-safe; one writer at a time; writes are durable."""

    @property
    def name(self) -> str:
        """Where it is, without any password."""

    def bank(self, name: str) -> Bank | None:
        """A bank as it is now."""

    def banks(self) -> list[Bank]:
        """Every bank, by name."""

    def write(self, bank: str, records: Sequence[Record], embedder: str, settle: Settle) -> list[bool]:
        """Write all or none as `settle` says; whether each was there before. On disk when this returns."""

    def change(self, entry_id: str, change: Change) -> Entry | None:
        """Put what `change` makes of an entry in its place, in one transaction; the entry as it was."""

    def touch(self, accesses: Mapping[int, int], now: float) -> None:
        """Count accesses by row."""

    def forget(self, bank: Bank, chosen: Sequence[int]) -> int:
        """Remove entries with all that belongs to them; how many there were."""

    def find(self, bank: Bank, *, ids: Sequence[str], document_ids: Sequence[str]) -> list[int]:
        """The rows of entries by either name."""

    def labelled(self, bank: Bank, labels: frozenset[str]) -> list[int]:
        """The rows of entries that have all of these labels, ascending; every row when there are none."""

    def entries(self, chosen: Sequence[int]) -> list[Entry]:
        """Entries by row, in no order; those that are gone are left out."""

    def all_rows(self, bank: Bank) -> list[int]:
        """Every row of a bank, ascending."""

    def histories(self, bank: Bank) -> Iterator[tuple[bool, Standing]]:
        """Of every entry, whether it is negative and what happened to it."""

    def frequencies(self, bank: Bank, terms: Sequence[str]) -> dict[str, int]:
        """In about how many entries of a bank each word is; those in none are left out."""

    def lexical(
        self, bank: Bank, weighted: Mapping[str, float], labels: frozenset[str], limit: int, *, ranked: bool
    ) -> list[Match]:
        """The entries that have one of the words at least and all of the labels, best first.

        `ranked` by how often they have them as well, which costs more for words that are in many entries.
        """

    def meaning(self, embedder: str, dimension: int) -> Meaning:
        """Search by an embedder's vectors in this store."""

    def vectors(self, bank: Bank, embedder: str, after: int) -> Iterator[Kept]:
        """The vectors that an embedder made, of entries changed after a version."""

    def unembedded(self, embedder: str, limit: int) -> list[Entry]:
        """Some entries that have no vectors by this embedder."""

    def count_unembedded(self, embedder: str) -> dict[str, int]:
        """How many entries have no vectors by this embedder, by the name of their bank."""

    def embed(self, vectors: Sequence[tuple[Entry, Halves]], embedder: str) -> None:
        """Keep vectors for entries whose content is still the same."""

    def close(self) -> None:
        """Let go of everything."""
