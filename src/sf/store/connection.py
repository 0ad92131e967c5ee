"""Connections for commands that have no loop of their own.

Nothing here imports asyncio, nor psycopg for a SQLite file: `sf status` must stay quick.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sf.errors import StoreUnusable
from sf.store import migrate
from sf.store.engine import Connection, Engine
from sf.store.place import Place
from sf.store.sqlite import SqliteEngine
from sf.store.tx import Tx

T = TypeVar("T")


def engine_of(place: Place) -> Engine:
    """The engine for a place."""
    if isinstance(place, Path):
        return SqliteEngine(place)
    try:
        from sf.store.postgres import PostgresEngine
    except ImportError as error:
        raise StoreUnusable(
            f"{place} needs psycopg: {error}", hint='pip install "singularity-forge[postgres]"'
        ) from None
    return PostgresEngine(place)


def open_reader(place: Place) -> Tx:
    """A reading connection for a command."""
    return Tx(reading(engine_of(place)))


def reading(engine: Engine, *, live: bool = False) -> Connection:
    """A reading connection to a database of this sf's schema."""
    connection = engine.connect_reading(live=live)
    try:
        migrate.require_readable(connection, engine)
    except engine.errors as error:
        connection.close()
        raise engine.unusable("read", error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def writing(engine: Engine) -> Connection:
    """A writing connection, the schema brought up to date."""
    try:
        connection = engine.connect_writing()
        try:
            migrate.upgrade(connection, engine)
        except BaseException:
            connection.close()
            raise
    except engine.errors as error:
        raise engine.unusable("open", error) from error
    return connection


def transact(place: Place, work: Callable[[Tx], T]) -> T:
    """One transaction for a command that has no loop of its own; a loop that listens is woken by it."""
    engine = engine_of(place)
    connection = writing(engine)
    try:
        connection.begin()
        value = work(Tx(connection))
        engine.ring(connection)
        connection.commit()
        return value
    except engine.outages as error:
        raise engine.unusable("write", error) from error
    finally:
        connection.rollback()
        connection.close()
