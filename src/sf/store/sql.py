"""Named queries, read from the files in `queries/`: one text for both databases where that is possible.

A query is written once, with `:name` parameters. Where PostgreSQL needs other words, `-- name: x @postgres`
holds them, below the plain one.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "queries"
_NAME = re.compile(r"^-- name: (\w+)( @postgres)?\n", re.MULTILINE)
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*' | "[^"]*")  # what is quoted stays, but for the percent sign
    | (?P<cast>::)
    | :(?P<name>[A-Za-z_]\w*)
    | (?P<percent>%)""",
    re.VERBOSE,
)


class Query(str):
    """A query in SQLite's words, which also knows PostgreSQL's."""

    other: str

    def __new__(cls, text: str, other: str = "") -> Query:
        """A query, and its text for PostgreSQL if that is another one."""
        made = super().__new__(cls, text)
        made.other = other or text
        return made

    @functools.cached_property
    def postgres(self) -> str:
        """The query as psycopg takes it."""
        return with_placeholders(self.other)


def load(aggregate: str) -> dict[str, Query]:
    """The queries of one file, by name."""
    parts = _NAME.split((_FOLDER / f"{aggregate}.sql").read_text(encoding="utf-8"))
    plain: dict[str, str] = {}
    other: dict[str, str] = {}
    for name, variant, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        (other if variant else plain)[name] = text.strip()
    return {name: Query(text, other.get(name, "")) for name, text in plain.items()}


@functools.lru_cache(maxsize=256)
def with_placeholders(text: str) -> str:
    """`:name` as `%(name)s`; casts and quoted text are left alone, and every percent sign is doubled."""
    return _TOKEN.sub(_placeholder, text)


def _placeholder(found: re.Match[str]) -> str:
    if found["name"]:
        return f"%({found['name']})s"
    return found[0].replace("%", "%%")
