"""The marker by which an agent says how it sees its own turn."""

from __future__ import annotations

import re
from typing import Literal, get_args

Marker = Literal["complete", "blocked", "giving_up"]

_WINDOW = 200
_PATTERN = re.compile(r"<turn_status>\s*(" + "|".join(get_args(Marker)) + r")\s*</turn_status>")


def parse(text: str) -> Marker | None:
    """The last marker in the last 200 characters; earlier ones are quotations."""
    found = _PATTERN.findall(text[-_WINDOW:])
    if not found:
        return None
    last: Marker = found[-1]
    return last


def without(text: str) -> str:
    """The text with every marker taken out."""
    return _PATTERN.sub("", text).strip()
