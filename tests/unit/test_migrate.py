"""Migrations: written once, the same tables on both databases."""

from __future__ import annotations

from pathlib import Path

from sf.store import migrate
from sf.store.connection import engine_of, writing
from sf.store.place import Url
from sf.store.postgres import PostgresEngine
from sf.store.sqlite import SqliteEngine
from tests.support.stores import Server, columns, execute

SERVER = PostgresEngine(Url("postgresql://nowhere/x"))
KINDS = {"INTEGER": "BIGINT", "TEXT": "TEXT", "BLOB": "BYTEA", "REAL": "DOUBLE PRECISION"}


def test_types_are_translated_and_words_that_look_like_types_are_not() -> None:
    statement = """CREATE TABLE t (
  id INTEGER PRIMARY KEY, text TEXT NOT NULL DEFAULT 'INTEGER TEXT', body BLOB,
  share REAL,
  kind TEXT CHECK (kind IN ('TEXT','BLOB')), CHECK (CAST(id AS TEXT) <> '')
) WITHOUT ROWID"""
    assert (
        SERVER.schema(statement)
        == """CREATE TABLE t (
  id BIGINT PRIMARY KEY, text TEXT COLLATE "C" NOT NULL DEFAULT 'INTEGER TEXT', body BYTEA,
  share DOUBLE PRECISION,
  kind TEXT COLLATE "C" CHECK (kind IN ('TEXT','BLOB')), CHECK (CAST(id AS TEXT) <> '')
)"""
    )


def test_a_file_of_its_own_takes_the_place_of_the_translation(tmp_path: Path) -> None:
    (tmp_path / "0001_core.sql").write_text("CREATE TABLE a (id INTEGER); -- a comment; with a semicolon\n")
    (tmp_path / "0002_search.sql").write_text("CREATE VIRTUAL TABLE b USING fts5(text);")
    (tmp_path / "0002_search.postgres.sql").write_text(
        "CREATE TABLE b (text TSVECTOR); CREATE INDEX c ON b(text)"
    )
    first, second = migrate.known(tmp_path)
    assert (first.version, first.description, second.version) == (1, "core", 2)
    assert first.statements(SERVER) == ["CREATE TABLE a (id BIGINT)"]
    assert second.statements(SERVER) == ["CREATE TABLE b (text TSVECTOR)", "CREATE INDEX c ON b(text)"]
    assert second.statements(SqliteEngine(tmp_path)) == ["CREATE VIRTUAL TABLE b USING fts5(text)"]


def test_both_databases_have_the_same_columns_and_indexes(tmp_path: Path, server: Server) -> None:
    file, url = tmp_path / "sf.db", server.fresh()
    ours, theirs = writing(engine_of(file)), writing(engine_of(url))
    here, there = columns(ours, file), columns(theirs, url)
    assert {key: KINDS[kind] for key, kind in here.items()} == there
    ours.close()
    theirs.close()
    indexes = set(execute(file, "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"))
    made = set(execute(url, "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()"))
    assert indexes <= made


def test_text_is_sorted_alike(server: Server) -> None:
    url = server.fresh()
    connection = writing(engine_of(url))
    for name in ("b", "B", "a/1", "a1", "Z", "_"):
        connection.execute("INSERT INTO workflow_pins VALUES (:name, 'n', 'c', 1)", {"name": name})
    found = connection.execute("SELECT hash FROM workflow_pins ORDER BY hash").fetchall()
    connection.close()
    assert [row["hash"] for row in found] == sorted(("b", "B", "a/1", "a1", "Z", "_"))
