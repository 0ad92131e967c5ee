"""Every row of one store into another, empty one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from sf.errors import StoreNotEmpty, StoreUnusable
from sf.store.engine import Connection
from sf.store.tx import Row

_CHUNK = 500
_VALUES = 900
"""In one statement; the oldest SQLite takes 999."""
_BYTES = 1_000_000
_OWN = "schema_migrations"


def tables(connection: Connection) -> list[str]:
    """The tables of a store, those that others refer to first."""
    parents = {name: set(connection.parents(name)) - {name} for name in connection.tables()}
    parents.pop(_OWN, None)
    ordered: list[str] = []
    while len(ordered) < len(parents):
        free = sorted(name for name in parents if name not in ordered and parents[name] <= set(ordered))
        if not free:
            raise StoreUnusable("the tables refer to each other in a circle")
        ordered += free
    return ordered


def count(connection: Connection, table: str) -> int:
    """How many rows a table has."""
    return int(connection.execute(f'SELECT COUNT(*) AS n FROM "{table}"').fetchone()["n"])


def require_empty(connection: Connection) -> None:
    """Raise StoreNotEmpty for a store that has rows."""
    filled = [name for name in tables(connection) if count(connection, name)]
    if filled:
        raise StoreNotEmpty(
            f"the other store already has rows in {', '.join(filled)}",
            hint="move them away (.sf/sf.db is the file for sqlite), or name another database or schema",
        )


def copy(source: Connection, target: Connection) -> dict[str, int]:
    """Copy every row, inside transactions of the caller's; rows by table. Raises StoreNotEmpty.

    Both stores have the same schema. The counts are taken again on the target when all is there.
    """
    names = tables(source)
    require_empty(target)
    for name in names:
        for rows in _chunks(source, name):
            _insert(target, name, rows)
    copied = {name: count(source, name) for name in names}
    short = [name for name in names if count(target, name) != copied[name]]
    if short:
        raise StoreUnusable(f"not every row arrived in {', '.join(short)}; nothing was kept")
    return copied


def _chunks(source: Connection, table: str) -> Iterator[Sequence[Row]]:
    found = source.execute(f'SELECT * FROM "{table}"')
    if table in source.parents(table):
        rows = _parents_first(found.fetchall())
        for start in range(0, len(rows), _CHUNK):
            yield rows[start : start + _CHUNK]
        return
    while chunk := found.fetchmany(_CHUNK):
        yield chunk


def _parents_first(rows: Sequence[Row]) -> list[Row]:
    """Rows of a table that refers to itself, by `parent_id`, in an order in which each finds its parent."""
    left = list(rows)
    there: set[object] = {None}
    ordered: list[Row] = []
    while left:
        ready = [row for row in left if row["parent_id"] in there]
        if not ready:
            raise StoreUnusable("units are each other's parents")
        there |= {row["id"] for row in ready}
        ordered += ready
        left = [row for row in left if row["id"] not in there]
    return ordered


def _insert(target: Connection, table: str, rows: Sequence[Row]) -> None:
    names = list(rows[0].keys())
    listed = ", ".join(f'"{name}"' for name in names)
    for some in _handfuls(rows, _VALUES // len(names)):
        values = [value for row in some for value in row]
        places = (f":v{number}" for number in range(len(values)))
        tuples = ", ".join(f"({', '.join(islice(places, len(names)))})" for _ in some)
        statement = f'INSERT INTO "{table}" ({listed}) VALUES {tuples}'
        target.execute(statement, {f"v{number}": value for number, value in enumerate(values)})


def _handfuls(rows: Sequence[Row], most: int) -> Iterator[list[Row]]:
    """Rows for one statement each: a server may be far away, and neither takes statements without end."""
    some: list[Row] = []
    size = 0
    for row in rows:
        weight = sum(len(value) for value in row if isinstance(value, str | bytes))
        if some and (len(some) >= most or size + weight > _BYTES):
            yield some
            some, size = [], 0
        some.append(row)
        size += weight
    yield some
