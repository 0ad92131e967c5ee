"""PostgreSQL with pgvector, for a memory that several machines share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from singularity_memory.embedders import Halves, Vector
from singularity_memory.ranking import background
from singularity_memory.standing import Standing
from singularity_memory.store import Bank, Change, Entry, Kept, Match, Nearness, Record, Settle, rows
from singularity_memory.store.server import Connection, Server

_SELECT = f"SELECT {', '.join(rows.COLUMNS)} FROM entries"
_BANK = "SELECT number, name, version, epoch, entries, words FROM banks"
_INSERT = (
    "INSERT INTO entries (bank, version, embedder, id, document_id, content, words, tags, metadata, negative,"
    f" {', '.join(rows.HISTORY)}, terms) VALUES ({', '.join(['%s'] * (11 + len(rows.HISTORY)))})"
    " RETURNING row"
)
_CONTENT = "content = %s, words = %s, tags = %s, metadata = %s, negative = %s"
_HISTORY = ", ".join(f"{name} = %s" for name in rows.HISTORY)
_LABELLED = (
    " AND row IN (SELECT row FROM labels WHERE bank = %s AND label = ANY(%s)"
    " GROUP BY row HAVING count(*) = %s)"
)


class PostgresStore:
    """A memory on a server."""

    def __init__(self, url: str) -> None:
        self._server = Server(url)

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self._server.name

    def close(self) -> None:
        """Let go of the server."""
        self._server.close()

    def bank(self, name: str) -> Bank | None:
        """A bank as it is now."""
        found = self._server.read(f"{_BANK} WHERE name = %s", (name,))
        return _bank(found[0]) if found else None

    def banks(self) -> list[Bank]:
        """Every bank, by name."""
        return [_bank(row) for row in self._server.read(f'{_BANK} ORDER BY name COLLATE "C"')]

    # --- writing -----------------------------------------------------------------------------------

    def write(self, bank: str, records: Sequence[Record], embedder: str, settle: Settle) -> list[bool]:
        """Write all or none as `settle` says; whether each was there before. On disk when this returns."""
        with self._server.transaction() as writer:
            number, version = writer.execute(
                "INSERT INTO banks (name, version) VALUES (%s, 1) ON CONFLICT (name)"
                " DO UPDATE SET version = banks.version + 1 RETURNING number, version",
                (bank,),
            ).fetchall()[0]
            return [_put(writer, number, version, record, embedder, settle) for record in records]

    def change(self, entry_id: str, change: Change) -> Entry | None:
        """Put what `change` makes of an entry in its place, in one transaction; the entry as it was."""
        with self._server.transaction() as writer:
            found = writer.execute(f"{_SELECT} WHERE id = %s".encode(), (entry_id,)).fetchone()
            if found is None:
                return None
            entry = rows.entry_of(found)
            standing, record = change(entry)
            writer.execute(
                f"UPDATE entries SET {_HISTORY} WHERE row = %s".encode(),
                (*rows.history_of(standing), entry.row),
            )
            if record is not None:
                _rewrite(writer, entry, record)
            return entry

    def touch(self, accesses: Mapping[int, int], now: float) -> None:
        """Count accesses by row."""
        with self._server.transaction() as writer:
            writer.execute(
                "UPDATE entries SET accesses = accesses + times, accessed_at = greatest(accessed_at, %s)"
                " FROM unnest(%s::bigint[], %s::bigint[]) AS touched (touched_row, times)"
                " WHERE row = touched_row",
                (now, list(accesses), list(accesses.values())),
            )

    def forget(self, bank: Bank, chosen: Sequence[int]) -> int:
        """Remove entries with all that belongs to them; how many there were."""
        with self._server.transaction() as writer:
            gone = writer.execute(
                "DELETE FROM entries WHERE bank = %s AND row = ANY(%s) RETURNING words",
                (bank.number, list(chosen)),
            ).fetchall()
            if gone:
                writer.execute(
                    "UPDATE banks SET version = version + 1, epoch = epoch + 1, entries = entries - %s,"
                    " words = words - %s WHERE number = %s",
                    (len(gone), sum(rows.count_words(words) for (words,) in gone), bank.number),
                )
            return len(gone)

    def embed(self, vectors: Sequence[tuple[Entry, Halves]], embedder: str) -> None:
        """Keep vectors for entries whose content is still the same."""
        with self._server.transaction() as writer:
            for entry, data in vectors:
                done = writer.execute(
                    "UPDATE entries SET embedder = %s,"
                    " version = 1 + (SELECT version FROM banks WHERE number = entries.bank)"
                    " WHERE row = %s AND content = %s",
                    (embedder, entry.row, entry.content),
                )
                if done.rowcount:
                    _put_vectors(writer, entry.row, data, embedder)
            writer.execute(
                "UPDATE banks SET version = version + 1 WHERE number IN"
                " (SELECT bank FROM entries WHERE row = ANY(%s))",
                ([entry.row for entry, _ in vectors],),
            )

    # --- reading -----------------------------------------------------------------------------------

    def find(self, bank: Bank, *, ids: Sequence[str], document_ids: Sequence[str]) -> list[int]:
        """The rows of entries by either name."""
        query = (
            "SELECT row FROM entries WHERE bank = %s AND (id = ANY(%s) OR document_id = ANY(%s)) ORDER BY row"
        )
        return [row for (row,) in self._server.read(query, (bank.number, list(ids), list(document_ids)))]

    def labelled(self, bank: Bank, labels: frozenset[str]) -> list[int]:
        """The rows of entries that have all of these labels, ascending."""
        if not labels:
            return self.all_rows(bank)
        query = f"SELECT row FROM entries WHERE bank = %s{_LABELLED} ORDER BY row"
        return [row for (row,) in self._server.read(query, (bank.number, *_wanted(bank, labels)))]

    def entries(self, chosen: Sequence[int]) -> list[Entry]:
        """Entries by row, in no order; those that are gone are left out."""
        found = self._server.read(f"{_SELECT} WHERE row = ANY(%s)", (list(chosen),))
        return [rows.entry_of(row) for row in found]

    def all_rows(self, bank: Bank) -> list[int]:
        """Every row of a bank, ascending."""
        query = "SELECT row FROM entries WHERE bank = %s ORDER BY row"
        return [row for (row,) in self._server.read(query, (bank.number,))]

    def histories(self, bank: Bank) -> Iterator[tuple[bool, Standing]]:
        """Of every entry, whether it is negative and what happened to it."""
        query = f"SELECT negative, {', '.join(rows.HISTORY)} FROM entries WHERE bank = %s"
        for negative, *history in self._server.read(query, (bank.number,)):
            yield bool(negative), Standing(*history)

    def frequencies(self, bank: Bank, terms: Sequence[str]) -> dict[str, int]:
        """In how many entries of a bank each word is; those in none are left out."""
        query = (
            "SELECT term, count(*) FROM unnest(%s::text[]) AS wanted (term)"
            " JOIN entries ON bank = %s AND terms @> ARRAY[term] GROUP BY term"
        )
        return {term: int(count) for term, count in self._server.read(query, (list(terms), bank.number))}

    def lexical(
        self, bank: Bank, weighted: Mapping[str, float], labels: frozenset[str], limit: int, *, ranked: bool
    ) -> list[Match]:
        """The entries that have one of the words at least and all of the labels, best first."""
        terms = list(weighted)
        query = (
            "SELECT row, sum(weight) AS score FROM entries"
            " JOIN unnest(%s::text[], %s::float8[]) AS wanted (term, weight) ON term = ANY(terms)"
            f" WHERE bank = %s AND terms && %s::text[]{_LABELLED if labels else ''}"
            " GROUP BY row ORDER BY score DESC, row LIMIT %s"
        )
        narrowed = _wanted(bank, labels) if labels else ()
        values = (terms, list(weighted.values()), bank.number, terms, *narrowed, limit)
        return [Match(row, float(score)) for row, score in self._server.read(query, values)]

    def meaning(self, embedder: str, dimension: int) -> ServerMeaning:
        """Search by pgvector, exact, on the server."""
        return ServerMeaning(self._server, embedder)

    def vectors(self, bank: Bank, embedder: str, after: int) -> Iterator[Kept]:
        """The vectors that an embedder made, of entries changed after a version."""
        query = (
            "SELECT row, array_agg(data::real[] ORDER BY passage) FROM entries JOIN vectors USING (row)"
            " WHERE bank = %s AND version > %s AND vectors.embedder = %s GROUP BY row ORDER BY row"
        )
        for row, data in self._server.read(query, (bank.number, after, embedder)):
            yield Kept(row, np.asarray(data, dtype=np.float16).tobytes())

    def unembedded(self, embedder: str, limit: int) -> list[Entry]:
        """Some entries that have no vectors by this embedder."""
        query = f"{_SELECT} WHERE embedder IS DISTINCT FROM %s LIMIT %s"
        return [rows.entry_of(row) for row in self._server.read(query, (embedder, limit))]

    def count_unembedded(self, embedder: str) -> dict[str, int]:
        """How many entries have no vectors by this embedder, by the name of their bank."""
        query = (
            "SELECT name, count(*) FROM entries JOIN banks ON number = bank"
            " WHERE embedder IS DISTINCT FROM %s GROUP BY name"
        )
        return {name: int(count) for name, count in self._server.read(query, (embedder,))}


class ServerMeaning:
    """Search by meaning with pgvector."""

    def __init__(self, server: Server, embedder: str) -> None:
        self._server, self._embedder = server, embedder

    def ready(self, bank: Bank, seconds: float | None) -> bool:
        """Always: the server has its vectors at hand."""
        return True

    def nearest(
        self, bank: Bank, query: Vector, limit: int, labels: frozenset[str], also: Sequence[int]
    ) -> Nearness:
        """The nearest entries that have all of the labels, nearest first, and something of others."""
        near = (
            "WITH far AS (SELECT row, passage, data <=> %s::halfvec AS distance"
            " FROM vectors JOIN entries USING (row) WHERE bank = %s AND vectors.embedder = %s),"
            " near AS MATERIALIZED (SELECT row,"
            " 1 - (min(distance) + min(distance) FILTER (WHERE passage = 0)) / 2 AS similarity"
            " FROM far GROUP BY row)"
        )
        asked = (_as_text(query), bank.number, self._embedder)
        allowed = _LABELLED if labels else ""
        narrowed = _wanted(bank, labels) if labels else ()
        found = self._server.read(
            f"{near} (SELECT 0, row, similarity FROM near WHERE true{allowed}"
            " ORDER BY similarity DESC, row LIMIT %s)"
            " UNION ALL (SELECT 1, row, similarity FROM near WHERE row = ANY(%s))"
            " UNION ALL (SELECT 2, count(*), coalesce(sum(similarity), 0) FROM near)"
            " UNION ALL (SELECT 3, 0, coalesce(sum(similarity * similarity), 0) FROM near)",
            (*asked, *narrowed, limit, list(also)),
        )
        by_part: dict[int, list[tuple[int, float]]] = {0: [], 1: [], 2: [], 3: []}
        for part, row, similarity in found:
            by_part[part].append((int(row), float(similarity)))
        ((count, total),), ((_, squares),) = by_part[2], by_part[3]
        best = sorted(by_part[0], key=lambda one: (-one[1], one[0]))
        return Nearness(
            dict(by_part[1]) | dict(best), [row for row, _ in best], background(count, total, squares)
        )


def _put(writer: Connection, bank: int, version: int, record: Record, embedder: str, settle: Settle) -> bool:
    found = writer.execute(
        f"{_SELECT} WHERE bank = %s AND document_id = %s".encode(), (bank, record.document_id)
    ).fetchone()
    entry = rows.entry_of(found) if found else None
    standing, settled = settle(entry, record)
    record = settled or record
    by = embedder if record.vectors is not None else None
    kept = (*rows.content_of(record), *rows.history_of(standing), _terms(record))
    if entry is None:
        values = (bank, version, by, record.id, record.document_id, *kept)
        ((row,),) = writer.execute(_INSERT.encode(), values).fetchall()
    else:
        row = entry.row
        _unindex(writer, bank, entry)
        writer.execute("DELETE FROM vectors WHERE row = %s", (row,))
        writer.execute(
            f"UPDATE entries SET version = %s, embedder = %s, {_CONTENT}, {_HISTORY}, terms = %s"
            " WHERE row = %s".encode(),
            (version, by, *kept, row),
        )
    _index(writer, bank, row, record)
    if record.vectors is not None:
        _put_vectors(writer, row, record.vectors, embedder)
    return entry is not None


def _rewrite(writer: Connection, entry: Entry, record: Record) -> None:
    ((bank,),) = writer.execute("SELECT bank FROM entries WHERE row = %s", (entry.row,)).fetchall()
    _unindex(writer, bank, entry)
    writer.execute(
        f"UPDATE entries SET {_CONTENT}, terms = %s WHERE row = %s".encode(),
        (*rows.content_of(record), _terms(record), entry.row),
    )
    _index(writer, bank, entry.row, record)


def _index(writer: Connection, bank: int, row: int, record: Record) -> None:
    writer.execute("INSERT INTO labels SELECT %s, unnest(%s::text[]), %s", (bank, list(record.labels), row))
    _count(writer, bank, 1, rows.count_words(record.words))


def _unindex(writer: Connection, bank: int, entry: Entry) -> None:
    writer.execute("DELETE FROM labels WHERE row = %s", (entry.row,))
    _count(writer, bank, -1, -rows.count_words(entry.words))


def _count(writer: Connection, bank: int, entries: int, words: int) -> None:
    writer.execute(
        "UPDATE banks SET entries = entries + %s, words = words + %s WHERE number = %s",
        (entries, words, bank),
    )


def _put_vectors(writer: Connection, row: int, data: Halves, embedder: str) -> None:
    writer.execute("DELETE FROM vectors WHERE row = %s", (row,))
    with writer.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO vectors VALUES (%s, %s, %s, %s::halfvec)",
            [(row, passage, embedder, _as_text(vector)) for passage, vector in enumerate(data)],
        )


def _terms(record: Record) -> list[str]:
    return sorted(set(record.words.split(" ")))


def _as_text(vector: Vector | Halves) -> str:
    return "[" + ",".join(f"{value:.6g}" for value in vector.tolist()) + "]"


def _wanted(bank: Bank, labels: frozenset[str]) -> tuple[int, list[str], int]:
    return bank.number, sorted(labels), len(labels)


def _bank(row: tuple[Any, ...]) -> Bank:
    number, name, version, epoch, entries, words = row
    return Bank(number, name, version, epoch, entries, words / entries if entries else 0.0)
