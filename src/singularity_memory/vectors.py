"""The vectors of a bank in memory: read once, then only what changed, also when another process wrote it."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from singularity_memory.embedders import Matrix, Vector
from singularity_memory.errors import StoreFailed
from singularity_memory.ranking import background
from singularity_memory.store import Bank, Kept, Nearness, Store

T = TypeVar("T", bound=np.generic)
_BANKS = 8
_AT_ONCE = 4096
_READING = 1e-5
"""Seconds that reading an entry's vectors takes, with some to spare."""
_NOTHING = np.float32(-2.0)
_DEAD = 0
"""The slot that the vectors of removed entries belong to."""


class Vectors:
    """The vectors of one bank by one embedder. Not for two threads at once."""

    def __init__(self, dimension: int) -> None:
        self._matrix: Matrix = np.zeros((0, dimension), dtype=np.float32)
        self._owners: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._rows: NDArray[np.int64] = np.full(1, -1, dtype=np.int64)
        self._wholes: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._parts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Where the passages are that are not the whole of an entry."""
        self._slots: dict[int, int] = {}
        self._passages = 0
        self._entries = 1
        self._dead = 0
        self.version = 0
        self.epoch = 0

    def refresh(self, store: Store, bank: Bank, embedder: str, closing: threading.Event) -> None:
        """Bring it to the bank's version, unless the cache is being closed."""
        if self.epoch != bank.epoch:
            self.keep_only(store.all_rows(bank))
        if self.version != bank.version:
            self.put(store.vectors(bank, embedder, self.version), bank.entries, closing)
        self.version, self.epoch = bank.version, bank.epoch

    def put(self, kept: Iterable[Kept], expected: int = 0, closing: threading.Event | None = None) -> None:
        """Add the vectors of entries, in place of those that they had."""
        waiting = iter(kept)
        while some := list(itertools.islice(waiting, _AT_ONCE)):
            self._put_some(some, expected)
            if closing is not None and closing.is_set():
                raise StoreFailed("the memory is being closed")

    def _put_some(self, some: Sequence[Kept], expected: int) -> None:
        width = self._matrix.shape[1]
        rows, blobs = zip(*some, strict=True)
        sizes = np.fromiter(map(len, blobs), dtype=np.int64, count=len(some)) // (2 * width)
        whole = int(sizes.sum())
        self._reserve(whole, len(some), expected)
        start, end = self._passages, self._passages + whole
        halves = np.frombuffer(b"".join(blobs), dtype=np.float16)
        self._matrix[start:end] = halves.reshape(-1, width)
        slots = self._new_slots(rows) if self._slots.keys().isdisjoint(rows) else self._some_slots(rows)
        self._owners[start:end] = np.repeat(slots, sizes)
        self._wholes[slots] = start + np.cumsum(sizes) - sizes
        self._passages = end
        later = np.ones(whole, dtype=bool)
        later[np.cumsum(sizes) - sizes] = False
        self._parts = np.concatenate([self._parts, start + np.flatnonzero(later)])

    def _new_slots(self, rows: Sequence[int]) -> NDArray[np.int64]:
        """Slots for entries that have none, all at once: a bank is read like this."""
        slots = np.arange(self._entries, self._entries + len(rows))
        self._slots.update(zip(rows, slots.tolist(), strict=True))
        self._rows[slots] = rows
        self._entries += len(rows)
        return slots

    def _some_slots(self, rows: Sequence[int]) -> NDArray[np.int64]:
        for slot in [self._slots[row] for row in rows if row in self._slots]:
            self._kill(slot)
        self._new_slots([row for row in rows if row not in self._slots])
        return np.array([self._slots[row] for row in rows])

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

    def nearest(
        self, query: Vector, limit: int, allowed: Sequence[int] | None, also: Sequence[int]
    ) -> Nearness:
        """Every entry against a query; the nearest of those that are allowed."""
        values: Vector = np.full(self._entries, _NOTHING, dtype=np.float32)
        if self._passages:
            near = self._matrix[: self._passages] @ query
            values = near[self._wholes[: self._entries]]
            nearest = values.copy()
            np.maximum.at(nearest, self._owners[self._parts], near[self._parts])
            values = (values + nearest) * np.float32(0.5)
        values[self._rows[: self._entries] < 0] = _NOTHING
        there = values[values > _NOTHING].astype(np.float64)
        open_to = values
        if allowed is not None:
            fits = np.isin(self._rows[: self._entries], np.asarray(allowed, dtype=np.int64))
            open_to = np.where(fits, values, _NOTHING)
        best = [int(self._rows[slot]) for slot in _best(open_to, limit)]
        slots = {row: self._slots[row] for row in (*best, *also) if row in self._slots}
        similarities = {row: float(values[slot]) for row, slot in slots.items()}
        return Nearness(similarities, best, background(len(there), float(there.sum()), float(there @ there)))

    def _kill(self, slot: int) -> None:
        mine = np.flatnonzero(self._owners[: self._passages] == slot)
        self._owners[mine] = _DEAD
        self._parts = self._parts[self._owners[self._parts] != _DEAD]
        self._dead += len(mine)

    def _reserve(self, passages: int, entries: int, expected: int) -> None:
        needed = self._passages + passages
        if needed > len(self._matrix):
            room = max(needed, expected, len(self._matrix) + len(self._matrix) // 2) + 64
            self._matrix = _grown(self._matrix, room)
            self._owners = _grown(self._owners, room)
        if self._entries + entries > len(self._rows):
            room = max(self._entries + entries, expected, len(self._rows) * 3 // 2) + 64
            self._rows = _grown(self._rows, room)
            self._wholes = _grown(self._wholes, room)


class VectorCache:
    """The vectors of the banks used last."""

    def __init__(self, store: Store, embedder: str, dimension: int) -> None:
        self._store, self._embedder, self._dimension = store, embedder, dimension
        self._banks: OrderedDict[int, tuple[threading.Lock, Vectors]] = OrderedDict()
        self._lock = threading.Lock()
        self._reader = ThreadPoolExecutor(1, "memory-vectors")
        self._closing = threading.Event()

    def close(self) -> None:
        """Stop reading."""
        self._closing.set()
        self._reader.shutdown(cancel_futures=True)

    def ready(self, bank: Bank, seconds: float | None) -> bool:
        """Whether a search can begin within that time; if not, the vectors are read in the background."""
        if seconds is None:
            return True
        lock, vectors = self._held(bank)
        if not lock.acquire(timeout=seconds / 2):
            return False
        lock.release()
        if vectors.version or bank.entries * _READING < seconds / 2:
            return True
        if not self._closing.is_set():
            self._reader.submit(self._read, bank)
        return False

    def nearest(
        self, bank: Bank, query: Vector, limit: int, labels: frozenset[str], also: Sequence[int]
    ) -> Nearness:
        """The nearest entries that have all of the labels, nearest first, and something of others."""
        allowed = self._store.labelled(bank, labels) if labels else None
        lock, vectors = self._held(bank)
        with lock:
            vectors.refresh(self._store, bank, self._embedder, self._closing)
            if vectors.wasted:
                vectors = self._anew(bank, lock)
            return vectors.nearest(query, limit, allowed, also)

    def _held(self, bank: Bank) -> tuple[threading.Lock, Vectors]:
        with self._lock:
            held = self._banks.setdefault(bank.number, (threading.Lock(), Vectors(self._dimension)))
            self._banks.move_to_end(bank.number)
            while len(self._banks) > _BANKS:
                self._banks.popitem(last=False)
        return held

    def _read(self, bank: Bank) -> None:
        """A store that fails now will say so to the next search."""
        lock, vectors = self._held(bank)
        with lock, contextlib.suppress(StoreFailed):
            if not vectors.version:
                vectors.refresh(self._store, bank, self._embedder, self._closing)

    def _anew(self, bank: Bank, lock: threading.Lock) -> Vectors:
        made = Vectors(self._dimension)
        made.refresh(self._store, bank, self._embedder, self._closing)
        with self._lock:
            self._banks[bank.number] = (lock, made)
        return made


def _grown(array: NDArray[T], room: int) -> NDArray[T]:
    made = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
    made[: len(array)] = array
    return made


def _best(values: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    count = min(limit, len(values))
    chosen = np.argpartition(-values, count - 1)[:count]
    order = chosen[np.argsort(-values[chosen], kind="stable")]
    return order[values[order] > _NOTHING]
