"""The error tree: a stable code each, and nobody matches on text."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import sf
from sf import errors
from sf.errors import Canceled, Mistake, RunFailure, SfError, Signal

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, SfError)]


@pytest.mark.conforms("C-35")
def test_every_error_has_a_code_of_its_own() -> None:
    own = {kind.__name__: kind.__dict__["code"] for kind in CLASSES if "code" in kind.__dict__}
    assert len(set(own.values())) == len(own)
    assert all(code and code == code.lower() and " " not in code for code in own.values())
    inheriting = [kind.__name__ for kind in CLASSES if "code" not in kind.__dict__]
    assert inheriting == ["Transient"], "the one kind that is told apart by its class alone"


@pytest.mark.conforms("C-35")
def test_the_three_families_are_apart() -> None:
    for kind in CLASSES:
        families = [family for family in (Signal, Mistake, RunFailure) if issubclass(kind, family)]
        assert len(families) == (0 if kind is SfError else 1), kind
    assert not issubclass(Canceled, RunFailure), "canceled is not failed"
    assert all(
        kind.recovery in ("config", "workspace", "agent_session", "observability")
        for kind in CLASSES
        if issubclass(kind, RunFailure)
    )


def test_the_tree_drawn_at_the_top_names_every_class() -> None:
    assert errors.__doc__ is not None
    missing = [kind.__name__ for kind in CLASSES if kind.__name__ not in errors.__doc__]
    assert missing == [] or missing == ["CanceledBySupervisor"]


def test_an_error_is_one_line() -> None:
    error = errors.BadUsage("two\nlines   of text", hint="do this")
    assert error.line() == "two lines of text [bad_usage] → do this"
    assert error.exit_code == 2


def _text_matches(tree: ast.AST) -> Iterator[int]:
    """Lines where the text of a caught error decides something: `x in str(e)`, `e.args[0] == …` and such."""
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for node in ast.walk(handler):
            if isinstance(node, ast.Compare):
                for part in (node.left, *node.comparators):
                    if _is_text_of(part, handler.name):
                        yield node.lineno


def _is_text_of(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr"):
        return any(isinstance(arg, ast.Name) and arg.id == name for arg in node.args)
    if isinstance(node, ast.Attribute) and node.attr in ("message", "args"):
        return isinstance(node.value, ast.Name) and node.value.id == name
    return isinstance(node, ast.Subscript) and _is_text_of(node.value, name)


@pytest.mark.conforms("C-35")
def test_no_code_decides_by_the_text_of_an_error() -> None:
    assert list(_text_matches(ast.parse("try: x\nexcept E as e:\n if 'no' in str(e): pass"))) == [3]
    package = Path(sf.__file__).parent
    found = [
        f"{file.relative_to(package)}:{line}"
        for file in sorted(package.rglob("*.py"))
        for line in _text_matches(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert found == []
