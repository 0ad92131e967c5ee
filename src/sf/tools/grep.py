"""grep: a regular expression over the files, by the linear-time grep of the system."""

from __future__ import annotations

import msgspec

from sf import containment
from sf.tools.base import Answer, Site, Tool, failure, ok
from sf.tools.places import readable

_MOST = 200


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What grep takes."""

    pattern: str
    path: str = "."
    files: str = "*"


class Grep(Tool[Arguments]):
    """Search text files."""

    name = "grep"
    description = 'Search files for an extended regular expression. "files" is a glob on file names.'
    needs = "read"
    approval = "fs:read"
    parameters = Arguments

    def paths(self, arguments: Arguments) -> tuple[str, ...]:
        """Where it looks."""
        return (arguments.path,)

    async def run(self, site: Site, arguments: Arguments) -> Answer:
        """Matching lines as `path:line:text`, at most 200."""
        root, path = readable(site, arguments.path)
        target = containment.relative_inside(root, path) if root == site.root else str(path)
        command = [
            "grep",
            "-rnIE",
            "--exclude-dir=.git",
            "--exclude-dir=node_modules",
            f"--include={arguments.files}",
        ]
        ran = await site.command([*command, "-m", str(_MOST), "-e", arguments.pattern, "--", target], 30.0)
        if ran.exit_code not in (0, 1):
            return failure(f"grep failed: {ran.output.strip()[:300]}")
        lines = ran.output.splitlines()
        cut = f", the first {_MOST} shown" if len(lines) > _MOST else ""
        return ok(f"{len(lines)} matches{cut}", "\n".join(line[:400] for line in lines[:_MOST]))
