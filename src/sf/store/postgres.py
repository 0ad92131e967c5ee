"""PostgreSQL through psycopg: what a database must be able to do, on a server."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator

import psycopg
import psycopg.errors

from sf.errors import ProjectLocked, StoreUnusable
from sf.store.engine import UPGRADE_PATIENCE, Connection, busy
from sf.store.place import Url
from sf.store.server import CHANNEL, CURES, SEAT, ReadingConnection, ServerConnection, unusable
from sf.store.wire import Haste

_TYPES = (
    (re.compile(r"\bINTEGER\b"), "BIGINT"),
    (re.compile(r"\bREAL\b"), "DOUBLE PRECISION"),
    (re.compile(r"\bBLOB\b"), "BYTEA"),
    (re.compile(r"(?<=\w) TEXT\b(?<!\bAS TEXT)"), ' TEXT COLLATE "C"'),
    (re.compile(r"\s*\bWITHOUT ROWID\b"), ""),
)
_QUOTED = re.compile(r"('(?:[^']|'')*')")


class PostgresEngine:
    """The database at a url."""

    dialect = "postgres"
    errors: tuple[type[Exception], ...] = (psycopg.Error,)
    waits: tuple[type[Exception], ...] = (psycopg.errors.LockNotAvailable,)

    def __init__(self, url: Url) -> None:
        self._url = url
        self._haste = Haste()

    def is_outage(self, error: Exception) -> bool:
        """Whether the server failed, or the way to it, or it lets nobody write, or not this role."""
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return True
        return isinstance(error, psycopg.Error) and error.sqlstate in CURES

    @property
    def name(self) -> str:
        """The url, without its password."""
        return str(self._url)

    def connect_reading(self, *, live: bool = False) -> ReadingConnection:
        """A connection that cannot write."""
        try:
            return ReadingConnection(self._url, self._haste)
        except psycopg.Error as error:
            raise self.unusable("read", error) from error

    def connect_writing(self) -> ServerConnection:
        """A connection that may write."""
        connection = ServerConnection(self._url, self._haste)
        try:
            connection.require_utf8()
            connection.require_writable()
            connection.ensure_schema()
        except BaseException:
            connection.close()
            raise
        return connection

    def hurry(self) -> None:
        """Give a server that is silent two seconds from now on."""
        self._haste.wanted = True

    def ring(self, connection: Connection) -> None:
        """Notify whoever listens; the server delivers it with the commit."""
        connection.execute(f"SELECT pg_notify({CHANNEL}, '')")

    @contextlib.contextmanager
    def alone(self, connection: Connection) -> Iterator[None]:
        """Hold the store's seat. Raises ProjectLocked."""
        assert isinstance(connection, ServerConnection)
        deadline = time.monotonic() + UPGRADE_PATIENCE
        while not connection.sits_alone():
            if time.monotonic() >= deadline:
                raise self._occupied(connection)
            time.sleep(0.05)
        try:
            yield
        finally:
            with contextlib.suppress(psycopg.Error):  # a connection that is lost has let go of it
                connection.execute(f"SELECT pg_advisory_unlock({SEAT})")

    def _occupied(self, connection: ServerConnection) -> ProjectLocked:
        """What a store is reported as in which others sit; who sits there alone is soon done."""
        alone = connection.seated(alone=True)
        if not alone:
            return busy(self.name, connection.seated())
        return ProjectLocked(
            f"{alone[0]} changes the schema of {self.name} or moves its rows: nothing was changed",
            hint="run this again when it is done",
        )

    def schema(self, statement: str) -> str:
        """A statement of a migration, with PostgreSQL's types, and text in the order that SQLite keeps."""
        parts = _QUOTED.split(statement)
        for pattern, words in _TYPES:
            parts[::2] = [pattern.sub(words, part) for part in parts[::2]]
        return "".join(parts)

    def unusable(self, what: str, error: Exception) -> StoreUnusable:
        """What a database that cannot be used is reported as."""
        return unusable(self._url, what, error)
