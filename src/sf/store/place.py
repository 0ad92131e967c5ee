"""Where a project's rows are: a SQLite file, or a PostgreSQL database named by its url."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

import msgspec

SCHEMES = ("postgresql", "postgres")


class Url(msgspec.Struct, frozen=True):
    """A PostgreSQL database, and the schema in it that holds one project; empty leaves it to the url.

    As text it has no password: `value` is for connecting only.
    """

    value: str
    schema: str = ""

    def __str__(self) -> str:
        parts = urlsplit(self.value)
        user = f"{parts.username}@" if parts.username else ""
        hosts = ",".join(f"{host}:{port}" if port else host for host, port in _hosts(parts.netloc))
        schema = f" schema {self.schema}" if self.schema else ""
        return f"postgresql://{user}{hosts}{parts.path}{schema}"

    def __repr__(self) -> str:
        return f"Url({self})"


Place: TypeAlias = Path | Url


def is_reference(text: str) -> bool:
    """Whether this is a command that prints a url, and not a url."""
    return text.startswith("$(") and text.endswith(")")


def problem(text: str) -> str:
    """What is wrong with a url, in words that repeat none of it; empty for nothing."""
    try:
        parts = urlsplit(text)
        _hosts(parts.netloc)
    except ValueError:
        return "is not a url; percent-encode what is special in it"
    if parts.scheme not in SCHEMES:
        return "must begin with postgresql://"
    if parts.netloc.count("@") > 1 or "@" in parts.path + parts.query or parts.fragment:
        return "has a special character in its user or password: percent-encode it"
    return ""


def _hosts(netloc: str) -> list[tuple[str, int | None]]:
    """The servers of which the first that answers is meant, each with its port. Raises ValueError."""
    ends = [urlsplit(f"//{end}") for end in netloc.rpartition("@")[2].split(",")]
    return [(end.hostname or "", end.port) for end in ends]


def canonical(text: str) -> str:
    """A url by the first of its schemes: one database is one place, whichever is written."""
    _, mark, rest = text.partition("://")
    return f"{SCHEMES[0]}://{rest}" if mark else text


def names_schema(text: str) -> bool:
    """Whether a url says by itself which schema is meant."""
    return any("search_path" in value for value in parse_qs(urlsplit(text).query).get("options", ()))


def has_password(text: str) -> bool:
    """Whether a url carries a password in plain text."""
    parts = urlsplit(text)
    return bool(parts.password) or bool({"password", "sslpassword"} & parse_qs(parts.query).keys())
