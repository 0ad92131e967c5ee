"""Unified diffs: reading them and applying them to text."""

from __future__ import annotations

import re

import msgspec

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class BadPatch(ValueError):
    """The patch cannot be read, or does not fit the file."""


class Hunk(msgspec.Struct, frozen=True):
    """One change: the lines as they are, and as they shall be."""

    start: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    ends_bare: bool = False
    """The new file ends without a line feed."""


class FilePatch(msgspec.Struct, frozen=True):
    """The hunks of one file."""

    path: str
    hunks: tuple[Hunk, ...]
    creates: bool = False
    deletes: bool = False

    def apply(self, text: str) -> str:
        """The text with every hunk applied. Raises BadPatch when one does not fit."""
        lines = text.split("\n")
        bare = bool(text) and lines[-1] != ""
        if not bare:
            lines.pop()
        shift = 0
        for number, hunk in enumerate(self.hunks, 1):
            at = _position(lines, hunk, hunk.start - 1 + shift)
            if at is None:
                raise BadPatch(f"{self.path}: hunk {number} does not fit; read the file again")
            lines[at : at + len(hunk.before)] = hunk.after
            shift += len(hunk.after) - len(hunk.before)
            if at + len(hunk.after) == len(lines):
                bare = hunk.ends_bare
        return "\n".join(lines) + ("" if bare or not lines else "\n")


def _position(lines: list[str], hunk: Hunk, expected: int) -> int | None:
    """Where the hunk fits nearest to where it says: models miscount lines but copy them well."""
    size = len(hunk.before)
    if size == 0:
        return max(0, min(expected + (1 if hunk.start else 0), len(lines)))
    fits = [at for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == hunk.before]
    return min(fits, key=lambda at: abs(at - expected), default=None)


def parse(text: str) -> list[FilePatch]:
    """Read a unified diff. Raises BadPatch."""
    lines = text.split("\n")
    patches: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            patch, at = _file(lines, at)
            patches.append(patch)
        elif lines[at].startswith("@@"):
            raise BadPatch("a hunk comes before any ---/+++ header")
        else:
            at += 1
    if not patches:
        raise BadPatch("no file header (--- a/path, +++ b/path) found")
    return patches


def _file(lines: list[str], at: int) -> tuple[FilePatch, int]:
    old, new = _name(lines[at]), _name(lines[at + 1])
    if old is None and new is None:
        raise BadPatch("both sides are /dev/null")
    if old is not None and new is not None and old != new:
        raise BadPatch(f"renaming {old} to {new} is not possible; write the new file and delete the old one")
    at += 2
    hunks = []
    while at < len(lines) and lines[at].startswith("@@"):
        hunk, at = _hunk(lines, at)
        hunks.append(hunk)
    path = new if new is not None else old
    assert path is not None
    if not hunks:
        raise BadPatch(f"{path}: no hunk")
    return FilePatch(path, tuple(hunks), creates=old is None, deletes=new is None), at


def _hunk(lines: list[str], at: int) -> tuple[Hunk, int]:
    match = _HUNK.match(lines[at])
    if match is None:
        raise BadPatch(f"not a hunk header: {lines[at][:60]!r}")
    at += 1
    before: list[str] = []
    after: list[str] = []
    bare = False
    promised = (int(match.group(2) or 1), int(match.group(3) or 1))
    while at < len(lines) and not _ends_hunk(lines, at, whole=(len(before), len(after)) == promised):
        line = lines[at]
        if line.startswith("\\"):
            bare = lines[at - 1].startswith(("+", " "))
        elif line == "" and at == len(lines) - 1:
            pass
        elif line[:1] in (" ", ""):
            before.append(line[1:])
            after.append(line[1:])
        elif line[0] == "-":
            before.append(line[1:])
        elif line[0] == "+":
            after.append(line[1:])
        else:
            raise BadPatch(f"a hunk line must begin with ' ', '+' or '-': {line[:60]!r}")
        at += 1
    return Hunk(int(match.group(1)), tuple(before), tuple(after), bare), at


def _ends_hunk(lines: list[str], at: int, *, whole: bool) -> bool:
    """Whether a hunk ends here.

    A deleted line may look like a file's header (`--- a comment`). A real one is followed by `+++` and a
    hunk, and comes when the hunk is `whole`, or in git's own form: models miscount the lines of their hunks.
    """
    if lines[at].startswith(("@@", "diff ")):
        return True
    following = lines[at + 1 : at + 3]
    looks_like_header = (
        lines[at].startswith("--- ")
        and len(following) == 2
        and following[0].startswith("+++ ")
        and following[1].startswith("@@")
    )
    return looks_like_header and (whole or lines[at].startswith(("--- a/", "--- /dev/null")))


def _name(header: str) -> str | None:
    name = header[4:].split("\t")[0].strip()
    if name == "/dev/null":
        return None
    return name[2:] if name[:2] in ("a/", "b/") else name
