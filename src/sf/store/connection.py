"""Connections to the database file, for commands that have no loop of their own.

Nothing here imports asyncio: `sf status` must stay quick.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sf.errors import StoreUnusable
from sf.store import migrate
from sf.store.tx import Tx

T = TypeVar("T")

_BUSY_MS = 10_000


def connect(target: str, *, uri: bool = False) -> sqlite3.Connection:
    """A connection that waits for others, with rows by name and no transactions of its own."""
    connection = sqlite3.connect(target, isolation_level=None, uri=uri, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return connection


def open_reader(path: Path) -> Tx:
    """A reading connection for a command; works on a read-only disk too."""
    if not path.exists():
        raise StoreUnusable(f"there is no database at {path}", hint="run sf init")
    error: sqlite3.Error | None = None
    for options in ("mode=ro", "immutable=1"):
        try:
            connection = connect(f"{path.absolute().as_uri()}?{options}", uri=True)
            migrate.refuse_newer(connection, path)
            _require_current(connection, path)
            return Tx(connection)
        except sqlite3.Error as caught:
            error = caught
    raise StoreUnusable(f"cannot read {path}: {error}", hint="sf doctor says more")


def _require_current(connection: sqlite3.Connection, path: Path) -> None:
    """A database of an older sf is brought up to date before it is read; one that is no database is told."""
    version, newest = migrate.current(connection), migrate.known()[-1][0]
    if version == 0:
        raise StoreUnusable(f"{path} is not sf's database, or is empty", hint="sf init makes one")
    if version < newest:
        try:
            connect_writing(path).close()
        except sqlite3.Error as error:
            told = f"{path} has schema version {version}, this sf needs {newest}, and it cannot be written"
            raise StoreUnusable(f"{told}: {error}", hint="make it writable once") from error


def transact(path: Path, work: Callable[[Tx], T]) -> T:
    """One transaction for a command that has no loop of its own."""
    try:
        connection = connect_writing(path)
    except sqlite3.Error as error:
        raise unusable("open", path, error) from error
    try:
        connection.execute("BEGIN IMMEDIATE")
        value = work(Tx(connection))
        connection.execute("COMMIT")
        return value
    except sqlite3.OperationalError as error:
        raise unusable("write", path, error) from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()


def connect_writing(path: Path) -> sqlite3.Connection:
    """A connection that may write: WAL, synchronous=FULL, the newest schema."""
    connection = connect(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    migrate.upgrade(connection, path)
    return connection


def unusable(what: str, path: Path, error: sqlite3.Error) -> StoreUnusable:
    """What a database that cannot be used is reported as."""
    return StoreUnusable(f"cannot {what} {path}: {error}", hint="is the disk full or read-only?")
