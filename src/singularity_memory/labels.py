"""Labels: tags and metadata in one form, so that a filter is a set of labels that an entry must have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from singularity_memory.errors import BadRequest
from singularity_memory.identity import document_id
from singularity_memory.model import NEGATIVE_TAG, Filter
from singularity_memory.wording import fingerprint


def of_entry(tags: Iterable[str], metadata: Mapping[str, Any]) -> frozenset[str]:
    """Every label of an entry: its tags, and `key:value` for each plain value of its metadata."""
    plain = (
        _label(key, value) for key, value in metadata.items() if isinstance(value, str | int | float | bool)
    )
    return frozenset(tags) | frozenset(plain)


def of_content(content: str) -> str:
    """The label that entries of the same content share."""
    return f"content-sha256:{document_id(content)}"


def of_wording(content: str) -> str:
    """The label that entries share whose contents differ in nothing that tells."""
    return f"wording-sha256:{fingerprint(content)}"


def of_filter(wanted: Filter) -> frozenset[str]:
    """The labels that a filter asks for, all of them."""
    found: set[str] = set()
    for key, value in wanted.items():
        if key == "tags":
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise BadRequest("a filter's tags are a list of strings")
            found.update(str(tag) for tag in value)
        elif isinstance(value, str | int | float | bool):
            found.add(_label(key, value))
        else:
            raise BadRequest(f"a filter's {key} is a string, a number or a boolean")
    return frozenset(found)


def is_negative(tags: Iterable[str], metadata: Mapping[str, Any]) -> bool:
    """Whether an entry is an anti-pattern."""
    return NEGATIVE_TAG in of_entry(tags, metadata)


def _label(key: str, value: str | float | bool) -> str:
    return f"{key}:{str(value).lower() if isinstance(value, bool) else value}"
