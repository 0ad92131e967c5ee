"""read_file: lines of a text file, numbered."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from sf import containment
from sf.tools.base import Answer, Site, Tool, ok
from sf.tools.places import readable

_LIMIT = 2_000_000


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What read_file takes."""

    path: str
    start: Annotated[int, Meta(ge=1)] = 1
    lines: Annotated[int, Meta(ge=1, le=2000)] = 400


class ReadFile(Tool[Arguments]):
    """Read a file of the worktree, or of the unit's folder of plans and errors."""

    name = "read_file"
    description = "Read lines of a text file, numbered."
    needs = "read"
    approval = "fs:read"
    parameters = Arguments

    def paths(self, arguments: Arguments) -> tuple[str, ...]:
        """The file."""
        return (arguments.path,)

    async def run(self, site: Site, arguments: Arguments) -> Answer:
        """The asked lines and how many there are in all."""
        root, path = readable(site, arguments.path)
        text = containment.read_inside(root, path, _LIMIT).decode(errors="replace")
        lines = text.splitlines()
        first = arguments.start - 1
        chosen = lines[first : first + arguments.lines]
        body = "\n".join(f"{first + number}\t{line}" for number, line in enumerate(chosen, 1))
        shown = (
            f"lines {arguments.start}-{first + len(chosen)} of {len(lines)}"
            if chosen
            else f"{len(lines)} lines"
        )
        return ok(f"{arguments.path}: {shown}", body or "(nothing there)")
