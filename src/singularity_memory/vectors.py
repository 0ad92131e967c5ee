"""The vectors of a bank in memory: read once, then only what changed, also when another process wrote it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from singularity_memory.embedders import Matrix, Vector
from singularity_memory.store import Bank, Kept, Store

T = TypeVar("T", bound=np.generic)
_BANKS = 8
_DEAD = 0
"""The slot that the vectors of removed entries belong to."""


class Similarities(NamedTuple):
    """How near every entry of a bank is to a query: of its passages, the nearest counts."""

    rows: NDArray[np.int64]
    values: NDArray[np.float32]
    slots: dict[int, int]

    def of(self, row: int) -> float | None:
        """The similarity of one entry; None when it has no vectors."""
        slot = self.slots.get(row)
        return None if slot is None or slot >= len(self.values) else float(self.values[slot])

    def top(self, limit: int, allowed: Sequence[int] | None) -> list[int]:
        """The rows of the nearest entries, nearest first."""
        values = self.values
        if allowed is not None:
            values = np.where(np.isin(self.rows, np.asarray(allowed, dtype=np.int64)), values, -2.0)
        count = min(limit, len(values))
        nearest = np.argpartition(-values, count - 1)[:count] if count else np.empty(0, dtype=np.int64)
        order = nearest[np.argsort(-values[nearest], kind="stable")]
        return [int(self.rows[slot]) for slot in order if slot != _DEAD and values[slot] > -2.0]


class Vectors:
    """The vectors of one bank by one embedder. Not for two threads at once; Similarities are."""

    def __init__(self, dimension: int) -> None:
        self._matrix: Matrix = np.zeros((0, dimension), dtype=np.float32)
        self._owners: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._rows: NDArray[np.int64] = np.full(1, -1, dtype=np.int64)
        self._slots: dict[int, int] = {}
        self._passages = 0
        self._entries = 1
        self._dead = 0
        self.version = 0
        self.epoch = 0

    def refresh(self, store: Store, bank: Bank, embedder: str) -> None:
        """Bring it to the bank's version."""
        if self.epoch != bank.epoch:
            self.keep_only(store.all_rows(bank))
        if self.version != bank.version:
            self.put(store.vectors(bank, embedder, self.version), expected=bank.entries)
        self.version, self.epoch = bank.version, bank.epoch

    def put(self, kept: Iterable[Kept], expected: int = 0) -> None:
        """Add the vectors of entries, in place of those that they had."""
        width = self._matrix.shape[1]
        for row, data in kept:
            passages = np.frombuffer(data, dtype=np.float16).reshape(-1, width)
            self._reserve(len(passages), expected)
            slot = self._slots.get(row)
            if slot is None:
                slot = self._slots[row] = self._entries
                self._rows[slot] = row
                self._entries += 1
            else:
                self._kill(slot)
            end = self._passages + len(passages)
            self._matrix[self._passages : end] = passages
            self._owners[self._passages : end] = slot
            self._passages = end

    def keep_only(self, rows: Sequence[int]) -> None:
        """Let go of the vectors of all other entries."""
        staying = set(rows)
        for row in [row for row in self._slots if row not in staying]:
            slot = self._slots.pop(row)
            self._rows[slot] = -1
            self._kill(slot)

    @property
    def wasted(self) -> bool:
        """Whether most of the room is taken by what is gone."""
        return self._dead > 1000 and self._dead * 2 > self._passages

    def similarities(self, query: Vector) -> Similarities:
        """Every entry against a query."""
        near = self._matrix[: self._passages] @ query
        values = np.full(self._entries, -2.0, dtype=np.float32)
        if self._passages:
            np.maximum.at(values, self._owners[: self._passages], near)
        values[_DEAD] = -2.0
        return Similarities(self._rows[: self._entries], values, self._slots)

    def _kill(self, slot: int) -> None:
        mine = np.flatnonzero(self._owners[: self._passages] == slot)
        self._owners[mine] = _DEAD
        self._dead += len(mine)

    def _reserve(self, passages: int, expected: int) -> None:
        needed = self._passages + passages
        if needed > len(self._matrix):
            room = max(needed, expected, len(self._matrix) + len(self._matrix) // 2) + 64
            self._matrix = _grown(self._matrix, room)
            self._owners = _grown(self._owners, room)
        if self._entries >= len(self._rows):
            self._rows = _grown(self._rows, max(expected, len(self._rows) * 3 // 2) + 64)


class VectorCache:
    """The vectors of the banks used last."""

    def __init__(self, store: Store, embedder: str, dimension: int) -> None:
        self._store, self._embedder, self._dimension = store, embedder, dimension
        self._banks: OrderedDict[int, tuple[threading.Lock, Vectors]] = OrderedDict()
        self._lock = threading.Lock()

    def similarities(self, bank: Bank, query: Vector) -> Similarities:
        """Every entry of a bank, as it is now, against a query."""
        with self._lock:
            held = self._banks.setdefault(bank.number, (threading.Lock(), Vectors(self._dimension)))
            self._banks.move_to_end(bank.number)
            while len(self._banks) > _BANKS:
                self._banks.popitem(last=False)
        lock, vectors = held
        with lock:
            vectors.refresh(self._store, bank, self._embedder)
            if vectors.wasted:
                vectors = self._anew(bank, lock)
            return vectors.similarities(query)

    def _anew(self, bank: Bank, lock: threading.Lock) -> Vectors:
        made = Vectors(self._dimension)
        made.refresh(self._store, bank, self._embedder)
        with self._lock:
            self._banks[bank.number] = (lock, made)
        return made


def _grown(array: NDArray[T], room: int) -> NDArray[T]:
    made = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
    made[: len(array)] = array
    return made
