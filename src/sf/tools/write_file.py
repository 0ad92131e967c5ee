"""write_file: a whole file."""

from __future__ import annotations

import msgspec

from sf import containment
from sf.tools.base import Answer, Site, Tool, ok
from sf.tools.places import writable


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What write_file takes."""

    path: str
    content: str


class WriteFile(Tool[Arguments]):
    """Create or replace a file; folders are made as needed."""

    name = "write_file"
    description = "Create or replace a whole file."
    needs = "write"
    approval = "fs:write"
    parameters = Arguments

    def paths(self, arguments: Arguments) -> tuple[str, ...]:
        """The file."""
        return (arguments.path,)

    async def run(self, site: Site, arguments: Arguments) -> Answer:
        """Write it in one step."""
        path = writable(site, arguments.path)
        data = arguments.content.encode()
        containment.write_inside(site.root, path, data)
        return ok(f"wrote {arguments.path} ({len(data)} bytes, {arguments.content.count(chr(10))} lines)")
