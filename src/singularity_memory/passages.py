"""The passages of a text that an embedder reads: the whole, and of a longer text its parts as well."""

from __future__ import annotations

import re

WHOLE = 110
"""A text of no more words is one passage."""
WORDS = 50
OVERLAP = 15
MOST = 16
"""Of a very long text only this many parts are embedded; its words are all in the lexical index."""

_WORD = re.compile(r"\S+")


def passages(text: str) -> list[str]:
    """The whole text first, then its parts of 50 words, each overlapping the one before by 15."""
    spans = [match.span() for match in _WORD.finditer(text)]
    made = [text]
    if len(spans) <= WHOLE:
        return made
    for start in range(0, len(spans), WORDS - OVERLAP):
        end = min(start + WORDS, len(spans))
        made.append(text[spans[start][0] : spans[end - 1][1]])
        if end == len(spans) or len(made) > MOST:
            break
    return made
