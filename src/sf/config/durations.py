"""Durations in configuration: `"90s"`, `"5m"`, `"0"`; seconds in code."""

from __future__ import annotations

import re
from typing import NewType

Seconds = NewType("Seconds", float)

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


_LONGEST = 36_500 * _UNITS["d"]
"""A hundred years: what is added to a time still fits every column."""


def parse(text: object) -> Seconds:
    """Read a duration. Raises ValueError saying what is allowed."""
    if text in ("0", 0):
        return Seconds(0.0)
    match = _PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError('expected a duration such as "90s", "5m" or "0"')
    seconds = float(match.group(1)) * _UNITS[match.group(2)]
    if seconds > _LONGEST:
        raise ValueError('longer than a hundred years ("36500d"); "0" is no limit where there may be none')
    return Seconds(seconds)
