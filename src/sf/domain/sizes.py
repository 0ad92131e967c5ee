"""Sizes for people."""

from __future__ import annotations

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def told(number: int) -> str:
    """Bytes in words: `842 B`, `12.3 MiB`."""
    for word, factor in _UNITS:
        if number >= factor:
            return f"{number / factor:.1f} {word}"
    return f"{number} B"
