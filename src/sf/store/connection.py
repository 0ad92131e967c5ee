"""Connections for commands that have no loop of their own.

Nothing here imports asyncio, nor psycopg for a SQLite file: `sf status` must stay quick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sf.errors import StoreUnusable
from sf.store import floor, migrate
from sf.store.engine import Connection, Engine
from sf.store.place import Place
from sf.store.sqlite import SqliteEngine
from sf.store.tx import Row, Tx

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


class Reader(Tx):
    """Reads outside of any transaction; a database that fails meanwhile is told as such."""

    __slots__ = ("_engine",)

    def __init__(self, connection: Connection, engine: Engine) -> None:
        super().__init__(connection)
        self._engine = engine

    def one(self, sql: str, **params: Any) -> Row | None:
        """The first row, or None. Raises StoreUnusable."""
        try:
            return super().one(sql, **params)
        except self._engine.errors as error:
            raise self._engine.unusable("read", error) from error

    def all(self, sql: str, **params: Any) -> Sequence[Row]:
        """Every row. Raises StoreUnusable."""
        try:
            return super().all(sql, **params)
        except self._engine.errors as error:
            raise self._engine.unusable("read", error) from error


def open_reader(place: Place) -> Reader:
    """A reading connection for a command."""
    engine = engine_of(place)
    return Reader(reading(engine), engine)


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
    """A writing connection, the schema brought up to date; ids made from now on are above those it has."""
    try:
        connection = engine.connect_writing()
        try:
            migrate.upgrade(connection, engine)
            floor.rise(Tx(connection))
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
        value = work(Tx(connection, engine.is_outage))
        engine.ring(connection)
        connection.commit()
        return value
    except engine.errors as error:
        if not engine.is_outage(error):
            raise
        raise engine.unusable("write", error) from error
    finally:
        connection.rollback()
        connection.close()
