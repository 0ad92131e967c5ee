"""Entries as rows of a table and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from singularity_memory import labels
from singularity_memory.standing import Standing
from singularity_memory.store import Entry, Record

HISTORY = tuple(Standing.__struct_fields__)
COLUMNS = ("row", "id", "document_id", "content", "words", "tags", "metadata", "negative", *HISTORY)
_OWN = len(COLUMNS) - len(HISTORY)


def entry_of(row: Sequence[Any]) -> Entry:
    """The entry that a row of COLUMNS is."""
    number, entry_id, document_id, content, words, tags, metadata, negative = row[:_OWN]
    return Entry(
        row=number,
        id=entry_id,
        document_id=document_id,
        content=content,
        words=words,
        tags=tuple(msgspec.json.decode(tags)),
        metadata=msgspec.json.decode(metadata),
        negative=bool(negative),
        standing=Standing(*row[_OWN:]),
    )


def content_of(record: Record) -> tuple[Any, ...]:
    """content, words, tags, metadata and negative as they are kept."""
    return (
        record.content,
        record.words,
        as_json(list(record.tags)),
        as_json(record.metadata),
        int(record.negative),
    )


def record_of(entry: Entry) -> Record:
    """The record that would write an entry as it is, without its vectors."""
    own = labels.of_entry(entry.tags, entry.metadata)
    own |= {labels.of_content(entry.content), labels.of_wording(entry.content)}
    return Record(
        id=entry.id,
        document_id=entry.document_id,
        content=entry.content,
        words=entry.words,
        tags=entry.tags,
        metadata=entry.metadata,
        labels=own,
        negative=entry.negative,
        vectors=None,
    )


def history_of(standing: Standing) -> tuple[Any, ...]:
    """The values of HISTORY."""
    return tuple(getattr(standing, name) for name in HISTORY)


def as_json(value: object) -> str:
    """A value in the form in which it is kept."""
    return msgspec.json.encode(value).decode()


def count_words(words: str) -> int:
    """How many words there are in a kept text."""
    return words.count(" ") + 1 if words else 0
