"""Words of a text as the lexical index knows them: identifiers whole and in parts, folded and stemmed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_RAW = re.compile(r"\w+(?:[./\\:-]+\w+)*")
_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Letters of languages that are written without spaces: two of them are a word here."""
_FOREIGN = re.compile(f"{_UNSPACED.pattern}+|(?:(?!{_UNSPACED.pattern})[^\\W\\d_])+|\\d+")
_LONGEST = 64
_COMPOUND_PARTS = 8

_STOP = """
a about am an and are as at be been being but by can could did do does for from had has have he her his how i
if in into is it its ll me my no nor not of on or our s she should so some t than that the their them then
there these they this those to us ve was we were what when where which while who whom whose why will with
would you your
"""
STOP = frozenset(_STOP.split())
"""Words that say nothing about what is asked for; a query is read without them when it has others."""


def tokens(text: str) -> list[str]:
    """Every word of a text in order; of a name written in several parts, its parts and the whole of it."""
    return list(_tokens(text))


def terms(query: str) -> list[str]:
    """The different words that a query asks for, in order, without stop words unless it has no others."""
    unique = list(dict.fromkeys(tokens(query)))
    telling = [word for word in unique if word not in STOP]
    return telling or unique


@lru_cache(maxsize=8)
def _tokens(text: str) -> tuple[str, ...]:
    """Remembered for a moment: a text at the door is cut for the door and for the index."""
    found: list[str] = []
    for raw in _RAW.findall(unicodedata.normalize("NFC", text)):
        # A long one is not met again, and would stay in memory with its thousands of parts.
        found.extend(_remembered(raw) if len(raw) <= _LONGEST else _of_raw(raw))
    return tuple(found)


@lru_cache(maxsize=65_536)
def _remembered(raw: str) -> tuple[str, ...]:
    return _of_raw(raw)


def _of_raw(raw: str) -> tuple[str, ...]:
    words = _WORD.findall(raw)
    made: list[str] = []
    for word in words:
        made.extend(_of_word(word))
    if 1 < len(words) <= _COMPOUND_PARTS and len(raw) <= _LONGEST:
        made.append("_".join(word.lower() for word in words))
    return tuple(made)


def _of_word(word: str) -> Iterator[str]:
    parts = _PART.findall(word) if word.isascii() else _FOREIGN.findall(word)
    for part in parts:
        if _UNSPACED.search(part):
            yield from (part[at : at + 2] for at in range(max(1, len(part) - 1)))
        else:
            yield stem(part.lower()[:_LONGEST])
    if len(parts) > 1 and len(word) <= _LONGEST:
        yield word.lower().strip("_")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A word without its English ending; words of three letters and fewer stay as they are."""
    if len(word) <= 3 or not word.isascii() or not word.isalpha() or word in STOP:
        return word
    return _bare(_without_ending(_singular(word)))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _without_ending(word: str) -> str:
    for ending in ("ing", "ed"):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            if len(rest) >= 3 and any(letter in "aeiouy" for letter in rest):
                doubled = rest[-1] == rest[-2] and rest[-1] not in "lsz"
                return rest[:-1] if doubled else rest
    return word


def _bare(word: str) -> str:
    if len(word) > 4 and word.endswith("e"):
        return word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word
