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

import psycopg
import pytest

from sf.domain.ids import ulid
from sf.store import wire
from sf.store.connection import engine_of, transact, writing
from sf.store.database import Database
from sf.store.place import Url
from tests.support.ground import plant_tasks
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
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def test_a_server_that_falls_silent_counts_as_lost_and_another_connection_is_tried(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "SILENCE", 0.5)
    url = server.fresh()
    database = Database(url)
    with silent(server):
        began = time.monotonic()
        assert database.read.one("SELECT 1 AS n") is not None
        assert await database.write(lambda tx: tx.run("SELECT 1")) == 1
        assert time.monotonic() - began < 3
    database.close()


def test_a_change_of_the_schema_may_take_its_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SILENCE", 0.5)
    engine = engine_of(server.fresh())
    connection = writing(engine)
    with engine.alone(connection):
        connection.begin()
        assert connection.execute("SELECT pg_sleep(1)").fetchone() is not None
        connection.commit()
    with pytest.raises(psycopg.OperationalError, match="said nothing"):
        connection.execute("SELECT pg_sleep(1)")
    connection.close()


def test_whoever_wants_to_end_does_not_wait_for_a_silent_server(server: Server) -> None:
    database = Database(server.fresh())
    with silent(server):
        began = time.monotonic()
        threading.Timer(0.2, database.hurry).start()
        assert database.read.one("SELECT 1 AS n") is not None, "asked again elsewhere"
        assert time.monotonic() - began < 5
    database.close()


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
    stage = Stage(tmp_path / "project", tmp_path / "home" / ".sf")
    url = Url(server.url.value, schema=f"t_{ulid().lower()}")
    server.do(f"CREATE SCHEMA {url.schema}")
    stage.home.mkdir(parents=True, exist_ok=True)
    searching = f"{url.value}{'&' if '?' in url.value else '?'}options=-csearch_path%3D{url.schema}"
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
        with silent(server):
            time.sleep(0.7)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
        assert process.returncode == 130
    finally:
        process.kill()
        process.wait()
