"""Text as UTF-8 can carry it: file names may be of another encoding, half a character come from anywhere."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import msgspec


def escaped(text: str) -> str:
    """The text with what UTF-8 has no bytes for written out: `caf\\udce9.txt`."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def quoted(path: str) -> str:
    """A path in a form that any row takes and that is turned back by `unquoted`: `caf%E9.txt`."""
    return quote(path, errors="surrogateescape")


def unquoted(path: str) -> str:
    """The path that was quoted, whatever its encoding."""
    return unquote(path, errors="surrogateescape")


def as_json(data: Any) -> bytes:
    """The data as JSON, whatever text is in it; what JSON does not know is written as text."""
    try:
        return msgspec.json.encode(data, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escaped(msgspec.to_builtins(data, enc_hook=str)))


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]
    return escaped(value) if isinstance(value, str) else value
