"""A PostgreSQL that was asked and says nothing: sf goes on elsewhere, or ends when it is told to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import psycopg.conninfo
import pytest

from sf.domain.ids import ulid
from sf.errors import StoreUnusable
from sf.store import wire
from sf.store.connection import engine_of, transact, writing
from sf.store.database import Database
from sf.store.place import Url
from tests.support.ground import plant_tasks
from tests.support.relay import Relay
from tests.support.stage import PASSING, Stage, plan_scene, say, scene, start_sf, task, write
from tests.support.stores import Server, execute

ROOT = Path(__file__).parent.parent.parent
_ASK = """
import sys
from sf.store.connection import open_reader
from sf.store.place import Url
reader = open_reader(Url(*sys.argv[1:]))
print(reader.one("SELECT pg_backend_pid() AS pid")["pid"], flush=True)
sys.stdin.readline()
reader.one("SELECT 1")
"""


@contextlib.contextmanager
def silent(server: Server) -> Iterator[None]:
    """Stop whatever answers for the server on the connections that are open now."""
    with psycopg.connect(server.url.value) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND pid <> pg_backend_pid()"
        ).fetchall()
    pids = [row[0] for row in rows]
    for pid in pids:
        # One that nobody uses any more may have just ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def slow_commits(url: Url, seconds: float) -> None:
    """Have a table whose commits take their time, as they do while a standby is away."""
    writing(engine_of(url)).close()
    for statement in (
        "CREATE TABLE slow (n INTEGER)",
        f"CREATE FUNCTION {url.schema}.late() RETURNS trigger LANGUAGE plpgsql"
        f" AS $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED"
        f" FOR EACH ROW EXECUTE FUNCTION {url.schema}.late()",
    ):
        execute(url, statement)


async def test_a_server_that_falls_silent_counts_as_lost_and_another_connection_is_tried(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "SILENCE", 0.2)
    monkeypatch.setattr(wire, "PROBE", 0.5)
    url = server.fresh()
    database = Database(url)
    with silent(server):
        began = time.monotonic()
        assert database.read.one("SELECT 1 AS n") is not None
        assert await database.write(lambda tx: tx.run("SELECT 1")) == 1
        assert time.monotonic() - began < 3
    database.close()


def test_a_server_that_is_at_work_is_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SILENCE", 0.2)
    url = server.fresh()
    slow_commits(url, 1.0)
    transact(url, lambda tx: tx.run("INSERT INTO slow VALUES (1)"))
    assert execute(url, "SELECT n FROM slow") == [(1,)]


def test_a_server_that_answers_nowhere_is_left(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SILENCE", 0.2)
    monkeypatch.setattr(wire, "PROBE", 1.0)
    with Relay(server) as relay:
        connection = engine_of(Url(relay.url, schema=server.fresh().schema)).connect_writing()
        relay.stall()
        began = time.monotonic()
        with pytest.raises(psycopg.OperationalError, match="said nothing"):
            connection.execute("SELECT 1")
        assert time.monotonic() - began < 3
        connection.close()


def test_who_lost_the_server_in_a_commit_is_told_that_nobody_knows(server: Server) -> None:
    url = server.fresh()
    slow_commits(url, 5.0)
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE query = 'COMMIT' AND application_name LIKE '%{url.schema[:20]}%'"
    )
    threading.Timer(0.5, lambda: server.do(ended)).start()
    with pytest.raises(StoreUnusable, match=r"whether it was written .* is not known") as told:
        transact(url, lambda tx: tx.run("INSERT INTO slow VALUES (1)"))
    assert "sf status" in told.value.hint


def test_whoever_wants_to_end_does_not_wait_for_a_silent_server(server: Server) -> None:
    database = Database(server.fresh())
    with silent(server):
        began = time.monotonic()
        threading.Timer(0.2, database.hurry).start()
        assert database.read.one("SELECT 1 AS n") is not None, "asked again elsewhere"
        assert time.monotonic() - began < 5
    database.close()


def test_a_stop_that_interrupts_a_stop_waits_for_nothing(server: Server) -> None:
    engine = engine_of(server.fresh())
    lines = []

    def look(frame: FrameType, what: str, _: object) -> Any:
        # Where a second signal may be handled: before every line of the first one's handler.
        lines.append(frame.f_lineno)
        if what == "line":
            sys.settrace(None)
            engine.hurry()
            sys.settrace(look)
        return look

    def stuck() -> None:
        sys.settrace(look)
        engine.hurry()
        sys.settrace(None)

    thread = threading.Thread(target=stuck, daemon=True)
    thread.start()
    thread.join(3)
    assert lines
    assert not thread.is_alive(), "it waits for itself"


def test_ctrl_c_ends_a_command_that_waits_for_a_silent_server(server: Server) -> None:
    url = server.fresh()
    transact(url, plant_tasks)
    command = [sys.executable, "-c", _ASK, url.value, url.schema]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as asking:
        try:
            assert asking.stdout is not None
            assert int(asking.stdout.readline()) > 0
            with silent(server):
                print(file=asking.stdin, flush=True)
                time.sleep(0.3)
                asking.send_signal(signal.SIGINT)
                assert "KeyboardInterrupt" in asking.communicate(timeout=3)[1]
        finally:
            asking.kill()


def test_ctrl_c_ends_an_autopilot_whose_server_is_silent(server: Server, tmp_path: Path) -> None:
    with _at_work(server, server.url.value, tmp_path) as process, silent(server):
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        # Soon, unless it fell silent in the middle of a transaction, whose lock the server then keeps.
        process.communicate(timeout=60)
        assert process.returncode == 130


def test_ctrl_c_is_an_interruption_also_when_the_server_stays_silent_to_the_end(
    server: Server, tmp_path: Path
) -> None:
    with Relay(server) as relay, _at_work(server, relay.url, tmp_path) as process:
        relay.stall()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 130, output
        assert "the end was not written down" in output


@contextlib.contextmanager
def _at_work(server: Server, way: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """An autopilot that runs a unit and keeps its rows on the server, which it reaches by a way."""
    stage = Stage(tmp_path / "project", tmp_path / "home" / ".sf")
    url = Url(server.url.value, schema=f"t_{ulid().lower()}")
    server.do(f"CREATE SCHEMA {url.schema}")
    stage.home.mkdir(parents=True, exist_ok=True)
    searching = f"{way}{'&' if '?' in way else '?'}options=-csearch_path%3D{url.schema}"
    stage.project.global_config.write_text(f'[memory]\nmode = "off"\n[store]\nurl = "{searching}"\n')
    stage.script(
        plan_scene({"title": "S", "tasks": [task("one")]}),
        scene("execute", write("a"), say()),
        *PASSING,
        latency_ms=500,
    )
    stage.plan("a goal")
    process = start_sf(stage.root, stage.home, "auto")
    try:
        deadline = time.monotonic() + 20
        while not execute(url, "SELECT id FROM units WHERE phase_status = 'running'"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()
