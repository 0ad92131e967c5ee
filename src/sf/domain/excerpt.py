"""Cutting long text for people, logs and prompts without hiding that it was cut."""

from __future__ import annotations

import re

from sf.domain.utf8 import escaped

STEERING = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Characters that steer a terminal, or turn the direction of writing, as a class of a regular expression."""
_STEERING = re.compile(f"[{STEERING}]")


def head_and_tail(text: str, limit: int, marker: str) -> str:
    """The text if it is within `limit` bytes, else that much of its start and end around the marker."""
    text = escaped(text)
    raw = text.encode()
    if len(raw) <= limit:
        return text
    half = limit // 2
    head = raw[:half].decode(errors="ignore")
    tail = raw[-half:].decode(errors="ignore")
    return f"{head}\n{marker}\n{tail}"


def last_error(text: str, full_path: str) -> str:
    """An error for a prompt: at most 4 KB, with the place of the whole of it."""
    return head_and_tail(text, 4096, f"... [truncated, full payload at {full_path}] ...")


def gate_output(text: str) -> str:
    """A gate's output for its row: at most 8 KB."""
    return head_and_tail(text, 8192, "... [truncated] ...")


def printable(text: str) -> str:
    """The text with control characters as spaces: for titles, which end up in commit messages."""
    return "".join(character if character.isprintable() else " " for character in text)


def unsteering(text: str) -> str:
    """The text with what would steer a terminal written out, as JSON does it too."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str, limit: int = 120) -> str:
    """The text on one line, cut with an ellipsis."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
