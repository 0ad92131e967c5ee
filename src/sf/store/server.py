"""A connection to a PostgreSQL server, in one schema of a database: that of one project.

Every writing transaction takes the project's advisory lock first. Work functions read and then write as if
they were alone, as they are on a SQLite file; under the lock, and with a fresh snapshot for each statement
after it, they are.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

import psycopg
import psycopg.errors
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Identifier

from sf.errors import StoreUnusable
from sf.store.engine import seat_name
from sf.store.place import Url
from sf.store.sql import Query, with_placeholders
from sf.store.wire import HASTE, Haste, InDoubt, ServerRow, WholeNumber, Wire, plain, rows_of

LOCK = "hashtextextended('sf.write.' || current_schema(), 0)"
SEAT = "hashtextextended('sf.seat.' || current_schema(), 0)"
CHANNEL = "'sf.' || md5(current_schema())"
_SETTINGS = """
SELECT set_config('search_path', quote_ident(current_schema()), false) WHERE current_schema() IS NOT NULL;
SELECT set_config(name, wanted, false)
FROM (VALUES ('lock_timeout', '0', '10s'), ('idle_in_transaction_session_timeout', '0', '60s'),
  ('synchronous_commit', 'off', 'on')) AS settings(name, unless, wanted)
WHERE current_setting(name) = unless;
SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3;
SELECT name, setting::bigint / 1000.0 AS seconds FROM pg_settings
WHERE name IN ('lock_timeout', 'idle_in_transaction_session_timeout')
UNION ALL SELECT 'pid', pg_backend_pid()
UNION ALL SELECT 'read_only', (current_setting('transaction_read_only') = 'on')::int
"""
"""Of a search path only the first schema is kept that there is: tables of another one are not this store's.
What the operator set stays, but for commits that would be lost with the server. A machine that vanished
lets go of its locks within a minute. Answers how long each may take, the server's own pid for it, and whether
it takes no writes."""
_HOLDERS = """
SELECT a.application_name AS name, l.mode = 'ExclusiveLock' AS alone,
  EXTRACT(EPOCH FROM clock_timestamp() - a.xact_start)::bigint AS seconds
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND ((l.classid::bigint << 32) | l.objid::bigint) = {} ORDER BY name
"""
_PATIENCE = 20.0
_GRACE = 30.0
"""How much longer a writer that may wait does so than the server lets another one hang."""
_SLEPT = "was this machine asleep? Look (sf status) before you say it again"
CURES = {
    "25006": "is it a standby, or was it made read-only because its disk is full?",
    "42501": "grant the url's role every right on the schema and on its tables",
    "25P03": _SLEPT,
    "25P04": _SLEPT,
}
"""What helps when the server lets nobody write, or not this role, or ended a transaction that took too long.

By SQLSTATE: the driver counts these among a program's own mistakes, and older ones do not name the last.
"""


class ServerConnection:
    """A connection that opens no transaction of its own.

    Parameters are bound by psycopg, not by the server, which would have to guess the type of `:name IS NULL`.
    """

    _writes = True

    def __init__(self, url: Url, haste: Haste | None = None) -> None:
        self._url = url
        self._haste = haste or Haste()
        self._idle_limit = self._turn_limit = 0.0
        self._read_only = False
        self._raw = self._connect()

    def _connect(self) -> Wire:
        raw = Wire.connect(
            self._url.value,
            autocommit=True,
            row_factory=rows_of,
            cursor_factory=psycopg.ClientCursor,
            connect_timeout=int(HASTE) if self._haste.wanted else 10,
            application_name=_signature(self._url),
            client_encoding="utf-8",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
        )
        raw.haste, raw.url = self._haste, self._url.value
        raw.adapters.register_loader("numeric", WholeNumber)
        answers = raw.execute(_SETTINGS)
        while answers.nextset():
            pass
        limits = {row["name"]: float(row["seconds"]) for row in answers}
        self._idle_limit = limits["idle_in_transaction_session_timeout"]
        self._turn_limit = limits["lock_timeout"]
        self._read_only = bool(limits["read_only"])
        # Not as the driver has it: what stands between may make up one of its own.
        raw.pid = int(limits["pid"])
        if self._url.schema:
            raw.execute(SQL("SET search_path = {}").format(Identifier(self._url.schema)))
        return raw

    def execute(
        self, query: str, parameters: Mapping[str, Any] | None = None, /
    ) -> psycopg.Cursor[ServerRow]:
        """Carry out one statement."""
        text = query.postgres if isinstance(query, Query) else with_placeholders(query)
        return self._raw.execute(
            text.encode(), {key: plain(value) for key, value in (parameters or {}).items()}
        )

    def ensure_schema(self) -> None:
        """Make the schema that the place names, if it is not there. Raises StoreUnusable where a url must."""
        row = self.execute("SELECT current_schema() AS name").fetchone()
        if row is not None and row["name"] is None:
            if not self._url.schema:
                raise StoreUnusable(
                    f"no schema that the search_path of {self._url} names is there", hint="create it first"
                )
            with contextlib.suppress(psycopg.errors.UniqueViolation):  # another process was first
                self._raw.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(self._url.schema)))

    def begin(self) -> None:
        """Open a transaction and take the project's lock; it is let go with the transaction.

        Raises LockNotAvailable, naming the holder, when another writer had it all the time. A server that
        takes no writes is left: the one that does may be another one, at the same url.
        """
        # Read committed whatever the server's default: a snapshot taken before the lock would be an old one.
        taken = self._raw.execute(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT current_setting('transaction_read_only') = 'on' AS"
            f" read_only, pg_try_advisory_xact_lock({LOCK}) AS taken"
        )
        taken.nextset()
        row = taken.fetchone()
        if row is not None and row["read_only"]:
            self.close()
            raise _takes_no_writes()
        if row is not None and row["taken"]:
            return
        # The operator's limit for a statement is for those that work, not for one that waits for its turn.
        self._raw.execute("SET LOCAL statement_timeout = 0")
        # Asked for by itself: a server that makes others wait says nothing, like one that is gone.
        self._raw.turn = self._turn_limit
        try:
            self._raw.execute(f"SELECT pg_advisory_xact_lock({LOCK}); SET LOCAL statement_timeout TO DEFAULT")
        except psycopg.errors.LockNotAvailable:
            self.rollback()
            raise psycopg.errors.LockNotAvailable(f"lock timeout: {self._holder()}") from None
        finally:
            self._raw.turn = 0.0

    def sits_alone(self) -> bool:
        """Take the store's seat for this connection alone, if nobody has one; whether it could."""
        row = self.execute(f"SELECT pg_try_advisory_lock({SEAT}) AS taken").fetchone()
        return row is not None and bool(row["taken"])

    def _holder(self) -> str:
        """Who has the project's lock, as far as the server tells."""
        row = self._raw.execute(_HOLDERS.format(LOCK).encode()).fetchone()
        if row is None:
            return "other writers kept it busy"
        held = "" if row["seconds"] is None else f" for {row['seconds']} s"
        ended = f"; if it hangs, the server ends it after {self._idle_limit:.0f} s"
        return f"{self._who(row)} has held it{held}{ended}"

    def seated(self, *, alone: bool = False) -> list[str]:
        """Who has a seat at the store, or the only one there is, as far as the server tells."""
        rows = self._raw.execute(_HOLDERS.format(SEAT).encode())
        return [self._who(row) for row in rows if row["alone"] or not alone]

    def _who(self, row: ServerRow) -> str:
        return row["name"].removesuffix(self._url.schema).strip() or "another program"

    @property
    def patience(self) -> float:
        """For how long a writer waits that may: until the server has ended a transaction that hangs."""
        return self._idle_limit + _GRACE

    def commit(self) -> None:
        """Make it durable. A transaction that has failed answers COMMIT with ROLLBACK, and no error.

        Raises InDoubt when the server is lost meanwhile.
        """
        try:
            answer = self._raw.execute("COMMIT").statusmessage
        except psycopg.OperationalError as error:
            if not self.is_lost:
                raise
            raise InDoubt(str(error)) from error
        if answer != "COMMIT":
            raise psycopg.InternalError("a statement had failed, so nothing was committed")

    def rollback(self) -> None:
        """Undo it; harmless when there is none, or nobody at the other end."""
        if self._raw.info.transaction_status is not TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                self._raw.execute("ROLLBACK")

    def linger(self) -> None:
        """Let its transactions last; one of a machine that vanished is ended by the network's own limits."""
        self._raw.execute("SET idle_in_transaction_session_timeout = 0")

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

    def require_writable(self) -> None:
        """Raise ReadOnlySqlTransaction when the server takes no writes."""
        if self._read_only:
            raise _takes_no_writes()

    @property
    def is_lost(self) -> bool:
        """Whether the server is gone."""
        return self._raw.closed

    def mend(self) -> None:
        """Connect again, patiently: a server that restarts, or takes over, is back in a moment."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._raw = self._connect()
                if self._writes:
                    self.require_writable()
                return
            except psycopg.errors.ReadOnlySqlTransaction:
                self.close()
                if self._haste.wanted or time.monotonic() >= deadline:
                    raise
            except psycopg.OperationalError:
                if self._haste.wanted or time.monotonic() >= deadline:
                    raise
            time.sleep(0.25)

    def close(self) -> None:
        """Close it."""
        self._raw.close()


def _takes_no_writes() -> psycopg.Error:
    return psycopg.errors.ReadOnlySqlTransaction("the server takes no writes: it is read-only")


def _signature(url: Url) -> str:
    """What the server shows as the name of a connection: who it is, within the 63 bytes that are kept."""
    return f"{seat_name(socket.gethostname(), os.getpid())} {url.schema}".rstrip()


class ReadingConnection(ServerConnection):
    """Cannot write. Looks again on a new connection when the server is gone: a read may be repeated."""

    _writes = False

    def _connect(self) -> Wire:
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

    def _connect(self) -> Wire:
        raw = super()._connect()
        named = raw.execute(f"SELECT {CHANNEL} AS channel").fetchone()
        raw.execute(SQL("LISTEN {}").format(Identifier(str(named["channel"] if named else ""))))
        return raw

    def take_seat(self, *, alone: bool) -> bool:
        """Whether this session has a seat now: one of many for an autopilot, or the only one there is."""
        lock = "pg_try_advisory_lock" if alone else "pg_try_advisory_lock_shared"
        row = self.execute(f"SELECT {lock}({SEAT}) AS taken").fetchone()
        return row is not None and bool(row["taken"])

    def leave_seat(self) -> None:
        """Give a seat among many up; seen by everyone when this returns, unless the server is gone."""
        self._haste.wanted = True  # it is the end: a server that is silent is not waited for
        with contextlib.suppress(psycopg.Error):
            self.execute(f"SELECT pg_advisory_unlock_shared({SEAT})")

    def fileno(self) -> int:
        """The socket, for an event loop."""
        return self._raw.fileno()

    def drain(self) -> int:
        """How many rings have come in; never waits. Raises psycopg.Error when the server is gone."""
        return len(list(self._raw.notifies(timeout=0)))


def unusable(url: Url, what: str, error: Exception) -> StoreUnusable:
    """What a server that cannot be used is reported as."""
    # A malformed url is repeated in the driver's words, password and all.
    said = "the url is malformed" if type(error) is psycopg.ProgrammingError else str(error)
    hint = "is the server up, and the url right?"
    if isinstance(error, InDoubt):
        hint = "look (sf status) before you say it again"
        return StoreUnusable(f"whether it was written to {url} is not known: {said}", hint=hint)
    if isinstance(error, psycopg.errors.LockNotAvailable):
        hint = "try again when it is done"
    if isinstance(error, psycopg.Error):
        hint = CURES.get(error.sqlstate or "", hint)
    return StoreUnusable(f"cannot {what} {url}: {said}", hint=hint)
