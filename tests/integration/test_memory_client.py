"""The generated client against a real server, and against what is not one."""

from __future__ import annotations

import asyncio
import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from singularity_memory.client import Client, Rejected, Unreachable
from singularity_memory.client.models import (
    Draft,
    ExportRequest,
    FeedbackRequest,
    ForgetRequest,
    ImportRequest,
    RecallRequest,
    RetainRequest,
    ValidateRequest,
)
from tests.support.memory_server import MemoryServer

ROOT = Path(__file__).parent.parent.parent
BANK = "project/client"
TESTS = "Run the test suite with two workers, or the database tests collide"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryServer]:
    with MemoryServer(tmp_path_factory.mktemp("client") / "data") as made:
        yield made


@pytest.mark.conforms("C-96")
async def test_every_operation(server: MemoryServer) -> None:
    async with Client(server.url, server.token) as client:
        entries = [Draft(TESTS, tags=["area:tests"]), Draft(" ")]
        kept, refused = (await client.retain(RetainRequest(BANK, entries))).entries
        assert (kept.status, refused.status, bool(refused.reason)) == ("stored", "refused", True)
        answer = await client.recall(RecallRequest(BANK, "how do I run the tests?", deadline_ms=30_000))
        (hit,) = answer.entries
        assert (hit.id, hit.content, hit.tags, answer.degraded) == (kept.id, TESTS, ["area:tests"], False)
        assert 0 < hit.score <= hit.explanation.fused
        assert (await client.feedback(FeedbackRequest(kept.id, 1))).id == kept.id
        assert (await client.validate(ValidateRequest(kept.id))).id == kept.id
        part = await client.export_entries(ExportRequest(BANK))
        assert ([line.content for line in part.lines], part.next) == ([TESTS], None)
        again = await client.import_entries(ImportRequest("project/copy", part.lines))
        assert [one.status for one in again.entries] == ["stored"]
        assert {bank.bank for bank in (await client.banks()).banks} == {BANK, "project/copy"}
        assert (await client.forget(ForgetRequest(BANK, ids=[kept.id]))).forgotten == 1
        health = await client.health()
        assert health.ok and health.entries == 1


async def test_what_the_server_refuses_is_told_by_its_code(server: MemoryServer) -> None:
    async with Client(server.url, server.token) as client:
        with pytest.raises(Rejected) as refused:
            await client.feedback(FeedbackRequest("nothing", 1))
        assert (refused.value.status, refused.value.told) == (404, "unknown_entry")
    async with Client(server.url, "wrong") as client:
        with pytest.raises(Rejected) as refused:
            await client.banks()
        assert (refused.value.status, refused.value.told) == (401, "unauthorised")
    async with Client(server.url) as client:
        assert (await client.health()).ok


async def test_nobody_there_is_one_kind_of_error() -> None:
    for url in ("http://127.0.0.1:9", "http://nowhere.invalid", "not an address", "ftp://127.0.0.1"):
        with pytest.raises(Unreachable):
            async with Client(url, "t") as client:
                await client.health(seconds=10)


class Odd(http.server.BaseHTTPRequestHandler):
    """A server of another kind: slow, broken or talking about something else."""

    def do_GET(self) -> None:
        if self.path == "/v1/health":
            time.sleep(1.5)
        body = b"<html>" if self.path == "/v1/banks" else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.send_response(503 if self.path == "/v1/recall" else 302)
        self.send_header("Location", "http://127.0.0.1:9/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def odd() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_slow_busy_and_strange_servers(odd: str) -> None:
    async with Client(odd, "t") as client:
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="in time"):
            await client.health(seconds=0.2)
        assert time.monotonic() - begun < 1.4
        with pytest.raises(Unreachable, match="something else"):
            await client.banks()
        with pytest.raises(Unreachable):
            await client.recall(RecallRequest(BANK, "x"))
        with pytest.raises(Rejected):
            await client.forget(ForgetRequest(BANK, ids=["x"]))


async def test_a_server_that_dies_under_a_request_is_unreachable(tmp_path: Path) -> None:
    with MemoryServer(tmp_path / "data") as server:
        async with Client(server.url, server.token) as client:
            await client.retain(RetainRequest(BANK, [Draft(TESTS)]))
            long = [Draft(f"fact {n} about module_{n} " + "word " * 2000) for n in range(200)]
            asking = asyncio.ensure_future(client.retain(RetainRequest(BANK, long)))
            await asyncio.sleep(0.2)
            server.kill()
            with pytest.raises(Unreachable):
                await asking
            with pytest.raises(Unreachable):
                await client.health()


@pytest.mark.conforms("C-96")
def test_the_client_is_what_the_document_says_now() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "scripts" / "generate_client.py", "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stdout + checked.stderr


def test_sf_status_and_the_client_load_nothing_of_the_server() -> None:
    for module in ("sf.surfaces.cli.look", "singularity_memory.client", "singularity_memory.cli.main"):
        loaded = subprocess.run(
            [sys.executable, "-c", f"import {module}, sys; print(*sys.modules)"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.split()
        assert not {"starlette", "uvicorn", "mcp", "pydantic", "onnxruntime", "numpy"} & set(loaded), module
