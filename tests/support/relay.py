"""A way to a PostgreSQL server that can be made to carry nothing, or to lose an answer."""

from __future__ import annotations

import contextlib
import socket
import threading

import psycopg.conninfo

from tests.support.stores import Server


class Relay:
    """A way to the server that can be made to carry nothing any more, for old connections and new ones."""

    def __init__(self, server: Server) -> None:
        place = psycopg.conninfo.conninfo_to_dict(server.url.value)
        self._unix = f"{place['host']}/.s.PGSQL.{place.get('port') or 5432}"
        self._door = socket.create_server(("127.0.0.1", 0))
        self._stalled = threading.Event()
        self._swallows = b""
        self._cut: set[socket.socket] = set()
        self._open = [self._door]
        self.url = f"postgresql://postgres@127.0.0.1:{self._door.getsockname()[1]}/postgres"

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def stall(self) -> None:
        """Carry nothing from now on."""
        self._stalled.set()

    def lose_the_answer(self, to: bytes) -> None:
        """Once: carry what is asked with these bytes, and cut the line when the answer is there."""
        self._swallows = to

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._door.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._unix)
                self._open += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._swallows and self._swallows in data:
                    self._swallows = b""
                    self._cut.add(source)
                if sink in self._cut:
                    sink.shutdown(socket.SHUT_RDWR)
                elif not self._stalled.is_set():
                    sink.sendall(data)
