"""A SQLite file: one connection that writes, one that reads for each thread, and the schema."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from singularity_memory.errors import StoreFailed, StoreTooNew
from singularity_memory.store import migrate

_BUSY_SECONDS = 30.0
_PRAGMAS = ("synchronous = FULL", "foreign_keys = ON")


class File:
    """An open database file. Every failure of SQLite becomes StoreFailed."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._writing = threading.RLock()
        self._closed = False
        with self._failing_as_ours():
            path.parent.mkdir(parents=True, exist_ok=True)
            # For its owner only, in whatever folder; SQLite makes the files beside it alike.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._writer = self._connect()
            self._migrate()

    @property
    def reader(self) -> sqlite3.Connection:
        """This thread's connection for reading."""
        if self._closed:
            raise StoreFailed(f"{self.name} is closed")
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = self._connect()
        return found

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection for reading, with failures as ours."""
        with self._failing_as_ours():
            yield self.reader

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Every row of a query."""
        with self._failing_as_ours():
            return self.reader.execute(query, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection for writing, alone; on disk when the block ends, undone when it raises."""
        with self._writing, self._failing_as_ours():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")

    def close(self) -> None:
        """Close every connection; nothing may use the file any more."""
        with self._writing:
            self._closed = True
            while self._open:
                self._open.pop().close()

    def _connect(self) -> sqlite3.Connection:
        made = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        with self._writing:
            self._open.append(made)
        _keep_wal(made)
        for pragma in _PRAGMAS:
            made.execute(f"PRAGMA {pragma}")
        return made

    def _migrate(self) -> None:
        steps = migrate.known("sqlite")
        with self.transaction() as writer:
            (version,) = writer.execute("PRAGMA user_version").fetchone()
            if version > steps[-1].version:
                raise StoreTooNew(f"{self.name} has schema version {version}; this knows {steps[-1].version}")
            for step in steps[version:]:
                for statement in step.statements():
                    writer.execute(statement)
                writer.execute(f"PRAGMA user_version = {step.version}")

    @contextlib.contextmanager
    def _failing_as_ours(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreFailed(f"{self.name}: {error}") from error


def _keep_wal(connection: sqlite3.Connection) -> None:
    """Have the file keep a WAL. Here SQLite itself does not wait for who is making the file as well."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
