"""The passages of a text that an embedder reads: short enough for a model that reads 256 tokens."""

from __future__ import annotations

import re

WORDS = 150
OVERLAP = 30
MOST = 8
"""Of a longer text only this many passages are embedded; its words are all in the lexical index."""

_WORD = re.compile(r"\S+")


def passages(text: str) -> list[str]:
    """At least one passage; each but the last of about 150 words, overlapping by 30."""
    spans = [match.span() for match in _WORD.finditer(text)]
    if len(spans) <= WORDS + OVERLAP:
        return [text]
    made = []
    for start in range(0, len(spans), WORDS - OVERLAP):
        end = min(start + WORDS, len(spans))
        made.append(text[spans[start][0] : spans[end - 1][1]])
        if end == len(spans) or len(made) == MOST:
            break
    return made
