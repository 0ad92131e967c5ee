"""PostgreSQL through psycopg: one schema of a database holds one project.

Every writing transaction takes the project's advisory lock first. Work functions read and then write as if
they were alone, as they are on a SQLite file; under the lock, and with a fresh snapshot for each statement
after it, they are.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
import psycopg.errors
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Identifier

from sf.errors import StoreUnusable
from sf.store.engine import Connection
from sf.store.place import Url
from sf.store.sql import Query, with_placeholders

LOCK = "hashtextextended('sf.write.' || current_schema(), 0)"
SEAT = "hashtextextended('sf.seat.' || current_schema(), 0)"
CHANNEL = "'sf.' || md5(current_schema())"
_SETTINGS = """
SELECT set_config(name, wanted, false)
FROM (VALUES ('lock_timeout', '0', '10s'), ('idle_in_transaction_session_timeout', '0', '60s'),
  ('synchronous_commit', 'off', 'on')) AS settings(name, unless, wanted)
WHERE current_setting(name) = unless;
SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3
"""
"""What the operator set stays, but for commits that would be lost with the server. A machine that vanished
lets go of its locks within a minute."""
_PATIENCE = 20.0
_TYPES = (
    (re.compile(r"\bINTEGER\b"), "BIGINT"),
    (re.compile(r"\bREAL\b"), "DOUBLE PRECISION"),
    (re.compile(r"\bBLOB\b"), "BYTEA"),
    (re.compile(r"(?<=\w) TEXT\b(?<!\bAS TEXT)"), ' TEXT COLLATE "C"'),
    (re.compile(r"\s*\bWITHOUT ROWID\b"), ""),
)
_QUOTED = re.compile(r"('(?:[^']|'')*')")


class ServerRow:
    """A row with its columns by name or by number, like SQLite's."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: dict[str, int], values: Sequence[Any]) -> None:
        self._places = places
        self._values = values

    def __getitem__(self, key: str | int, /) -> Any:
        return self._values[self._places[key] if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def keys(self) -> list[str]:
        """The names of the columns."""
        return list(self._places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServerRow) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]


def _rows(cursor: psycopg.Cursor[ServerRow]) -> Callable[[Sequence[Any]], ServerRow]:
    # From the result itself: the driver's description makes an object of every column of every query.
    result = cursor.pgresult
    fields = result.nfields if result else 0
    places = {(result.fname(number) or b"").decode(): number for number in range(fields)} if result else {}
    return lambda values: ServerRow(places, values)


class WholeNumber(Loader):
    """A sum as the int that it is: PostgreSQL adds BIGINTs up to a NUMERIC."""

    def load(self, data: Buffer) -> int | float:
        """The number."""
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class ServerConnection:
    """A connection that opens no transaction of its own.

    Parameters are bound by psycopg, not by the server, which would have to guess the type of `:name IS NULL`.
    """

    def __init__(self, url: Url) -> None:
        self._url = url
        self._raw = self._connect()

    def _connect(self) -> psycopg.Connection[ServerRow]:
        raw = psycopg.connect(
            self._url.value,
            autocommit=True,
            row_factory=_rows,
            cursor_factory=psycopg.ClientCursor,
            connect_timeout=10,
            application_name=self._url.schema or "sf",
            client_encoding="utf-8",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
        )
        raw.adapters.register_loader("numeric", WholeNumber)
        raw.execute(_SETTINGS)
        if self._url.schema:
            raw.execute(SQL("SET search_path = {}").format(Identifier(self._url.schema)))
        return raw

    def execute(
        self, query: str, parameters: Mapping[str, Any] | None = None, /
    ) -> psycopg.Cursor[ServerRow]:
        """Carry out one statement."""
        text = query.postgres if isinstance(query, Query) else with_placeholders(query)
        return self._raw.execute(
            text.encode(), {key: _plain(value) for key, value in (parameters or {}).items()}
        )

    def ensure_schema(self) -> None:
        """Make the schema that the place names, if it is not there."""
        row = self.execute("SELECT current_schema() AS name").fetchone()
        if self._url.schema and row is not None and row["name"] is None:
            with contextlib.suppress(psycopg.errors.UniqueViolation):  # another process was first
                self._raw.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(self._url.schema)))

    def begin(self) -> None:
        """Open a transaction and take the project's lock; it is let go with the transaction."""
        # Read committed whatever the server's default: a snapshot taken before the lock would be an old one.
        self._raw.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({LOCK})")

    def commit(self) -> None:
        """Make it durable. A transaction that has failed answers COMMIT with ROLLBACK, and no error."""
        if self._raw.execute("COMMIT").statusmessage != "COMMIT":
            raise psycopg.InternalError("a statement had failed, so nothing was committed")

    def rollback(self) -> None:
        """Undo it; harmless when there is none, or nobody at the other end."""
        if self._raw.info.transaction_status is not TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                self._raw.execute("ROLLBACK")

    def has_table(self, name: str) -> bool:
        """Whether the schema has a table of this name."""
        row = self.execute(
            "SELECT to_regclass(quote_ident(:name)) IS NOT NULL AS found", {"name": name}
        ).fetchone()
        return row is not None and bool(row["found"])

    def tables(self) -> list[str]:
        """Every table of the schema."""
        found = self.execute(
            "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
        )
        return [row["name"] for row in found]

    def parents(self, table: str) -> list[str]:
        """The tables that a table refers to."""
        found = self.execute(
            "SELECT DISTINCT t.relname AS name FROM pg_constraint c JOIN pg_class t ON t.oid = c.confrelid"
            " WHERE c.contype = 'f' AND c.conrelid = to_regclass(quote_ident(:name))",
            {"name": table},
        )
        return [row["name"] for row in found]

    def require_utf8(self) -> None:
        """Raise StoreUnusable when the database cannot hold every text."""
        encoding = self._raw.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise StoreUnusable(
                f"the database's encoding is {encoding}", hint="create it with ENCODING 'UTF8'"
            )

    @property
    def is_lost(self) -> bool:
        """Whether the server is gone."""
        return self._raw.closed

    def mend(self) -> None:
        """Connect again, patiently: a server that restarts is back in a moment."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._raw = self._connect()
                return
            except psycopg.OperationalError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(0.25)

    def close(self) -> None:
        """Close it."""
        self._raw.close()


def _plain(value: Any) -> Any:
    """A value as SQLite would keep it: truth as a number. PostgreSQL's text cannot hold NUL."""
    if isinstance(value, bool):
        return int(value)
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


class ReadingConnection(ServerConnection):
    """Cannot write. Looks again on a new connection when the server is gone: a read may be repeated."""

    def _connect(self) -> psycopg.Connection[ServerRow]:
        raw = super()._connect()
        raw.execute("SET default_transaction_read_only = on")
        return raw

    def execute(
        self, query: str, parameters: Mapping[str, Any] | None = None, /
    ) -> psycopg.Cursor[ServerRow]:
        """Carry out one query."""
        try:
            return super().execute(query, parameters)
        except psycopg.OperationalError as error:
            if not self.is_lost:
                raise
            try:
                self.mend()
            except psycopg.Error:
                raise unusable(self._url, "read", error) from error
            return super().execute(query, parameters)


class Listening(ServerConnection):
    """Hears what writers ring, and holds a seat: many sessions may, or one that needs to be alone."""

    def _connect(self) -> psycopg.Connection[ServerRow]:
        raw = super()._connect()
        named = raw.execute(f"SELECT {CHANNEL} AS channel").fetchone()
        raw.execute(SQL("LISTEN {}").format(Identifier(str(named["channel"] if named else ""))))
        return raw

    def take_seat(self, *, alone: bool) -> bool:
        """Whether this session has a seat now: one of many for an autopilot, or the only one there is."""
        lock = "pg_try_advisory_lock" if alone else "pg_try_advisory_lock_shared"
        row = self.execute(f"SELECT {lock}({SEAT}) AS taken").fetchone()
        return row is not None and bool(row["taken"])

    def fileno(self) -> int:
        """The socket, for an event loop."""
        return self._raw.fileno()

    def drain(self) -> int:
        """How many rings have come in; never waits. Raises psycopg.Error when the server is gone."""
        return len(list(self._raw.notifies(timeout=0)))


class PostgresEngine:
    """The database at a url."""

    dialect = "postgres"
    errors: tuple[type[Exception], ...] = (psycopg.Error,)
    outages: tuple[type[Exception], ...] = (psycopg.OperationalError, psycopg.InterfaceError)

    def __init__(self, url: Url) -> None:
        self._url = url

    @property
    def name(self) -> str:
        """The url, without its password."""
        return str(self._url)

    def connect_reading(self, *, live: bool = False) -> ReadingConnection:
        """A connection that cannot write."""
        try:
            return ReadingConnection(self._url)
        except psycopg.Error as error:
            raise self.unusable("read", error) from error

    def connect_writing(self) -> ServerConnection:
        """A connection that may write."""
        connection = ServerConnection(self._url)
        try:
            connection.require_utf8()
            connection.ensure_schema()
        except BaseException:
            connection.close()
            raise
        return connection

    def ring(self, connection: Connection) -> None:
        """Notify whoever listens; the server delivers it with the commit."""
        connection.execute(f"SELECT pg_notify({CHANNEL}, '')")

    def schema(self, statement: str) -> str:
        """A statement of a migration, with PostgreSQL's types, and text in the order that SQLite keeps."""
        parts = _QUOTED.split(statement)
        for pattern, words in _TYPES:
            parts[::2] = [pattern.sub(words, part) for part in parts[::2]]
        return "".join(parts)

    def unusable(self, what: str, error: Exception) -> StoreUnusable:
        """What a database that cannot be used is reported as."""
        return unusable(self._url, what, error)


def unusable(url: Url, what: str, error: Exception) -> StoreUnusable:
    """What a server that cannot be used is reported as."""
    # A malformed url is repeated in the driver's words, password and all.
    said = "the url is malformed" if type(error) is psycopg.ProgrammingError else str(error)
    waited = isinstance(error, psycopg.errors.LockNotAvailable)
    hint = "another writer holds it: try again" if waited else "is the server up, and the url right?"
    return StoreUnusable(f"cannot {what} {url}: {said}", hint=hint)
