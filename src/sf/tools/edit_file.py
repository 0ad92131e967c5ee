"""edit_file: replace one exact piece of a file."""

from __future__ import annotations

import msgspec

from sf import containment
from sf.tools.base import Answer, Site, Tool, failure, ok
from sf.tools.places import writable

_LIMIT = 4_000_000


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What edit_file takes."""

    path: str
    old: str
    new: str
    every: bool = False


class EditFile(Tool[Arguments]):
    """Replace text that occurs exactly once, or every occurrence when asked."""

    name = "edit_file"
    description = 'Replace the exact text "old" by "new". It must occur once, unless "every" is true.'
    needs = "write"
    approval = "fs:write"
    parameters = Arguments

    def paths(self, arguments: Arguments) -> tuple[str, ...]:
        """The file."""
        return (arguments.path,)

    async def run(self, site: Site, arguments: Arguments) -> Answer:
        """Check, replace, write in one step."""
        path = writable(site, arguments.path)
        raw = containment.read_inside(site.root, path, _LIMIT)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return failure(f"{arguments.path} is not UTF-8 text")
        found = text.count(arguments.old) if arguments.old else 0
        if found == 0:
            return failure(
                f'"old" does not occur in {arguments.path}; read the file and copy the text exactly'
            )
        if found > 1 and not arguments.every:
            return failure(
                f'"old" occurs {found} times in {arguments.path}; give more context or set "every"'
            )
        containment.write_inside(site.root, path, text.replace(arguments.old, arguments.new).encode())
        return ok(f"replaced {found} in {arguments.path}")
