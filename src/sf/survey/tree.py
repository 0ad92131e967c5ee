"""The tracked files of a project, read within limits and never through a link that leads out of it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from sf.containment import read_inside
from sf.errors import SfError
from sf.survey.languages import unwanted_name

_TEXT_LIMIT = 400_000
_LONGEST_LINE = 5_000
_OWN = ".sf/"


class Tree(msgspec.Struct, frozen=True):
    """A project's folder and the names that git tracks in it, sf's own left out."""

    root: Path
    files: tuple[str, ...]
    present: frozenset[str]
    own: tuple[str, ...]
    """Those that are neither vendored nor generated, as far as their names tell."""

    @classmethod
    def of(cls, root: Path, names: Iterable[str]) -> Tree:
        """The tree of these names, in order."""
        files = tuple(sorted({name for name in names if not name.startswith(_OWN)}))
        own = tuple(name for name in files if unwanted_name(name) is None)
        return cls(root, files, frozenset(files), own)

    def text(self, name: str, limit: int = _TEXT_LIMIT) -> str:
        """The start of a tracked file; empty when it is not there, not a regular file, or leads out."""
        if name not in self.present:
            return ""
        try:
            return read_inside(self.root, name, limit).decode("utf-8", "replace")
        except (SfError, OSError):
            return ""

    def toml(self, name: str) -> dict[str, Any]:
        """A tracked TOML file; empty when it cannot be read as one."""
        text = self.text(name)
        # tomllib takes quadratic time over a dotted key, which ends with its line.
        if any(len(line) > _LONGEST_LINE for line in text.splitlines()):
            return {}
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError):
            return {}

    def json(self, name: str) -> dict[str, Any]:
        """A tracked JSON file whose top is an object; empty when it cannot be read as one."""
        try:
            found = json.loads(self.text(name) or "{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def named(self, *names: str, most: int = 200) -> list[str]:
        """The project's own files that have one of these last names, those nearest to the top first."""
        wanted = frozenset(names)
        found = [name for name in self.own if name.rpartition("/")[2] in wanted]
        return sorted(found, key=lambda name: (name.count("/"), name))[:most]


def folder_of(name: str) -> str:
    """The folder that holds a file; empty for the top."""
    return name.rpartition("/")[0]


def table(value: object) -> dict[str, Any]:
    """The value when it is a table, else an empty one: a repository's files may have any shape."""
    return value if isinstance(value, dict) else {}


def texts(value: object) -> list[str]:
    """The strings of a list, whatever else it holds; none when it is no list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
