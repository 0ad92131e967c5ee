"""Migrations: written once, the same tables on both databases."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sf.errors import ProjectLocked, StoreTooNew
from sf.scheduler.lock import ProjectLock
from sf.store import migrate, units
from sf.store.connection import engine_of, open_reader, transact, writing
from sf.store.engine import Engine
from sf.store.place import Place, Url
from sf.store.postgres import PostgresEngine
from sf.store.server import Listening
from sf.store.sqlite import SqliteEngine
from tests.support.ground import plant_tasks
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


_HOLD = """
import sys
from pathlib import Path
from sf.scheduler.lock import ProjectLock
with ProjectLock(Path(sys.argv[1]), "autopilot"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def autopilot(place: Place) -> Iterator[int]:
    """What an autopilot of another process holds while it works from a store; its pid."""
    if isinstance(place, Url):
        line = Listening(place)
        assert line.take_seat(alone=False)
        yield os.getpid()
        line.close()
        return
    command = [sys.executable, "-c", _HOLD, str(place.with_name("run.lock"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield holder.pid
        holder.kill()


def test_no_schema_is_changed_under_an_autopilot_that_works(place: Place) -> None:
    transact(place, plant_tasks)
    execute(place, f"DELETE FROM schema_migrations WHERE version = {migrate.newest()}")
    with autopilot(place) as pid, pytest.raises(ProjectLocked, match="nothing was changed") as told:
        transact(place, plant_tasks)
    assert f"process {pid} on {socket.gethostname()[:16]}" in told.value.message
    assert f"Ctrl-C there or kill {pid} on " in told.value.hint
    assert execute(place, "SELECT MAX(version) FROM schema_migrations") == [(migrate.newest() - 1,)]


def test_who_changes_the_schema_is_waited_for_and_not_to_be_killed(server: Server) -> None:
    place = server.fresh()
    transact(place, plant_tasks)
    execute(place, f"DELETE FROM schema_migrations WHERE version = {migrate.newest()}")
    line = Listening(place)
    assert line.take_seat(alone=True)
    with pytest.raises(ProjectLocked, match="changes the schema") as told:
        transact(place, plant_tasks)
    line.close()
    assert "kill" not in told.value.hint


def test_a_new_store_is_seen_with_nothing_or_with_all_of_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(place)
    making, looking = engine.connect_writing(), engine.connect_writing()
    seen: set[int] = set()
    statements = migrate.Migration.statements

    def looked_at(self: migrate.Migration, engine: Engine) -> list[str]:
        seen.add(migrate.current(looking))
        return statements(self, engine)

    monkeypatch.setattr(migrate.Migration, "statements", looked_at)
    migrate.upgrade(making, engine)
    assert seen == {0} and migrate.current(looking) == migrate.newest()
    making.close()
    looking.close()


def test_a_holder_of_another_container_with_this_pid_is_another_process(tmp_path: Path) -> None:
    place = tmp_path / "sf.db"
    transact(place, plant_tasks)
    execute(place, f"DELETE FROM schema_migrations WHERE version = {migrate.newest()}")
    with autopilot(place):
        lock = place.with_name("run.lock")
        holder = msgspec.json.decode(lock.read_bytes())
        lock.write_bytes(msgspec.json.encode({**holder, "pid": os.getpid()}))
        with pytest.raises(ProjectLocked, match="nothing was changed"):
            transact(place, plant_tasks)
    engine = SqliteEngine(place)
    connection = engine.connect_writing()
    with ProjectLock(lock, "autopilot"), engine.alone(connection):
        connection.close()


def test_a_column_of_a_later_sf_is_told_as_such(place: Place) -> None:
    transact(place, plant_tasks)
    read = open_reader(place)
    execute(place, "ALTER TABLE units ADD COLUMN next_thing TEXT")
    with pytest.raises(StoreTooNew, match="upgraded meanwhile by a newer sf: next_thing"):
        units.listed(read)
