"""Text in the cells of a terminal: a character fills one, two or none of them."""

from __future__ import annotations

import unicodedata

_WIDE = frozenset("WF")
_JOINED = frozenset({"Mn", "Me", "Cf"})
"""Categories of characters that are drawn into the cell before them, or not at all."""


def width(text: str) -> int:
    """How many cells a text without control characters fills."""
    return len(text) if text.isascii() else sum(map(_width, text))


def cut(text: str, most: int) -> str:
    """The text within so many cells, with an ellipsis where something was left out."""
    if width(text) <= most:
        return text
    kept, room = "", most - 1
    for character in text:
        room -= _width(character)
        if room < 0:
            break
        kept += character
    return f"{kept}…" if most > 0 else ""


def padded(text: str, least: int) -> str:
    """The text with spaces up to so many cells."""
    return text + " " * (least - width(text))


def _width(character: str) -> int:
    if unicodedata.category(character) in _JOINED:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1
