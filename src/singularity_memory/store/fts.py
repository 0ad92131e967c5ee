"""The lexical index of a bank in a SQLite file: a contentless FTS5 table over words that are already cut."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from singularity_memory.store import Match

# Our words are letters, digits and `_`, already folded: the tokenizer must only split at the spaces between.
_TOKENIZE = "unicode61 remove_diacritics 0 tokenchars ''_''"


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
    connection: sqlite3.Connection, bank: int, terms: Sequence[str], labels: Sequence[str], limit: int
) -> list[Match]:
    """The best entries by BM25 that have one of the words, and all of the labels."""
    wanted = " OR ".join(f'"{term}"' for term in terms)
    narrowed = "".join(" AND rowid IN (SELECT row FROM labels WHERE bank = ? AND label = ?)" for _ in labels)
    values: list[object] = [wanted]
    for label in labels:
        values += [bank, label]
    found = connection.execute(
        f"SELECT rowid, -rank FROM words_{bank} WHERE words_{bank} MATCH ?{narrowed} ORDER BY rank LIMIT ?",
        [*values, limit],
    )
    return [Match(int(row), float(score)) for row, score in found]
