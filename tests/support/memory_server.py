"""A `singularity-memory serve` as a process, and plain HTTP to it."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

PATIENCE = 90.0
COMMAND = (sys.executable, "-m", "singularity_memory")


class Reply(NamedTuple):
    """An answer over HTTP."""

    status: int
    body: Any
    headers: Mapping[str, str]


class MemoryServer:
    """A server on a data folder, with the static model; killed when the block ends."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.data = data
        self._process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0", "--data", str(data), "--embedder", "static", *arguments],
            stdout=subprocess.PIPE,
            stderr=(data.parent / f"{data.name}.err").open("ab"),
            stdin=subprocess.DEVNULL,
            env=bare_environment(),
        )
        self.url = self._address()
        self.host, _, port = self.url.removeprefix("http://").rpartition(":")
        self.port = int(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def token(self) -> str:
        """The first token."""
        return (self.data / "token").read_text(encoding="ascii").strip()

    @property
    def said(self) -> str:
        """What it wrote to stderr."""
        return (self.data.parent / f"{self.data.name}.err").read_text(encoding="utf-8")

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._process.kill()
        self._process.wait()
        self._close()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code."""
        code = self._process.wait(PATIENCE)
        self._close()
        return code

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
        text: bool = False,
    ) -> Reply:
        """One request; with the first token unless another or none is given."""
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token or self.token}"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            read = answer.read()
            return Reply(answer.status, json.loads(read) if read and not text else read, dict(answer.headers))
        finally:
            connection.close()

    def post(self, what: str, body: Any, **more: Any) -> Reply:
        """A request to one of the operations."""
        return self.ask("POST", f"/v1/{what}", body, **more)

    def retain(self, bank: str, *contents: str) -> list[str]:
        """Keep contents; their ids."""
        reply = self.post("retain", {"bank": bank, "entries": [{"content": one} for one in contents]})
        assert reply.status == 200, reply
        return [entry["id"] for entry in reply.body["entries"]]

    def _address(self) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = self._process.stdout.readline().decode().strip() if readable else ""
        if not line:
            self.kill()
            raise AssertionError(f"the server did not start: {self.said}")
        return line

    def _close(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()


def bare_environment() -> dict[str, str]:
    """This environment without what would decide where a memory is."""
    return {key: value for key, value in os.environ.items() if not key.startswith("SINGULARITY_MEMORY")}


def run(arguments: Sequence[str], stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """A command of `singularity-memory`, to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**bare_environment(), **more},
        check=False,
    )


def until(true: Any, seconds: float = PATIENCE) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)
