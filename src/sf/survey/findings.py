"""The findings of a scan: for a person, for a memory, and as the file they are kept in."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from sf.survey.found import VERSION, Found
from sf.survey.notes import Note, notes_of
from sf.survey.summary import summary_of

_MOST_BYTES = 8 << 20


class Findings(Found, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a scan found."""

    def summary(self) -> tuple[str, ...]:
        """The lines for a terminal."""
        return summary_of(self)

    def notes(self) -> tuple[Note, ...]:
        """Short texts that stand by themselves, each with a kind and a stable key."""
        return notes_of(self)


def keep(findings: Findings, path: Path) -> None:
    """Write findings in one step to a file that only its owner may read."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(findings), indent=1))
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def kept(path: Path) -> Findings | None:
    """The findings in a file; None when there are none, or not of this version."""
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            return None
        found = msgspec.json.decode(path.read_bytes(), type=Findings)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None
    return found if found.version == VERSION else None
