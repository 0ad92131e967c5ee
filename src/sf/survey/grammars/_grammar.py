"""What sf asks of a syntax tree, one table for each language."""

from __future__ import annotations

import msgspec


class Grammar(msgspec.Struct, frozen=True):
    """A grammar's package and one query over its trees.

    Captures: `@function`, `@class` and `@type` are definitions (`@local.…` the same, but only in a file
    that exports nothing); `@import` with an optional `@member`; `@namespace`; `@main` marks an entry point.
    """

    package: str
    query: str
    entry: str = "language"
    hidden: str = ""
    """A pattern of names that are not public in spite of their place."""
