"""Turning raw TOML into a schema's types, with every problem collected instead of only the first."""

from __future__ import annotations

import difflib
import functools
import typing
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from sf.config import durations
from sf.config.durations import Seconds
from sf.config.schema import Section

S = TypeVar("S", bound=Section)


class Problems:
    """What is wrong with one file: `file: key: what is allowed`."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[str] = []

    def add(self, key: str, message: str) -> None:
        """Note one problem."""
        self.found.append(f"{self.file}: {key}: {message}")


def section(raw: dict[str, Any], kind: type[S], problems: Problems, prefix: str = "") -> S | None:
    """Convert a table. What is wrong is noted and left at its default; None when a required key is wrong."""
    hints, required = _keys(kind)
    values: dict[str, Any] = {}
    for key, value in raw.items():
        path = f"{prefix}{key}"
        if key not in hints:
            problems.add(path, f"unknown key{_nearest(key, hints)}")
            continue
        values[key] = _value(value, hints[key], path, problems)
    for key in sorted(required - raw.keys()):
        problems.add(f"{prefix}{key}", "is required")
    kept = {key: value for key, value in values.items() if value is not _BAD}
    return None if required - kept.keys() else kind(**kept)


@functools.cache
def _keys(kind: type[Section]) -> tuple[dict[str, Any], frozenset[str]]:
    """What each key of a table may be, and which must be there; looking it up takes milliseconds."""
    required = frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)
    return typing.get_type_hints(kind, include_extras=True), required


_BAD = object()


def _value(value: Any, hint: Any, path: str, problems: Problems) -> Any:
    if isinstance(hint, type) and issubclass(hint, Section):
        if isinstance(value, dict):
            converted = section(value, hint, problems, path + ".")
            return _BAD if converted is None else converted
        problems.add(path, "must be a table")
        return _BAD
    if hint in (Seconds, Seconds | None):
        return _duration(value, path, problems)
    if get_origin(hint) is dict:
        return _table(value, hint, path, problems)
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        problems.add(path, _explain(error, hint))
        return _BAD


def _table(value: Any, hint: Any, path: str, problems: Problems) -> Any:
    if not isinstance(value, dict):
        problems.add(path, "must be a table")
        return _BAD
    key_type, value_type = get_args(hint)
    result = {}
    for key, item in value.items():
        try:
            name = msgspec.convert(key, key_type)
        except msgspec.ValidationError:
            problems.add(
                f"{path}.{key}", f"unknown key; allowed: {', '.join(get_args(key_type) or key_type)}"
            )
            continue
        converted = _value(item, value_type, f"{path}.{key}", problems)
        if converted is not _BAD:
            result[name] = converted
    return result


def _duration(value: Any, path: str, problems: Problems) -> Any:
    try:
        return durations.parse(value)
    except ValueError as error:
        problems.add(path, str(error))
        return _BAD


def _explain(error: msgspec.ValidationError, hint: Any) -> str:
    choices = get_args(hint)
    if get_origin(hint) is typing.Literal:
        return "must be one of " + ", ".join(f'"{choice}"' for choice in choices)
    text = str(error)
    return text[:1].lower() + text[1:]


def _nearest(key: str, known: typing.Iterable[str]) -> str:
    close = difflib.get_close_matches(key, list(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else f"; allowed: {', '.join(sorted(known))}"
