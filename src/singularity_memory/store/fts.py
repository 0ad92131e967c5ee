"""The lexical index of a bank in a SQLite file: a contentless FTS5 table over words that are already cut."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from singularity_memory.store import Match

# Our words are letters, digits and `_`, already folded: the tokenizer must only split at the spaces between.
_TOKENIZE = "unicode61 remove_diacritics 0 tokenchars ''_''"
# One statement whatever their number: SQLite bounds how many SELECTs a compound has, and how deep a term is.
LABELLED = (
    "SELECT row FROM labels WHERE bank = ? AND label IN (SELECT value FROM json_each(?))"
    " GROUP BY row HAVING count(*) = ?"
)


def wanted(bank: int, labels: frozenset[str]) -> tuple[int, str, int]:
    """The values of LABELLED."""
    return bank, json.dumps(sorted(labels)), len(labels)


def create(connection: sqlite3.Connection, bank: int) -> None:
    """Make the index of a new bank."""
    connection.execute(
        f"CREATE VIRTUAL TABLE words_{bank} USING fts5(words, content='', tokenize='{_TOKENIZE}')"
    )


def put(connection: sqlite3.Connection, bank: int, row: int, words: str) -> None:
    """Add an entry's words."""
    connection.execute(f"INSERT INTO words_{bank} (rowid, words) VALUES (?, ?)", (row, words))


def remove(connection: sqlite3.Connection, bank: int, row: int, words: str) -> None:
    """Take an entry's words out; they must be the ones that were put."""
    connection.execute(
        f"INSERT INTO words_{bank} (words_{bank}, rowid, words) VALUES ('delete', ?, ?)", (row, words)
    )


def frequencies(connection: sqlite3.Connection, bank: int, terms: Sequence[str]) -> dict[str, int]:
    """In how many entries each word is."""
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.terms_{bank} USING fts5vocab('main', 'words_{bank}', 'row')"
    )
    found = {}
    for term in terms:
        row = connection.execute(f"SELECT doc FROM temp.terms_{bank} WHERE term = ?", (term,)).fetchone()
        if row is not None:
            found[term] = int(row[0])
    return found


def search(
    connection: sqlite3.Connection, bank: int, terms: Sequence[str], labels: frozenset[str], limit: int
) -> list[Match]:
    """The best entries by FTS5's own BM25 that have one of the words, and all of the labels."""
    asked = " OR ".join(_quoted(term) for term in terms)
    narrowed = f" AND rowid IN ({LABELLED})" if labels else ""
    found = connection.execute(
        f"SELECT rowid, -rank FROM words_{bank} WHERE words_{bank} MATCH ?{narrowed} ORDER BY rank LIMIT ?",
        [asked, *(wanted(bank, labels) if labels else ()), limit],
    )
    return [Match(int(row), float(score)) for row, score in found]


def scan(
    connection: sqlite3.Connection,
    bank: int,
    weighted: Mapping[str, float],
    allowed: Sequence[int] | None,
    limit: int,
) -> list[Match]:
    """The best entries by the weight of the words that they have, however often; newest first among equals.

    FTS5 takes microseconds to rank each entry that it finds; to name them takes a tenth of that.
    """
    lists = [(_rows_with(connection, bank, term), weight) for term, weight in weighted.items()]
    rows, places = np.unique(np.concatenate([found for found, _ in lists]), return_inverse=True)
    weights = np.concatenate([np.full(len(found), weight) for found, weight in lists])
    scores = np.bincount(places, weights=weights, minlength=len(rows))
    if allowed is not None:
        fits = np.isin(rows, np.asarray(allowed, dtype=np.int64))
        rows, scores = rows[fits], scores[fits]
    order = np.lexsort((-rows, -scores))[:limit]
    return [Match(int(rows[index]), float(scores[index])) for index in order]


def _rows_with(connection: sqlite3.Connection, bank: int, term: str) -> NDArray[np.int64]:
    """One string for all rows: a tenth of the time of a Python object for each."""
    query = f"SELECT group_concat(rowid) FROM words_{bank} WHERE words_{bank} MATCH ?"
    ((found,),) = connection.execute(query, (_quoted(term),)).fetchall()
    return np.fromstring(found or "", dtype=np.int64, sep=",")


def _quoted(term: str) -> str:
    return f'"{term}"'
