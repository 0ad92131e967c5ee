"""A PostgreSQL server: a connection for each thread, one transaction that writes at a time, the schema."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from singularity_memory.errors import StoreFailed, StoreTooNew
from singularity_memory.store import migrate

Connection = psycopg.Connection[tuple[Any, ...]]
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('singularity_memory.' || current_schema(), 0))"
_EXTENSION_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('singularity_memory', 0))"
"""For what belongs to the whole database: memories in several schemas may be made at the same time."""
_VERSIONS = "CREATE TABLE IF NOT EXISTS memory_schema (version BIGINT PRIMARY KEY)"


class Server:
    """An open database. Every failure of the server becomes StoreFailed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._local = threading.local()
        self._open: list[Connection] = []
        self._opening = threading.Lock()
        self._closed = False
        with self._failing_as_ours():
            parts = conninfo_to_dict(url)
            self.name = f"postgresql://{parts.get('host', '')}/{parts.get('dbname', '')}"
            self._migrate()

    @property
    def connection(self) -> Connection:
        """This thread's connection, made anew when it was lost."""
        if self._closed:
            raise StoreFailed(f"{self.name} is closed")
        found: Connection | None = getattr(self._local, "connection", None)
        if found is None or found.closed:
            found = self._local.connection = psycopg.connect(self._url, autocommit=True)
            found.execute("SET synchronous_commit = on")
            with self._opening:
                self._open.append(found)
        return found

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Every row of a query."""
        with self._failing_as_ours():
            return self.connection.execute(query.encode(), values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """The only transaction that writes; committed when the block ends, undone when it raises."""
        with self._failing_as_ours(), self.connection.transaction():
            self.connection.execute(_LOCK)
            yield self.connection

    def close(self) -> None:
        """Close every connection."""
        with self._opening:
            self._closed = True
            while self._open:
                self._open.pop().close()

    def _migrate(self) -> None:
        steps = migrate.known("postgres")
        with self.transaction() as connection:
            connection.execute(_EXTENSION_LOCK)
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            connection.execute(_VERSIONS)
            (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM memory_schema").fetchall()[
                0
            ]
            if version > steps[-1].version:
                raise StoreTooNew(f"{self.name} has schema version {version}; this knows {steps[-1].version}")
            for step in steps[version:]:
                for statement in step.statements():
                    connection.execute(statement.encode())
                connection.execute("INSERT INTO memory_schema VALUES (%s)", (step.version,))

    @contextlib.contextmanager
    def _failing_as_ours(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise StoreFailed(f"the database: {error}") from error
