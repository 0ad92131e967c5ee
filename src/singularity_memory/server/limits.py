"""What a server takes from a client: how much, how fast, how much at once."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from singularity_memory.errors import BadRequest


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits that are not about a single field; those stand in the wire's types."""

    body_bytes: int = 8 * 1024 * 1024
    head_bytes: int = 32 * 1024
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 60.0
    idle_seconds: int = 75
    ending_seconds: int = 30
    connections: int = 512
    requests: int = 64
    reading_threads: int = 8
    writing_threads: int = 4


def changed(words: Iterable[str]) -> Limits:
    """The limits with some changed, each as `name=number`. Raises BadRequest."""
    values: dict[str, str] = {}
    for word in words:
        name, _, number = word.partition("=")
        if name not in Limits.__struct_fields__:
            raise BadRequest(f"there is no limit {name!r}; there are {', '.join(Limits.__struct_fields__)}")
        values[name] = number
    try:
        made = msgspec.convert(values, Limits, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"a limit is a number: {error}") from error
    if any(value <= 0 for value in msgspec.structs.astuple(made)):
        raise BadRequest("a limit is more than 0")
    return made
