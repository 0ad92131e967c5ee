"""What the aggregates read and write through: one connection inside one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec

from sf.domain.events import Event
from sf.domain.utf8 import escaped
from sf.errors import StoreTooNew

S = TypeVar("S", bound=msgspec.Struct)


def made_of(kind: type[S], values: dict[str, Any]) -> S:
    """A struct of a row's columns, enums and all. Raises StoreTooNew for a column that only a later sf knows.

    Raises msgspec.ValidationError for a value that is none of its kind.
    """
    if values.keys() <= _names(kind):
        return msgspec.convert(values, kind, strict=False)
    unknown = sorted(values.keys() - _names(kind))
    raise StoreTooNew(
        f"the store was upgraded meanwhile by a newer sf: {', '.join(unknown)}",
        hint="upgrade sf and start again; what was under way is taken up then",
    )


@cache
def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__)


def storable(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters that a database takes: a name that is not UTF-8 is written with its bytes escaped."""
    for name, value in params.items():
        if isinstance(value, str):
            params[name] = escaped(value)
    return params


class Row(Protocol):
    """A row: columns by name or by number; iterating gives the values."""

    def __getitem__(self, key: str | int, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def keys(self) -> Iterable[str]:
        """The names of the columns."""
        ...


class Cursor(Protocol):
    """What a statement answered."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchmany(self, size: int, /) -> Sequence[Any]:
        """Some of the rows that are left."""
        ...

    def fetchall(self) -> Sequence[Any]:
        """Every row that is left."""
        ...


class Reads(Protocol):
    """A connection, as far as a transaction needs to know it."""

    def execute(self, sql: str, parameters: Mapping[str, Any], /) -> Cursor:
        """Carry out one statement."""
        ...


class Tx:
    """A transaction, or a plain reading connection. Events announced here are published after the commit."""

    __slots__ = ("_connection", "events", "is_outage")

    def __init__(
        self, connection: Reads, is_outage: Callable[[Exception], bool] = lambda error: False
    ) -> None:
        self._connection = connection
        self.is_outage = is_outage
        """Whether an error is the database's failure, and not of the work that was asked of it."""
        self.events: list[Event] = []

    def one(self, sql: str, **params: Any) -> Row | None:
        """The first row, or None."""
        row: Row | None = self._execute(sql, params).fetchone()
        return row

    def all(self, sql: str, **params: Any) -> Sequence[Row]:
        """Every row."""
        return self._execute(sql, params).fetchall()

    def run(self, sql: str, **params: Any) -> int:
        """Execute a statement; the number of rows that it changed."""
        return self._execute(sql, params).rowcount

    def _execute(self, sql: str, params: dict[str, Any]) -> Cursor:
        try:
            return self._connection.execute(sql, params)
        except UnicodeEncodeError:
            # Refused before anything was carried out, and so rarely that looking first would not pay.
            return self._connection.execute(sql, storable(params))

    def announce(self, event: Event) -> None:
        """Publish this once the transaction is on disk."""
        self.events.append(event)
