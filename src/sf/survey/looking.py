"""Reading one file and saying what is in it."""

from __future__ import annotations

import stat
from pathlib import Path

from sf.containment import read_inside
from sf.errors import SfError
from sf.survey import languages
from sf.survey.facts import Facts, Outline
from sf.survey.grammars import TABLES
from sf.survey.syntax import outline

MAX_BYTES = 1 << 20
"""A file that is larger is not read."""


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
