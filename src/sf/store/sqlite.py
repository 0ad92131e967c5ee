"""SQLite: one file, WAL, synchronous=FULL."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sf import held
from sf.errors import StoreUnusable
from sf.paths import LOCK_FILE
from sf.store.engine import UPGRADE_PATIENCE, Connection, busy

_BUSY_MS = 10_000
_BIRTH = 0.5
_NOT_OURS = "bring your own back from a copy, or remove it and run sf init, which begins with nothing"


class FileConnection(sqlite3.Connection):
    """A connection that waits for others and opens no transaction of its own."""

    is_lost = False
    patience = 0.0

    def begin(self) -> None:
        """Open a transaction and take the file's write lock."""
        self.execute("BEGIN IMMEDIATE")

    def has_table(self, name: str) -> bool:
        """Whether the file has a table of this name."""
        found = self.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
        return found.fetchone() is not None

    def mend(self) -> None:
        """A file is never lost."""

    def linger(self) -> None:
        """Nobody ends a file's transactions."""

    def tables(self) -> list[str]:
        """Every table of the file."""
        found = self.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        return [row["name"] for row in found]

    def parents(self, table: str) -> list[str]:
        """The tables that a table refers to."""
        return [row["table"] for row in self.execute(f'PRAGMA foreign_key_list("{table}")')]


class SqliteEngine:
    """The database file of a project."""

    dialect = "sqlite"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    waits: tuple[type[Exception], ...] = ()

    def __init__(self, path: Path) -> None:
        self._path = path

    def is_outage(self, error: Exception) -> bool:
        """Whether the file failed; a damaged one is an error of no kind of its own."""
        return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError

    @property
    def name(self) -> str:
        """The path."""
        return str(self._path)

    def connect_reading(self, *, live: bool = False) -> FileConnection:
        """A connection that cannot write; unless it must see later commits, a read-only disk will do."""
        if not self._path.exists():
            raise StoreUnusable(f"there is no database at {self._path}", hint="run sf init")
        self._refuse_empty()
        error: sqlite3.Error | None = None
        for options in ("mode=ro",) if live else ("mode=ro", "immutable=1"):
            try:
                connection = _connect(f"{self._path.absolute().as_uri()}?{options}", uri=True)
                self._refuse_foreign(connection)
                return connection
            except sqlite3.Error as caught:
                error = caught
        raise StoreUnusable(f"cannot read {self._path}: {error}", hint="sf doctor says more")

    def connect_writing(self) -> FileConnection:
        """A connection that may write. Raises StoreUnusable for a file that sf did not make."""
        self._refuse_empty()
        connection = _connect(str(self._path))
        try:
            self._refuse_foreign(connection)
            _keep_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_empty(self) -> None:
        """A file of no bytes held rows once, or is being made this moment by another process."""
        deadline = time.monotonic() + _BIRTH
        while self._path.is_file() and self._path.stat().st_size == 0:
            if time.monotonic() >= deadline:
                raise StoreUnusable(f"{self._path} is empty", hint=_NOT_OURS)
            time.sleep(0.02)

    def _refuse_foreign(self, connection: FileConnection) -> None:
        # Before the first pragma: that would already write into the file.
        if connection.has_table("schema_migrations"):
            kind = connection.execute("SELECT typeof(MAX(version)) FROM schema_migrations").fetchone()[0]
            foreign = kind not in ("integer", "null")
        else:
            foreign = bool(connection.tables())
        if foreign:
            raise StoreUnusable(f"{self._path} is a database of another program", hint=_NOT_OURS)

    def hurry(self) -> None:
        """A file is never silent."""

    def ring(self, connection: Connection) -> None:
        """A file has no bell: `scheduler.doorbell` is rung after the commit."""

    @contextlib.contextmanager
    def alone(self, connection: Connection) -> Iterator[None]:
        """Hold the project's lock, unless this process has it. Raises ProjectLocked."""
        deadline = time.monotonic() + UPGRADE_PATIENCE
        try:
            lock = os.open(self._path.with_name(LOCK_FILE), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # no autopilot was ever here
            yield
            return
        try:
            while not _locked(lock):
                if time.monotonic() >= deadline:
                    raise busy(self.name, _holder(lock))
                time.sleep(0.05)
            yield
        finally:
            os.close(lock)

    def schema(self, statement: str) -> str:
        """Migrations are written in this dialect."""
        return statement

    def unusable(self, what: str, error: Exception) -> StoreUnusable:
        """What a file that cannot be used is reported as."""
        return StoreUnusable(f"cannot {what} {self._path}: {error}", hint=_cure(error))


def _cure(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "the file is damaged: bring it back from a copy, or try sqlite3's .recover on one"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "does another program hold it?"
    return "is the disk full or read-only?"


def _locked(lock: int) -> bool:
    """Whether a file lock is this process's now, or was."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return held.is_held(lock)


def _holder(lock: int) -> list[str]:
    """Who has a lock, as far as the file tells."""
    with contextlib.suppress(OSError, KeyError, TypeError, msgspec.DecodeError):
        told = msgspec.json.decode(os.pread(lock, 4096, 0))
        return [f"process {told['pid']} on {told['host']}"]
    return []


def _connect(target: str, *, uri: bool = False) -> FileConnection:
    connection = sqlite3.connect(
        target, isolation_level=None, uri=uri, check_same_thread=False, factory=FileConnection
    )
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return connection


def _keep_wal(connection: FileConnection) -> None:
    """Have the file keep a WAL. Here SQLite itself does not wait for who is making the file as well."""
    deadline = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
