"""SQLite: one file, WAL, synchronous=FULL, one writer; the lexical index is an FTS5 table for each bank."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from singularity_memory.embedders import Halves
from singularity_memory.standing import Standing
from singularity_memory.store import Bank, Change, Entry, Kept, Match, Record, Settle, fts, rows
from singularity_memory.store.file import File
from singularity_memory.store.frequencies import Frequencies
from singularity_memory.vectors import VectorCache

T = TypeVar("T")
_SOME = 500
"""How many values one statement names."""
_SELECT = f"SELECT {', '.join(rows.COLUMNS)} FROM entries"
_BANK = "SELECT number, name, version, epoch, entries, words FROM banks"
_INSERT = (
    "INSERT INTO entries (bank, version, embedder, id, document_id, content, words, tags, metadata, negative,"
    f" {', '.join(rows.HISTORY)}) VALUES ({', '.join('?' * (10 + len(rows.HISTORY)))})"
)
_CONTENT = "content = ?, words = ?, tags = ?, metadata = ?, negative = ?"
_HISTORY = ", ".join(f"{name} = ?" for name in rows.HISTORY)


class SqliteStore:
    """A memory in one file."""

    def __init__(self, path: Path) -> None:
        self._file = File(path)
        self._frequencies = Frequencies()
        self._caches: list[VectorCache] = []

    @property
    def name(self) -> str:
        """The path."""
        return self._file.name

    def close(self) -> None:
        """Let go of the file."""
        for cache in self._caches:
            cache.close()
        self._file.close()

    # --- banks -------------------------------------------------------------------------------------

    def bank(self, name: str) -> Bank | None:
        """A bank as it is now."""
        found = self._file.read(f"{_BANK} WHERE name = ?", (name,))
        return _bank(found[0]) if found else None

    def banks(self) -> list[Bank]:
        """Every bank, by name."""
        return [_bank(row) for row in self._file.read(f"{_BANK} ORDER BY name")]

    # --- writing -----------------------------------------------------------------------------------

    def write(self, bank: str, records: Sequence[Record], embedder: str, settle: Settle) -> list[bool]:
        """Write all or none as `settle` says; whether each was there before. On disk when this returns."""
        with self._file.transaction() as writer:
            number, version = _begin(writer, bank)
            return [_put(writer, number, version, record, embedder, settle) for record in records]

    def change(self, entry_id: str, change: Change) -> Entry | None:
        """Put what `change` makes of an entry in its place, in one transaction; the entry as it was."""
        with self._file.transaction() as writer:
            row = writer.execute(f"{_SELECT} WHERE id = ?", (entry_id,)).fetchone()
            if row is None:
                return None
            entry = rows.entry_of(row)
            standing, record = change(entry)
            writer.execute(
                f"UPDATE entries SET {_HISTORY} WHERE row = ?", (*rows.history_of(standing), entry.row)
            )
            if record is not None:
                _rewrite(writer, entry, record)
            return entry

    def touch(self, accesses: Mapping[int, int], now: float) -> None:
        """Count accesses by row."""
        with self._file.transaction() as writer:
            writer.executemany(
                "UPDATE entries SET accesses = accesses + ?, accessed_at = max(accessed_at, ?) WHERE row = ?",
                [(times, now, row) for row, times in accesses.items()],
            )

    def forget(self, bank: Bank, chosen: Sequence[int]) -> int:
        """Remove entries with all that belongs to them; how many there were."""
        with self._file.transaction() as writer:
            gone = _entries(writer, chosen)
            for entry in gone:
                _unindex(writer, bank.number, entry)
                writer.execute("DELETE FROM vectors WHERE row = ?", (entry.row,))
                writer.execute("DELETE FROM entries WHERE row = ?", (entry.row,))
            if gone:
                writer.execute(
                    "UPDATE banks SET version = version + 1, epoch = epoch + 1 WHERE number = ?",
                    (bank.number,),
                )
            return len(gone)

    def embed(self, vectors: Sequence[tuple[Entry, Halves]], embedder: str) -> None:
        """Keep vectors for entries whose content is still the same."""
        with self._file.transaction() as writer:
            for entry, data in vectors:
                done = writer.execute(
                    "UPDATE entries SET embedder = ?, version = 1 +"
                    " (SELECT version FROM banks WHERE number = entries.bank) WHERE row = ? AND content = ?",
                    (embedder, entry.row, entry.content),
                )
                if done.rowcount:
                    writer.execute(
                        "INSERT OR REPLACE INTO vectors VALUES (?, ?)", (entry.row, data.tobytes())
                    )
            writer.execute(
                "UPDATE banks SET version = version + 1 WHERE number IN"
                f" (SELECT bank FROM entries WHERE row IN ({_marks(vectors)}))",
                [entry.row for entry, _ in vectors],
            )

    # --- reading -----------------------------------------------------------------------------------

    def find(self, bank: Bank, *, ids: Sequence[str], document_ids: Sequence[str]) -> list[int]:
        """The rows of entries by either name."""
        found: list[int] = []
        for column, names in (("id", ids), ("document_id", document_ids)):
            for some in _parts(names):
                query = f"SELECT row FROM entries WHERE bank = ? AND {column} IN ({_marks(some)})"
                found += [row for (row,) in self._file.read(query, (bank.number, *some))]
        return sorted(set(found))

    def labelled(self, bank: Bank, labels: frozenset[str]) -> list[int]:
        """The rows of entries that have all of these labels, ascending."""
        if not labels:
            return self.all_rows(bank)
        return [
            row for (row,) in self._file.read(f"{fts.LABELLED} ORDER BY row", fts.wanted(bank.number, labels))
        ]

    def entries(self, chosen: Sequence[int]) -> list[Entry]:
        """Entries by row, in no order; those that are gone are left out."""
        with self._file.reading() as reader:
            return _entries(reader, chosen)

    def all_rows(self, bank: Bank) -> list[int]:
        """Every row of a bank, ascending."""
        query = "SELECT row FROM entries WHERE bank = ? ORDER BY row"
        return [row for (row,) in self._file.read(query, (bank.number,))]

    def histories(self, bank: Bank) -> Iterator[tuple[bool, Standing]]:
        """Of every entry, whether it is negative and what happened to it."""
        query = f"SELECT negative, {', '.join(rows.HISTORY)} FROM entries WHERE bank = ?"
        for negative, *history in self._file.read(query, (bank.number,)):
            yield bool(negative), Standing(*history)

    def frequencies(self, bank: Bank, terms: Sequence[str]) -> dict[str, int]:
        """In about how many entries of a bank each word is; those in none are left out."""
        unknown = [term for term in terms if not self._frequencies.knows(bank, term)]
        if unknown:
            with self._file.reading() as reader:
                self._frequencies.learn(bank, unknown, fts.frequencies(reader, bank.number, unknown))
        return self._frequencies.of(bank, terms)

    def lexical(
        self, bank: Bank, weighted: Mapping[str, float], labels: frozenset[str], limit: int, *, ranked: bool
    ) -> list[Match]:
        """The entries that have one of the words at least and all of the labels, best first."""
        with self._file.reading() as reader:
            if ranked:
                return fts.search(reader, bank.number, list(weighted), labels, limit)
            allowed = self.labelled(bank, labels) if labels else None
            return fts.scan(reader, bank.number, weighted, allowed, limit)

    def meaning(self, embedder: str, dimension: int) -> VectorCache:
        """Search in memory, over what is read from the file once."""
        self._caches.append(VectorCache(self, embedder, dimension))
        return self._caches[-1]

    def vectors(self, bank: Bank, embedder: str, after: int) -> Iterator[Kept]:
        """The vectors that an embedder made, of entries changed after a version."""
        query = (
            "SELECT row, data FROM entries JOIN vectors USING (row)"
            " WHERE bank = ? AND version > ? AND embedder = ?"
        )
        with self._file.reading() as reader:
            yield from map(Kept._make, reader.execute(query, (bank.number, after, embedder)))

    def unembedded(self, embedder: str, limit: int) -> list[Entry]:
        """Some entries that have no vectors by this embedder."""
        query = f"{_SELECT} WHERE row IN (SELECT row FROM entries WHERE embedder IS NOT ? LIMIT ?)"
        return [rows.entry_of(row) for row in self._file.read(query, (embedder, limit))]

    def count_unembedded(self, embedder: str) -> dict[str, int]:
        """How many entries have no vectors by this embedder, by the name of their bank."""
        query = (
            "SELECT name, waiting FROM banks JOIN"
            " (SELECT bank, count(*) AS waiting FROM entries WHERE embedder IS NOT ? GROUP BY bank)"
            " ON number = bank"
        )
        return dict(self._file.read(query, (embedder,)))


def _begin(writer: sqlite3.Connection, name: str) -> tuple[int, int]:
    """The number of a bank, made when it is new, and the version that what is now written has."""
    found = writer.execute(
        "UPDATE banks SET version = version + 1 WHERE name = ? RETURNING number, version", (name,)
    )
    row = found.fetchall()
    if row:
        return int(row[0][0]), int(row[0][1])
    number = int(writer.execute("INSERT INTO banks (name, version) VALUES (?, 1)", (name,)).lastrowid or 0)
    fts.create(writer, number)
    return number, 1


def _put(
    writer: sqlite3.Connection, bank: int, version: int, record: Record, embedder: str, settle: Settle
) -> bool:
    old = writer.execute(
        f"{_SELECT} WHERE bank = ? AND document_id = ?", (bank, record.document_id)
    ).fetchone()
    entry = rows.entry_of(old) if old else None
    standing, settled = settle(entry, record)
    record = settled or record
    by = embedder if record.vectors is not None else None
    kept = (*rows.content_of(record), *rows.history_of(standing))
    if entry is None:
        values = (bank, version, by, record.id, record.document_id, *kept)
        row = int(writer.execute(_INSERT, values).lastrowid or 0)
    else:
        row = entry.row
        _unindex(writer, bank, entry)
        writer.execute("DELETE FROM vectors WHERE row = ?", (row,))
        writer.execute(
            f"UPDATE entries SET version = ?, embedder = ?, {_CONTENT}, {_HISTORY} WHERE row = ?",
            (version, by, *kept, row),
        )
    _index(writer, bank, row, record)
    if record.vectors is not None:
        writer.execute("INSERT INTO vectors VALUES (?, ?)", (row, record.vectors.tobytes()))
    return entry is not None


def _rewrite(writer: sqlite3.Connection, entry: Entry, record: Record) -> None:
    (bank,) = writer.execute("SELECT bank FROM entries WHERE row = ?", (entry.row,)).fetchone()
    _unindex(writer, bank, entry)
    writer.execute(f"UPDATE entries SET {_CONTENT} WHERE row = ?", (*rows.content_of(record), entry.row))
    _index(writer, bank, entry.row, record)


def _index(writer: sqlite3.Connection, bank: int, row: int, record: Record) -> None:
    fts.put(writer, bank, row, record.words)
    writer.executemany("INSERT INTO labels VALUES (?, ?, ?)", [(bank, label, row) for label in record.labels])
    _count(writer, bank, 1, rows.count_words(record.words))


def _unindex(writer: sqlite3.Connection, bank: int, entry: Entry) -> None:
    fts.remove(writer, bank, entry.row, entry.words)
    writer.execute("DELETE FROM labels WHERE row = ?", (entry.row,))
    _count(writer, bank, -1, -rows.count_words(entry.words))


def _count(writer: sqlite3.Connection, bank: int, entries: int, words: int) -> None:
    writer.execute(
        "UPDATE banks SET entries = entries + ?, words = words + ? WHERE number = ?", (entries, words, bank)
    )


def _entries(connection: sqlite3.Connection, chosen: Sequence[int]) -> list[Entry]:
    found: list[Entry] = []
    for some in _parts(chosen):
        found += map(rows.entry_of, connection.execute(f"{_SELECT} WHERE row IN ({_marks(some)})", some))
    return found


def _bank(row: tuple[Any, ...]) -> Bank:
    number, name, version, epoch, entries, words = row
    return Bank(number, name, version, epoch, entries, words / entries if entries else 0.0)


def _parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), _SOME):
        yield values[start : start + _SOME]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
