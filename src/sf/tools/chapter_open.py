"""chapter_open: the agent says what it turns to now."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from sf.tools.base import Answer, Site, Tool, ok


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the next stretch of work is for."""

    name: Annotated[str, Meta(min_length=2, max_length=200)]


class ChapterOpen(Tool[Arguments]):
    """A new chapter: if the run is cut off, whoever goes on is told what it was for."""

    name = "chapter_open"
    description = (
        "Name what you turn to now, when that changes; whoever goes on after an interruption is told."
    )
    needs = "read"
    approval = "memory:chapter"
    parameters = Arguments

    async def run(self, site: Site, arguments: Arguments) -> Answer:
        """Open it."""
        await site.turn_to(arguments.name)
        return ok(f"chapter: {arguments.name}")
