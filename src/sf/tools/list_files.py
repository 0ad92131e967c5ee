"""list_files: the files below a folder."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

import msgspec

from sf.tools.base import Answer, Site, Tool, failure, ok
from sf.tools.places import readable

_MOST = 500
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".pytest_cache"})


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What list_files takes."""

    path: str = "."
    pattern: str = "*"


class ListFiles(Tool[Arguments]):
    """List files; folders of dependencies and caches are left out."""

    name = "list_files"
    description = 'List files below a folder. "pattern" is a glob on the path, such as "*.py".'
    needs = "read"
    approval = "fs:read"
    parameters = Arguments

    def paths(self, arguments: Arguments) -> tuple[str, ...]:
        """The folder."""
        return (arguments.path,)

    async def run(self, site: Site, arguments: Arguments) -> Answer:
        """Paths relative to the folder, sorted, at most 500."""
        _, folder = readable(site, arguments.path)
        if not folder.is_dir():
            return failure(f"{arguments.path} is not a folder")
        found: list[str] = []
        for here, folders, files in os.walk(folder, followlinks=False):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            inner = Path(here).relative_to(folder)
            found += [
                name for name in (str(inner / file) for file in files) if _matches(name, arguments.pattern)
            ]
            if len(found) > _MOST:
                break
        cut = f", the first {_MOST} shown" if len(found) > _MOST else ""
        return ok(f"{arguments.path}: {len(found)} files{cut}", "\n".join(sorted(found)[:_MOST]))


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(name.rsplit("/", 1)[-1], pattern)
