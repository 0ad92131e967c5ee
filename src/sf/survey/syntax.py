"""What a source file defines and imports, by its syntax tree. The only module that imports tree-sitter."""

from __future__ import annotations

import functools
import importlib
import re

import msgspec
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from sf.survey.facts import Definition, Import, Kind, Outline
from sf.survey.grammars import grammar_of
from sf.survey.wording import plain

_KINDS: tuple[Kind, ...] = ("function", "class", "type")
_MOST = 400
"""Definitions, and imports, that are kept of one file."""
_MATCHES = 20_000
_NAME = 120


class _Reader(msgspec.Struct, frozen=True):
    parser: Parser
    cursor: QueryCursor
    hidden: re.Pattern[str] | None


@functools.cache
def _reader(language: str) -> _Reader:
    grammar = grammar_of(language)
    made = Language(getattr(importlib.import_module(grammar.package), grammar.entry)())
    cursor = QueryCursor(Query(made, grammar.query), match_limit=_MATCHES)
    return _Reader(Parser(made), cursor, re.compile(grammar.hidden) if grammar.hidden else None)


def outline(language: str, source: bytes) -> Outline:
    """Parse a file of a language that has a grammar. It takes as long as it takes: limit the process."""
    reader = _reader(language)
    root = reader.parser.parse(source).root_node
    definitions: dict[tuple[str, int], Definition] = {}
    local: dict[tuple[str, int], Definition] = {}
    imports: dict[Import, None] = {}
    namespace, main = "", False
    for _, captures in reader.cursor.matches(root):
        main = main or "main" in captures
        if "namespace" in captures:
            namespace = namespace or _text(captures["namespace"][0])
        if "import" in captures:
            member = _text(captures["member"][0]) if "member" in captures else ""
            imports[Import(_text(captures["import"][0]), member)] = None
        for kind in _KINDS:
            for where, name in ((definitions, kind), (local, f"local.{kind}")):
                for node in captures.get(name, ()):
                    _keep(where, node, kind, reader.hidden)
    return Outline(
        definitions=tuple((definitions or local).values())[:_MOST],
        imports=tuple(imports)[:_MOST],
        namespace=namespace,
        main=main,
        broken=root.has_error,
    )


def _keep(
    where: dict[tuple[str, int], Definition], node: Node, kind: Kind, hidden: re.Pattern[str] | None
) -> None:
    name, line = _text(node), node.start_point[0] + 1
    if not (hidden and hidden.match(name)):
        where.setdefault((name, line), Definition(name, kind, line))


def _text(node: Node) -> str:
    return plain((node.text or b"").decode("utf-8", "replace"), _NAME).strip("\"'<>")
