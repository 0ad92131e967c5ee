"""The writer and its readers: group commits, events after the commit, versions, damaged files."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.events import Event
from sf.errors import StoreTooNew, StoreTooOld, StoreUnusable
from sf.harness import settle
from sf.harness.settle import Ending
from sf.store import migrate, units
from sf.store.connection import open_reader, transact
from sf.store.database import Database
from sf.store.place import Place
from sf.store.tx import Tx
from sf.testing.clock import START
from tests.support.ground import Ground, plant_tasks
from tests.support.stores import READ_ONLY, RULE_BROKEN, execute

NOW = Instant(START)
A = "task/a1"


@pytest.fixture
def database(place: Place) -> Iterator[Database]:
    opened = Database(place)
    yield opened
    opened.close()


@pytest.mark.conforms("C-03")
async def test_events_are_published_after_the_commit(place: Place) -> None:
    seen: list[tuple[str, int]] = []

    def publish(event: Event) -> None:
        seen.append((event.name, execute(place, "SELECT COUNT(*) FROM units")[0][0]))

    database = Database(place, publish)

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
    assert isinstance(results[3], RULE_BROKEN)
    assert results[4] == ["task/a3"]
    assert len(units.listed(database.read)) == 3


async def test_what_arrives_while_a_write_is_carried_out_is_committed_with_it(place: Place) -> None:
    """Both can be read as soon as either is told of, though the second came when the first had begun."""
    seen: list[int] = []
    opened = Database(place, lambda event: seen.append(len(units.listed(opened.read))))
    gate = threading.Event()

    def holds(tx: Tx) -> None:
        gate.wait(10)
        plant_tasks(tx)
        tx.announce(Event(events.WARNING, NOW))

    first = asyncio.ensure_future(opened.write(holds))
    await asyncio.sleep(0.05)
    second = asyncio.ensure_future(opened.write(plant_tasks))
    await asyncio.sleep(0.05)
    gate.set()
    await asyncio.gather(first, second)
    assert seen[0] == 2
    opened.close()


async def test_what_is_handed_over_in_one_moment_shares_a_commit(place: Place) -> None:
    """The writer is woken when all of it is there, not by the first."""
    seen: list[int] = []
    opened = Database(place, lambda event: seen.append(len(units.listed(opened.read))))

    def plants(tx: Tx) -> None:
        plant_tasks(tx)
        tx.announce(Event(events.WARNING, NOW))

    async def takes_its_time() -> None:
        time.sleep(0.003)  # noqa: ASYNC251
        await opened.write(plants)

    for moment in range(5):
        await asyncio.sleep(0.02)
        await asyncio.gather(*[takes_its_time() for _ in range(5)])
        assert seen == [5 * (moment + 1)] * 5
        seen.clear()
    opened.close()


async def test_those_behind_a_write_that_failed_are_kept(database: Database) -> None:
    gate = threading.Event()

    def holds_and_fails(tx: Tx) -> None:
        plant_tasks(tx)
        gate.wait(10)
        raise ValueError("mine alone")

    def fails(tx: Tx) -> None:
        plant_tasks(tx)
        raise KeyError("mine too")

    first = asyncio.ensure_future(database.write(holds_and_fails))
    await asyncio.sleep(0.05)
    behind = [database.write(work) for work in (fails, plant_tasks, fails, plant_tasks)]
    waiting = asyncio.gather(first, *behind, return_exceptions=True)
    await asyncio.sleep(0.05)
    gate.set()
    results = await waiting
    assert [type(result) for result in results] == [ValueError, KeyError, list, KeyError, list]
    assert [unit.id for unit in units.listed(database.read)] == ["task/a1", "task/a2"]


async def test_a_database_that_is_closed_meanwhile_still_writes_what_waits(place: Place) -> None:
    database = Database(place)
    gate = threading.Event()

    def holds(tx: Tx) -> None:
        gate.wait(10)

    waiting = asyncio.gather(database.write(holds), database.write(plant_tasks))
    await asyncio.sleep(0.05)
    closing = asyncio.create_task(asyncio.to_thread(database.close))
    await asyncio.sleep(0.05)
    gate.set()
    assert (await waiting)[1] == ["task/a1"]
    await closing
    assert execute(place, "SELECT COUNT(*) FROM units") == [(1,)]


async def test_a_canceled_caller_does_not_undo_or_silence_its_write(place: Place) -> None:
    seen: list[str] = []
    database = Database(place, lambda event: seen.append(event.name))
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


def test_a_loop_that_ends_before_it_is_answered_leaves_the_writer_to_the_next_one(tmp_path: Path) -> None:
    database = Database(tmp_path / "sf.db")
    begun, gate = threading.Event(), threading.Event()

    def holds(tx: Tx) -> None:
        begun.set()
        gate.wait(10)

    async def leaves() -> None:
        writing = asyncio.ensure_future(database.write(holds))
        await asyncio.to_thread(begun.wait, 10)
        writing.cancel()

    async def follows() -> list[str]:
        writing = asyncio.ensure_future(database.write(plant_tasks))
        await asyncio.sleep(0.05)
        gate.set()
        return await asyncio.wait_for(writing, 10)

    asyncio.run(leaves())
    assert asyncio.run(follows()) == ["task/a1"]
    database.close()
    database.close()


def test_the_loops_of_many_threads_write_to_one_database(tmp_path: Path) -> None:
    database = Database(tmp_path / "sf.db")
    wrong: list[Exception] = []

    async def write() -> None:
        await asyncio.wait_for(database.write(lambda tx: None), 30)

    def runs_loops() -> None:
        try:
            for _ in range(60):
                asyncio.run(write())
        except Exception as error:
            wrong.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=runs_loops) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    database.close()


async def test_who_waits_is_answered_though_nobody_can_be_told(place: Place) -> None:
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))

    def publish(event: Event) -> None:
        raise RuntimeError("no ear")

    database = Database(place, publish)

    def announces(tx: Tx) -> int:
        tx.announce(Event(events.WARNING, NOW))
        tx.announce(Event(events.AUTO_LOOP, NOW))
        return len(plant_tasks(tx))

    written = asyncio.gather(*(database.write(announces) for _ in range(3)))
    assert await asyncio.wait_for(written, 10) == [1, 1, 1]
    assert told == [f"{name} could not be told" for name in (events.WARNING, events.AUTO_LOOP) * 3]
    database.close()


async def test_the_reading_connection_refuses_to_write(database: Database) -> None:
    with pytest.raises(READ_ONLY):
        database.read.run("DELETE FROM units")


def test_a_reader_cannot_write_and_needs_a_database(place: Place) -> None:
    with pytest.raises(StoreUnusable, match="there is no database"):
        open_reader(place)
    assert not isinstance(place, Path) or not place.exists()
    transact(place, plant_tasks)
    reader = open_reader(place)
    assert [unit.id for unit in units.listed(reader)] == [A]
    with pytest.raises(READ_ONLY):
        reader.run("DELETE FROM units")


def test_a_database_of_a_newer_version_is_refused_and_left_alone(place: Place) -> None:
    transact(place, plant_tasks)
    execute(place, f"INSERT INTO schema_migrations VALUES ({migrate.newest() + 1}, 0, 'from the future')")
    for opener in (Database, open_reader, lambda p: transact(p, plant_tasks)):
        with pytest.raises(StoreTooNew) as refused:
            opener(place)
        assert refused.value.code == "store_too_new"
        assert f"schema version {migrate.newest() + 1}; this sf knows up to" in refused.value.line()
    assert execute(place, "SELECT COUNT(*) FROM units") == [(1,)]


def test_a_database_of_an_older_version_is_read_by_nobody_until_it_is_brought_up(place: Place) -> None:
    transact(place, plant_tasks)
    execute(place, "UPDATE schema_migrations SET version = version - 1000")
    with pytest.raises(StoreTooOld) as refused:
        open_reader(place)
    assert f"this sf reads {migrate.newest()}" in refused.value.line()
    assert "sf init" in refused.value.hint


def test_what_is_no_database_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "sf.db"
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    for opener in (Database, open_reader, lambda p: transact(p, plant_tasks)):
        with pytest.raises(StoreUnusable):
            opener(path)


def test_a_file_that_fails_while_it_is_read_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "sf.db"
    transact(path, plant_tasks)
    reader = open_reader(path)
    transact(path, lambda tx: tx.run("DROP TABLE intents"))
    with pytest.raises(StoreUnusable, match="cannot read"):
        reader.all("SELECT * FROM intents")
    with pytest.raises(StoreUnusable, match="cannot read"):
        reader.one("SELECT COUNT(*) FROM intents")


def test_a_failing_transaction_of_a_command_leaves_nothing(place: Place) -> None:
    transact(place, plant_tasks)

    def fails(tx: Tx) -> None:
        plant_tasks(tx)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        transact(place, fails)
    assert len(units.listed(open_reader(place))) == 1


def test_migrations_are_applied_once(place: Place) -> None:
    for _ in range(2):
        Database(place).close()
    versions = execute(place, "SELECT version FROM schema_migrations ORDER BY version")
    assert versions == [(migration.version,) for migration in migrate.known()]
    if isinstance(place, Path):
        assert execute(place, "PRAGMA journal_mode") == [("wal",)]


def test_two_openers_of_a_new_database_both_succeed(place: Place) -> None:
    problems: list[BaseException] = []

    def work() -> None:
        try:
            transact(place, plant_tasks)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert problems == []
    assert len(units.listed(open_reader(place))) == 6


def test_who_makes_the_file_at_the_same_moment_is_waited_for(tmp_path: Path) -> None:
    """SQLite gives up at once where one file is put into WAL mode while another connection writes it."""
    path = tmp_path / "sf.db"
    Database(path).close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    other.execute("BEGIN IMMEDIATE")
    ending = threading.Timer(0.2, other.close)
    ending.start()
    transact(path, plant_tasks)
    ending.join()
    assert execute(path, "PRAGMA journal_mode") == [("wal",)]


def test_settling_is_one_transaction(ground: Ground) -> None:
    ground.plant(adhoc=True)
    lease = ground.claim(A)
    assert lease is not None
    before = ground.dump()

    def crash(tx: Tx) -> None:
        settle.settle(tx, lease, o.Done(), Ending(), ground.rules, ground.now)
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        ground.write(crash)
    assert ground.dump() == before
