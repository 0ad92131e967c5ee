"""PostgreSQL where it differs from a file: other writers, lost connections, its own ideas of types."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest

from sf.domain.clock import Instant
from sf.errors import ProjectLocked, StoreUnusable
from sf.scheduler.notices import Notices, seat
from sf.store import leases, records, runs, sessions, units
from sf.store.connection import engine_of, open_reader, transact
from sf.store.database import Database
from sf.store.place import Url
from sf.store.tx import Tx
from sf.testing.clock import START
from tests.support.ground import plant_tasks
from tests.support.stores import Server

ROOT = Path(__file__).parent.parent.parent
A = "task/a1"
NOW = Instant(START)


@pytest.fixture
def url(server: Server) -> Url:
    return server.fresh()


def end_connections(server: Server, url: Url) -> None:
    """Have the server end every connection to a place, as a restart would."""
    server.do(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%{url.schema}'"
    )


# --- several writers ---


@pytest.mark.conforms("C-47")
def test_two_processes_never_claim_a_unit_twice_nor_give_a_number_twice(url: Url) -> None:
    transact(url, lambda tx: plant_tasks(tx, 500))
    command = [sys.executable, "-m", "tests.support.contender", url.value, url.schema]
    processes = [
        subprocess.Popen([*command, name], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in ("left", "right")
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "500\n", "both have seen every unit before either claims one"
            assert process.stdin is not None
        for process in processes:
            print("go", file=process.stdin, flush=True)
        answers = [json.loads(process.stdout.readline()) for process in processes if process.stdout]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    won = [unit_id for answer in answers for unit_id in answer["won"]]
    assert len(won) == 500
    assert len(set(won)) == 500, "each unit once"
    planted = [unit_id for answer in answers for unit_id in answer["planted"]]
    assert len(set(planted)) == len(planted) == 80, "what was read was still true when it was written"
    read = open_reader(url)
    assert len(runs.live(read)) == 500
    assert {unit.attempt for unit in leases.running(read)} == {1}


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_work_that_reads_before_it_writes_is_alone_whatever_the_servers_default(
    url: Url, isolation: str
) -> None:
    default = quote(f"-cdefault_transaction_isolation={isolation.replace(' ', chr(92) + ' ')}")
    place = Url(f"{url.value}&options={default}", url.schema)
    transact(place, lambda tx: sessions.ensure(tx, NOW, "0"))
    begun = threading.Event()

    def count_up(tx: Tx) -> None:
        session = sessions.current(tx)
        assert session is not None
        begun.set()
        time.sleep(0.2)
        sessions.set_branch(tx, session["id"], str(int(session["integration_branch"]) + 1), NOW)

    first = threading.Thread(target=transact, args=(place, count_up))
    first.start()
    assert begun.wait(10)
    transact(place, count_up)
    first.join(10)
    session = sessions.current(open_reader(place))
    assert session is not None
    assert session["integration_branch"] == "2", "neither count was lost"


def test_a_writer_that_another_keeps_waiting_gives_up_with_a_typed_error(url: Url) -> None:
    transact(url, plant_tasks)
    short = Url(f"{url.value}&options=-clock_timeout%3D200", url.schema)

    def inside(tx: Tx) -> None:
        with pytest.raises(StoreUnusable, match=f"process {os.getpid()} on .* has held it for 0 s"):
            transact(short, plant_tasks)

    transact(url, inside)
    assert len(units.listed(open_reader(url))) == 1


async def test_a_writer_that_hangs_in_its_transaction_is_waited_for_until_the_server_ends_it(
    url: Url,
) -> None:
    transact(url, plant_tasks)
    limits = "-clock_timeout%3D200%20-cidle_in_transaction_session_timeout%3D1000"
    short = Url(f"{url.value}&options={limits}", url.schema)
    told: list[str] = []
    database = Database(short, lambda event: told.append(str(event.data["detail"])))
    sleeper = engine_of(short).connect_writing()
    sleeper.begin()
    try:
        written = await asyncio.gather(*(database.write(plant_tasks) for _ in range(3)))
    finally:
        sleeper.close()
        database.close()
    assert sorted(written) == [["task/a2"], ["task/a3"], ["task/a4"]], "each once"
    assert len(told) == 1, "whoever looks on sees why nothing moves"
    assert f"process {os.getpid()} on" in told[0]
    assert "the server ends it after 1 s" in told[0]


def test_a_writer_waits_for_one_that_hangs_though_the_loop_that_would_be_told_has_ended(url: Url) -> None:
    transact(url, plant_tasks)
    short = Url(f"{url.value}&options=-clock_timeout%3D200", url.schema)
    database = Database(short)
    sleeper = engine_of(short).connect_writing()
    sleeper.begin()

    async def leaves() -> None:
        writing = asyncio.ensure_future(database.write(plant_tasks))
        await asyncio.sleep(0.05)
        writing.cancel()

    async def follows() -> list[str]:
        writing = asyncio.ensure_future(database.write(plant_tasks))
        await asyncio.sleep(0.5)
        sleeper.close()
        return await asyncio.wait_for(writing, 10)

    asyncio.run(leaves())
    assert asyncio.run(follows()) == ["task/a3"]
    database.close()


def test_an_operators_limit_for_statements_is_none_for_the_turn_to_write(url: Url) -> None:
    short = Url(f"{url.value}&options=-cstatement_timeout%3D200", url.schema)
    transact(short, plant_tasks)
    begun = threading.Event()

    def at_length(tx: Tx) -> None:
        begun.set()
        time.sleep(1)

    def limit(tx: Tx) -> str:
        row = tx.one("SHOW statement_timeout")
        assert row is not None
        return str(row[0])

    first = threading.Thread(target=transact, args=(url, at_length))
    first.start()
    assert begun.wait(10)
    assert transact(short, limit) == "200ms", "it waited for the other, and the limit is as it was"
    first.join(10)


# --- a server that goes away ---


async def test_a_lost_connection_is_reported_and_the_next_write_has_a_new_one(
    server: Server, url: Url
) -> None:
    seen: list[str] = []
    database = Database(url, lambda event: seen.append(event.name))
    await database.write(plant_tasks)

    def interrupted(tx: Tx) -> None:
        plant_tasks(tx)
        end_connections(server, url)
        tx.one("SELECT 1")

    with pytest.raises(StoreUnusable) as lost:
        await database.write(interrupted)
    assert lost.value.code == "store_unusable"
    assert len(units.listed(database.read)) == 1, "reported, rolled back, and not repeated"
    assert await database.write(plant_tasks) == ["task/a2"]
    assert len(units.listed(database.read)) == 2
    database.close()


async def test_a_connection_that_was_lost_while_idle_disturbs_nobody(server: Server, url: Url) -> None:
    database = Database(url)
    await database.write(plant_tasks)
    end_connections(server, url)
    assert [unit.id for unit in units.listed(database.read)] == [A]
    end_connections(server, url)
    assert await database.write(plant_tasks) == ["task/a2"], "nothing had been asked of the lost one"
    database.close()


async def test_a_server_that_is_away_for_a_moment_is_waited_for(server: Server) -> None:
    fresh = server.fresh()
    role = fresh.schema
    server.do(f"CREATE ROLE {role} SUPERUSER LOGIN")
    url = Url(fresh.value.replace("//postgres:", f"//{role}:"), fresh.schema)
    database = Database(url)
    server.do(f"ALTER ROLE {role} NOLOGIN")
    end_connections(server, url)
    back = threading.Timer(1, server.do, [f"ALTER ROLE {role} LOGIN"])
    back.start()
    assert await database.write(plant_tasks) == [A]
    assert [unit.id for unit in units.listed(database.read)] == [A]
    back.join()
    database.close()


def with_role(server: Server, place: Url, rights: str = "SUPERUSER") -> tuple[str, Url]:
    """A role of its own for a place, and the place's url with it."""
    role = f"r_{place.schema}"
    server.do(f"CREATE ROLE {role} {rights} LOGIN")
    return role, Url(place.value.replace("//postgres:", f"//{role}:"), place.schema)


async def test_a_server_that_takes_no_writes_for_a_moment_is_waited_for(server: Server, url: Url) -> None:
    role, place = with_role(server, url)
    database = Database(place)
    server.do(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    end_connections(server, place)
    back = threading.Timer(1, server.do, [f"ALTER ROLE {role} RESET default_transaction_read_only"])
    back.start()
    assert await database.write(plant_tasks) == [A], "as when it takes over from another"
    back.join()
    database.close()


async def test_a_server_that_takes_no_writes_is_told_as_such(server: Server, url: Url) -> None:
    role, place = with_role(server, url)
    transact(place, plant_tasks)
    database = Database(place)
    database.hurry()
    server.do(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    end_connections(server, place)
    with pytest.raises(StoreUnusable, match="takes no writes") as late:
        await database.write(plant_tasks)
    database.close()
    with pytest.raises(StoreUnusable, match="takes no writes") as early:
        transact(place, plant_tasks)
    assert "standby" in early.value.hint and late.value.hint == early.value.hint
    assert [unit.id for unit in units.listed(open_reader(place))] == [A], "it can be read"


async def test_a_role_that_may_only_read_is_told_what_it_lacks(server: Server, url: Url) -> None:
    transact(url, plant_tasks)
    role, place = with_role(server, url, "")
    server.do(f"GRANT USAGE ON SCHEMA {url.schema} TO {role}")
    server.do(f"GRANT SELECT ON ALL TABLES IN SCHEMA {url.schema} TO {role}")
    database = Database(place)
    with pytest.raises(StoreUnusable, match="permission denied") as refused:
        await database.write(plant_tasks)
    database.close()
    assert refused.value.hint.startswith("grant the url's role")


async def test_a_transaction_that_slept_too_long_is_a_lost_connection(url: Url) -> None:
    place = Url(f"{url.value}&options=-cidle_in_transaction_session_timeout%3D200", url.schema)
    database = Database(place)

    def asleep(tx: Tx) -> None:
        plant_tasks(tx)
        time.sleep(0.6)
        tx.one("SELECT 1")

    with pytest.raises(StoreUnusable) as lost:
        await database.write(asleep)
    assert "asleep" in lost.value.hint
    assert await database.write(plant_tasks) == [A], "nothing of the other was kept"
    database.close()


def test_a_server_that_is_not_there_is_a_typed_error_without_the_password(tmp_path: Path) -> None:
    nowhere = Url(f"postgresql://me:hunter2@/x?host={tmp_path}", "s")
    for opener in (Database, open_reader, lambda place: transact(place, plant_tasks)):
        with pytest.raises(StoreUnusable) as refused:
            opener(nowhere)
        assert "hunter2" not in refused.value.line() + repr(refused.value) + repr(nowhere) + str(nowhere)


def test_a_malformed_url_is_not_repeated() -> None:
    for text in ("postgresql://me:hunter2@host:5432/x?nonsense=hunter2", "postgresql://me:%zz-hunter2@/x"):
        with pytest.raises(StoreUnusable) as refused:
            open_reader(Url(text))
        assert "hunter2" not in refused.value.line()


# --- its own ideas of types ---


def test_text_with_nul_is_kept_without_it_and_truth_is_a_number(url: Url) -> None:
    transact(url, plant_tasks)
    record = records.GateRecord("unit", True, 0, 0, 3, "tree", True, "script", "before\0after", 1)
    transact(url, lambda tx: records.gate_result(tx, A, "run", record, NOW))
    row = records.gate_results(open_reader(url), A)[0]
    assert row["output"] == "before\ufffdafter"
    assert row["passed"] == 1
    assert open_reader(url).all("SELECT id FROM units WHERE parent_ready = :yes", yes=True)


def test_a_sum_is_a_whole_number(url: Url) -> None:
    transact(url, plant_tasks)
    assert {type(value) for value in dict(runs.totals(open_reader(url))).values()} == {int}
    row = open_reader(url).one("SELECT AVG(n) AS n FROM (VALUES (1), (2)) AS v(n)")
    assert row is not None
    assert row["n"] == 1.5


async def test_a_failure_that_work_swallows_is_not_a_success(url: Url) -> None:
    database = Database(url)

    def swallows(tx: Tx) -> str:
        plant_tasks(tx)
        with pytest.raises(psycopg.IntegrityError):
            tx.run("INSERT INTO task_blockers VALUES ('nobody', 'nobody')")
        return "all is well"

    with pytest.raises(StoreUnusable, match="nothing was committed"):
        await database.write(swallows)
    results = await asyncio.gather(
        *(database.write(work) for work in (plant_tasks, swallows, plant_tasks)), return_exceptions=True
    )
    assert isinstance(results[1], Exception)
    assert len(units.listed(database.read)) == sum(isinstance(result, list) for result in results)
    database.close()


def test_a_database_that_cannot_hold_every_text_is_refused(server: Server) -> None:
    server.do("CREATE DATABASE narrow ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    narrow = Url(server.url.value.replace("/postgres?", "/narrow?"), "s")
    with pytest.raises(StoreUnusable, match="LATIN1"):
        Database(narrow)


def test_projects_in_one_database_do_not_see_each_other(server: Server) -> None:
    here, there = server.fresh(), server.fresh()
    transact(here, lambda tx: plant_tasks(tx, 2))
    transact(there, plant_tasks)
    assert len(units.listed(open_reader(here))) == 2
    assert len(units.listed(open_reader(there))) == 1


# --- the bell and the seat ---


def test_of_a_search_path_the_first_schema_is_the_store(server: Server) -> None:
    own, team = (f"{server.fresh().schema} Team" for _ in range(2))
    for name in (own, team):
        server.do(f'CREATE SCHEMA "{name}"')

    def along(*names: str) -> Url:
        path = ",".join(f'"{name}"' for name in names).replace(" ", "\\ ")
        return Url(f"{server.url.value}&options={quote(f'-csearch_path={path}')}")

    transact(along(team), plant_tasks)
    transact(along(own, team), lambda tx: None)
    assert units.listed(open_reader(along(own, team))) == [], "a store of its own"
    assert [unit.id for unit in units.listed(open_reader(along("absent", team)))] == [A]
    with pytest.raises(StoreUnusable, match="no schema") as refused:
        transact(along("absent"), plant_tasks)
    assert "create it" in refused.value.hint


async def test_a_command_anywhere_wakes_the_loop_with_its_commit(url: Url) -> None:
    transact(url, plant_tasks)
    rung = asyncio.Event()
    notices = Notices(url, rung.set, lambda: None)
    await asyncio.to_thread(_fail_to_write, url)
    await asyncio.sleep(0.1)
    assert not rung.is_set(), "what was not committed is not announced"
    started = time.monotonic()
    await asyncio.to_thread(transact, url, plant_tasks)
    async with asyncio.timeout(5):
        await rung.wait()
    assert time.monotonic() - started < 2
    await notices.aclose()


def _fail_to_write(url: Url) -> None:
    def fails(tx: Tx) -> None:
        plant_tasks(tx)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        transact(url, fails)


async def test_a_lost_line_is_mended_and_rings_once_for_what_was_missed(server: Server, url: Url) -> None:
    transact(url, plant_tasks)
    rung = asyncio.Event()
    notices = Notices(url, rung.set, lambda: None)
    end_connections(server, url)
    async with asyncio.timeout(10):
        await rung.wait()
        rung.clear()
        await asyncio.to_thread(transact, url, plant_tasks)
        await rung.wait()
    await notices.aclose()


class Cutter(socketserver.ThreadingTCPServer):
    """Stands before a server and ends the next connection that asks for something."""

    daemon_threads = True

    def __init__(self, server: Server, word: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Cut)
        self.behind = parse_qs(urlsplit(server.url.value).query)["host"][0] + "/.s.PGSQL.5432"
        self.word = word
        self.cut = threading.Event()
        self.cut.set()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class _Cut(socketserver.BaseRequestHandler):
    server: Cutter

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as behind:
            behind.connect(self.server.behind)
            ends = {self.request: behind, behind: self.request}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    said = end.recv(65536)
                    if not self.server.cut.is_set() and self.server.word in said:
                        self.server.cut.set()
                        return
                    if not said:
                        return
                    ends[end].sendall(said)


async def test_a_line_that_is_lost_again_while_it_is_mended_is_mended(server: Server, url: Url) -> None:
    transact(url, plant_tasks)
    with Cutter(server, b"advisory_lock_shared") as cutter:
        port = cutter.server_address[1]
        rung = asyncio.Event()
        notices = Notices(
            Url(f"postgresql://postgres@127.0.0.1:{port}/postgres", url.schema), rung.set, lambda: None
        )
        cutter.cut.clear()
        end_connections(server, url)
        async with asyncio.timeout(10):
            await rung.wait()
        assert cutter.cut.is_set()
        with pytest.raises(ProjectLocked), seat(url):
            raise AssertionError("the store was taken from under an autopilot")
        cutter.cut.clear()
        end_connections(server, url)
        assert await asyncio.to_thread(cutter.cut.wait, 10)
        await notices.aclose()
        cutter.shutdown()
    with seat(url):
        pass


async def test_autopilots_share_a_store_and_whoever_moves_it_has_it_alone(url: Url) -> None:
    transact(url, plant_tasks)
    notices = Notices(url, lambda: None, lambda: None)
    second = Notices(url, lambda: None, lambda: None)
    await second.aclose()
    with pytest.raises(ProjectLocked), seat(url):
        raise AssertionError("the store was taken from under an autopilot")
    await notices.aclose()
    with seat(url), pytest.raises(ProjectLocked):
        Notices(url, lambda: None, lambda: None)
    with seat(url):
        pass


async def test_whoever_lost_the_seat_is_told(server: Server, url: Url) -> None:
    transact(url, plant_tasks)
    evicted = asyncio.Event()
    notices = Notices(url, lambda: None, evicted.set)
    # Taken before the first holder's loop has turned once, and so before it can mend its line.
    end_connections(server, url)
    with seat(url):
        async with asyncio.timeout(10):
            await evicted.wait()
    await notices.aclose()
