"""The end of a memory server, whatever it is in the middle of."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import signal
import threading
import time
from pathlib import Path

from tests.support.memory_server import MemoryServer

BANK = "project/ending"
TESTS = "Run the test suite with two workers, or the database tests collide"


class Numbing(http.server.BaseHTTPRequestHandler):
    """An embedder that answers when it is asked for its dimension, and then no more."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        if b"dimension" not in asked:
            time.sleep(25)
        body = b'{"data": [{"index": 0, "embedding": [1.0, 0.0]}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


def test_a_signal_ends_it_in_time_while_a_thread_is_still_at_work(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Numbing) as numbing:
        numbing.daemon_threads = True
        numbing.block_on_close = False
        threading.Thread(target=numbing.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{numbing.server_address[1]}"
        embedder = ("--embedder", "openai", "--embedder-url", address, "--embedder-model", "m")
        with MemoryServer(tmp_path / "data", *embedder, "--limit", "ending_seconds=1") as server:
            asking = threading.Thread(target=_ask_until_cut_off, args=(server,))
            asking.start()
            time.sleep(0.5)
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert time.monotonic() - begun < 15
            assert "ended before" in server.said
        numbing.shutdown()
        asking.join(30)


def _ask_until_cut_off(server: MemoryServer) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        server.retain(BANK, TESTS)
