"""The queries: one text for both databases, and every one of them understood by both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import sf.store
from sf.store import sql
from sf.store.connection import engine_of, writing
from sf.store.place import Place
from sf.store.sql import with_placeholders
from tests.support.stores import Server

FILES = sorted((Path(sf.store.__file__).parent / "queries").glob("*.sql"))


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("SELECT :id", "SELECT %(id)s"),
        ("WHERE a = :a AND b=:a_2", "WHERE a = %(a)s AND b=%(a_2)s"),
        ("SELECT x::bigint, :n::text", "SELECT x::bigint, %(n)s::text"),
        ("SELECT ':id', 'it''s :id', \":id\", :id", "SELECT ':id', 'it''s :id', \":id\", %(id)s"),
        ("LIKE '%' || :m || '%'", "LIKE '%%' || %(m)s || '%%'"),
        ("SELECT 7 % 2", "SELECT 7 %% 2"),
        ("SELECT '10:30', a[1:2]", "SELECT '10:30', a[1:2]"),
    ],
)
def test_parameters_are_found_and_nothing_else(written: str, sent: str) -> None:
    assert with_placeholders(written) == sent


def test_a_variant_holds_the_words_of_postgres_and_leaves_those_of_sqlite() -> None:
    query = sql.load("runs")["history"]
    assert "group_concat" in query
    assert "group_concat" not in query.postgres
    assert "string_agg" in query.postgres
    plain = sql.load("records")["open_intents"]
    assert plain.postgres == plain


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_variant_belongs_to_a_query_and_takes_no_parameters_of_its_own(file: Path) -> None:
    for name, query in sql.load(file.stem).items():
        own = set(re.findall(r"%\((\w+)\)s", query.postgres))
        assert own <= _nothing(query).keys(), name
    names = re.findall(r"^-- name: (\w+)$", file.read_text(), re.MULTILINE)
    variants = re.findall(r"^-- name: (\w+) @postgres$", file.read_text(), re.MULTILINE)
    assert set(variants) <= set(names)
    assert len(names) == len(set(names)), "a name is given once"


def test_both_databases_understand_every_query(place: Place) -> None:
    connection = writing(engine_of(place))
    try:
        for file in FILES:
            for name, query in sql.load(file.stem).items():
                asked = sql.Query(f"EXPLAIN {query}", f"EXPLAIN {query.other}")
                assert connection.execute(asked, _nothing(query)).fetchall(), f"{file.stem}: {name}"
    finally:
        connection.close()


def test_both_databases_answer_with_the_same_columns(tmp_path: Path, server: Server) -> None:
    ours, theirs = writing(engine_of(tmp_path / "sf.db")), writing(engine_of(server.fresh()))
    try:
        for file in FILES:
            for name, query in sql.load(file.stem).items():
                if query.startswith("SELECT"):
                    cursors: list[Any] = [end.execute(query, _nothing(query)) for end in (ours, theirs)]
                    here, there = ([column[0] for column in cursor.description] for cursor in cursors)
                    assert here == there, f"{file.stem}: {name}"
    finally:
        ours.close()
        theirs.close()


def _nothing(query: str) -> dict[str, int | None]:
    """Every parameter of a query with no value, and limits of none."""
    limits = re.findall(r"LIMIT :(\w+)", query)
    return {name: 0 if name in limits else None for name in re.findall(r"(?<![:\w]):(\w+)", query)}
