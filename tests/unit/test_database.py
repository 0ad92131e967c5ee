"""The writer and its readers: group commits, events after the commit, versions, damaged files."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.events import Event
from sf.errors import StoreTooNew, StoreUnusable
from sf.harness import settle
from sf.harness.settle import Ending
from sf.store import migrate, units
from sf.store.connection import open_reader, transact
from sf.store.database import Database
from sf.store.tx import Tx
from sf.testing.clock import START
from tests.support.ground import Ground, plant_tasks

NOW = Instant(START)
A = "task/a1"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "sf.db")
    yield opened
    opened.close()


@pytest.mark.conforms("C-03")
async def test_events_are_published_after_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "sf.db"
    seen: list[tuple[str, int]] = []

    def publish(event: Event) -> None:
        with sqlite3.connect(path) as other:
            seen.append((event.name, other.execute("SELECT COUNT(*) FROM units").fetchone()[0]))
        other.close()

    database = Database(path, publish)

    def work(tx: Tx) -> None:
        plant_tasks(tx)
        tx.announce(Event(events.WARNING, NOW))

    await database.write(work)
    assert seen == [(events.WARNING, 1)], "told once, and only when it could be read"

    def fails(tx: Tx) -> None:
        plant_tasks(tx)
        tx.announce(Event(events.AUTO_LOOP, NOW))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.write(fails)
    assert events.AUTO_LOOP not in [name for name, _ in seen]
    assert len(units.listed(database.read)) == 1
    database.close()


async def test_a_failing_job_does_not_disturb_those_committed_with_it(database: Database) -> None:
    gate = threading.Event()

    def hold(tx: Tx) -> None:
        gate.wait(10)

    def fails(tx: Tx) -> None:
        plant_tasks(tx)
        raise ValueError("mine alone")

    def breaks_a_rule(tx: Tx) -> None:
        tx.run("INSERT INTO task_blockers VALUES ('nobody', 'nobody')")

    first = asyncio.ensure_future(database.write(hold))
    await asyncio.sleep(0.05)
    group = [database.write(work) for work in (plant_tasks, fails, plant_tasks, breaks_a_rule, plant_tasks)]
    waiting = asyncio.gather(*group, return_exceptions=True)
    await asyncio.sleep(0.05)
    gate.set()
    results = await waiting
    await first
    assert results[0] == ["task/a1"]
    assert isinstance(results[1], ValueError)
    assert results[2] == ["task/a2"]
    assert isinstance(results[3], sqlite3.IntegrityError)
    assert results[4] == ["task/a3"]
    assert len(units.listed(database.read)) == 3


async def test_a_canceled_caller_does_not_undo_or_silence_its_write(tmp_path: Path) -> None:
    seen: list[str] = []
    database = Database(tmp_path / "sf.db", lambda event: seen.append(event.name))
    gate = threading.Event()

    def work(tx: Tx) -> None:
        gate.wait(10)
        plant_tasks(tx)
        tx.announce(Event(events.WARNING, NOW))

    task = asyncio.create_task(database.write(work))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    await database.write(lambda tx: None)
    assert len(units.listed(database.read)) == 1
    assert events.WARNING in seen
    database.close()


async def test_the_reading_connection_refuses_to_write(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError):
        database.read.run("DELETE FROM units")


def test_a_reader_cannot_write_and_needs_a_database(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        open_reader(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    transact(tmp_path / "sf.db", plant_tasks)
    reader = open_reader(tmp_path / "sf.db")
    assert [unit.id for unit in units.listed(reader)] == [A]
    with pytest.raises(sqlite3.OperationalError):
        reader.run("DELETE FROM units")


def test_a_database_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sf.db"
    transact(path, plant_tasks)
    newest = migrate.known()[-1][0]
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (?, 0, 'from the future')", (newest + 1,))
    connection.close()
    for opener in (Database, open_reader, lambda p: transact(p, plant_tasks)):
        with pytest.raises(StoreTooNew) as refused:
            opener(path)
        assert refused.value.code == "store_too_new"
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT COUNT(*) FROM units").fetchone()[0] == 1
    connection.close()


def test_what_is_no_database_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "sf.db"
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    for opener in (Database, open_reader, lambda p: transact(p, plant_tasks)):
        with pytest.raises(StoreUnusable):
            opener(path)


def test_a_failing_transaction_of_a_command_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sf.db"
    transact(path, plant_tasks)

    def fails(tx: Tx) -> None:
        plant_tasks(tx)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        transact(path, fails)
    assert len(units.listed(open_reader(path))) == 1


def test_migrations_are_applied_once(tmp_path: Path) -> None:
    path = tmp_path / "sf.db"
    for _ in range(2):
        Database(path).close()
    with sqlite3.connect(path) as connection:
        versions = [row[0] for row in connection.execute("SELECT version FROM schema_migrations")]
        assert versions == [version for version, _, _ in migrate.known()]
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    connection.close()


def test_two_openers_of_a_new_database_both_succeed(tmp_path: Path) -> None:
    path = tmp_path / "sf.db"
    problems: list[BaseException] = []

    def work() -> None:
        try:
            transact(path, plant_tasks)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert problems == []
    assert len(units.listed(open_reader(path))) == 6


def test_settling_is_one_transaction(ground: Ground) -> None:
    ground.plant(adhoc=True)
    lease = ground.claim(A)
    assert lease is not None
    before = list(ground.connection.iterdump())

    def crash(tx: Tx) -> None:
        settle.settle(tx, lease, o.Done(), Ending(), ground.rules, ground.now)
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        ground.write(crash)
    assert list(ground.connection.iterdump()) == before
