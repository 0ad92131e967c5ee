"""Cutting a diff into parts that a reviewer can hold in mind. Pure."""

from __future__ import annotations

import msgspec

REVIEW_CHUNK_LINES = 300
_OUTLINE_LINES = 20


class FileDiff(msgspec.Struct, frozen=True):
    """The diff of one file."""

    path: str
    text: str

    @property
    def lines(self) -> int:
        """Its length."""
        return self.text.count("\n")


def split(diff: str) -> list[FileDiff]:
    """A unified diff, file by file."""
    files: list[FileDiff] = []
    current: list[str] = []
    for line in diff.splitlines(keepends=True):
        if line.startswith("diff --git ") and current:
            files.append(_file(current))
            current = []
        current.append(line)
    if current:
        files.append(_file(current))
    return files


def _file(lines: list[str]) -> FileDiff:
    header = lines[0].strip()
    path = header.rpartition(" b/")[2] or header
    return FileDiff(path, "".join(lines))


def chunks(files: list[FileDiff], most: int = REVIEW_CHUNK_LINES) -> list[list[FileDiff]]:
    """Whole files packed in order up to `most` lines; a larger file is a chunk of its own."""
    packed: list[list[FileDiff]] = []
    room = 0
    for file in files:
        if packed and file.lines <= room:
            packed[-1].append(file)
            room -= file.lines
        else:
            packed.append([file])
            room = most - file.lines
    return packed


def outline(files: list[FileDiff]) -> str:
    """The change in short: each file with the first and last lines of its diff."""
    parts = []
    for file in files:
        lines = file.text.splitlines()
        if len(lines) > 2 * _OUTLINE_LINES:
            cut = f"... [{len(lines) - 2 * _OUTLINE_LINES} lines] ..."
            lines = [*lines[:_OUTLINE_LINES], cut, *lines[-_OUTLINE_LINES:]]
        parts.append("\n".join(lines))
    return "\n".join(parts)
