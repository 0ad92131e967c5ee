"""What comes over the wire from a PostgreSQL: rows as the store reads them, like SQLite's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader


class ServerRow:
    """A row with its columns by name or by number, like SQLite's."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: dict[str, int], values: Sequence[Any]) -> None:
        self._places = places
        self._values = values

    def __getitem__(self, key: str | int, /) -> Any:
        return self._values[self._places[key] if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def keys(self) -> list[str]:
        """The names of the columns."""
        return list(self._places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServerRow) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]


def rows_of(cursor: psycopg.Cursor[ServerRow]) -> Callable[[Sequence[Any]], ServerRow]:
    """Rows for what a cursor found."""
    # From the result itself: the driver's description makes an object of every column of every query.
    result = cursor.pgresult
    fields = result.nfields if result else 0
    places = {(result.fname(number) or b"").decode(): number for number in range(fields)} if result else {}
    return lambda values: ServerRow(places, values)


class WholeNumber(Loader):
    """A sum as the int that it is: PostgreSQL adds BIGINTs up to a NUMERIC."""

    def load(self, data: Buffer) -> int | float:
        """The number."""
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)
