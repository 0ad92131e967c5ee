"""An entry as a line of JSON, for export and import."""

from __future__ import annotations

from typing import Any

import msgspec

from singularity_memory.errors import BadRequest
from singularity_memory.model import Draft
from singularity_memory.standing import Standing
from singularity_memory.store import Entry


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a line says; without a standing the entry begins anew."""

    content: str
    document_id: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    standing: Standing | None = None

    @property
    def draft(self) -> Draft:
        """The entry without its history."""
        return Draft(self.content, self.document_id, self.tags, self.metadata)


def line_of(entry: Entry) -> str:
    """One line, without its end."""
    line = Line(entry.content, entry.document_id, entry.tags, entry.metadata, entry.standing)
    return msgspec.json.encode(line).decode()


def parsed(line: str) -> Line:
    """What a line says. Raises BadRequest when it is not one of ours."""
    try:
        return msgspec.json.decode(line, type=Line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"not a line of an export: {error}") from error
