"""sf's side of a memory server that says no, says something else, or does not stop talking."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sf.domain.knowledge import Lesson
from sf.errors import MemoryRefused, MemoryUnavailable
from sf.memory.remote import RemoteMemory
from singularity_memory.client import connection
from tests.support.memory_server import MemoryServer

BANK = "project/remote"
LESSON = Lesson("Dates are parsed in dates.py and must be ISO strings")
DEEP = b'{"entries": [], "more": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"


class Liar(http.server.BaseHTTPRequestHandler):
    """A server that answers with what its bank's name asks for."""

    seen: list[str] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(self.path)
        if b"endless" in body:
            self._endless()
        elif b"elsewhere" in body:
            self._say(307, b"", f"http://{self.headers['Host']}/stolen")
        else:
            self._say(200, DEEP if b"deep" in body else b'{"entries": []}')

    def _say(self, status: int, body: bytes, location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" " * 2**20)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def liar() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Liar.seen.clear()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("bank", ["deep", "endless", "elsewhere", "too few"])
async def test_an_answer_that_is_none_keeps_the_lesson_waiting(liar: str, bank: str) -> None:
    assert connection.LONGEST_ANSWER < 2**28, "this test reads as much"
    memory = RemoteMemory(liar, "secret-token")
    try:
        with pytest.raises(MemoryUnavailable):
            await memory.retain(bank, [LESSON])
    finally:
        await memory.aclose()
    assert Liar.seen == ["/v1/retain"], "the token goes nowhere else"


async def test_a_token_that_is_not_taken_is_no_refusal_of_the_lesson(tmp_path: Path) -> None:
    with MemoryServer(tmp_path / "data") as server:
        memory = RemoteMemory(server.url, "wrong")
        with pytest.raises(MemoryUnavailable, match="unauthorised"):
            await memory.retain(BANK, [LESSON])
        await memory.aclose()
        elsewhere = RemoteMemory(server.url + "/elsewhere", server.token)
        with pytest.raises(MemoryUnavailable, match="no_such_place"):
            await elsewhere.retain(BANK, [LESSON])
        await elsewhere.aclose()
        mine = RemoteMemory(server.url, server.token)
        with pytest.raises(MemoryRefused, match="unknown_entry"):
            await mine.feedback("nothing", 1, bank=BANK)
        await mine.aclose()


async def test_neither_a_login_nor_a_token_is_told() -> None:
    memory = RemoteMemory("http://somebody:hunter22@127.0.0.1:9", "t")
    with pytest.raises(MemoryUnavailable) as away:
        await memory.health()
    await memory.aclose()
    assert "hunter22" not in str(away.value) and "127.0.0.1:9" in str(away.value)
    for token in ("first-line\nsecond-line", "schlüssel", "two words"):
        with pytest.raises(MemoryUnavailable) as refused:
            RemoteMemory("http://127.0.0.1:9", token)
        assert token not in str(refused.value)
