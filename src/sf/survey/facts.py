"""What one file tells: its language, its length, its outline, or why it was left out."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec

from sf.containment import read_inside
from sf.errors import SfError
from sf.survey import languages
from sf.survey.grammars import TABLES
from sf.survey.languages import LeftOut
from sf.survey.syntax import Outline, outline

MAX_BYTES = 1 << 20
"""A file that is larger is not read."""


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A file to look into. Its name is bytes: it need not be UTF-8. An empty language is told by a shebang."""

    name: bytes
    language: str


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """What was found in a file."""

    language: str
    lines: int = 0
    left_out: LeftOut | None = None
    outline: Outline = Outline()


def look_into(root: Path, name: str, language: str) -> Facts:
    """Read one file below `root` and say what is in it; never raises for what the file is."""
    try:
        status = (root / name).lstat()
        if stat.S_ISLNK(status.st_mode):
            return Facts(language, left_out="link")
        if status.st_size > MAX_BYTES:
            return Facts(language, left_out="large")
        content = read_inside(root, name, MAX_BYTES)
    except (SfError, OSError, ValueError):
        return Facts(language, left_out="unreadable")
    language = language or languages.of_shebang(content)
    reason = languages.unwanted_content(language, content)
    if reason or not language:
        return Facts(language, left_out=reason)
    lines = languages.lines_in(content)
    return Facts(language, lines, None, outline(language, content) if language in TABLES else Outline())
