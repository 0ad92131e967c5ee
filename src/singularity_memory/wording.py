"""The wording of a content: what is left when differences are gone that tell nothing. Pure.

Case, spaces, quotes and the marks of sentences go, and at the end a date that is set off like a stamp, or a
count in brackets. A plain number or date stays: «listens on port 5433» is not what «listens on port 5432»
says. So do signs: `<` is not `>`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

_OPENING = "\"'`“”‘’«»([{"
_CLOSING = "\"'`“”‘’«».,;:!?…)]}"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DATE = (
    r"(?:\d{4}-\d\d-\d\d|\d\d?[./]\d\d?[./]\d{2,4}"
    rf"|\d\d?(?:st|nd|rd|th)? {_MONTH} \d{{4}}|{_MONTH} \d\d?,? \d{{4}})"
)
_TIME = r"(?:[t ,]{1,3}(?:at )?\d\d?:\d\d(?::\d\d(?:\.\d{1,9})?)?(?: ?[ap]m| ?utc|z|[+-]\d\d:?\d\d)?)"
_LAST = re.compile(
    rf"(?:[,;:–-] ?| )(?:as of |(?:last )?seen (?:on )?)?[(\[]{_DATE}{_TIME}?[)\]]\.?$"
    rf"|(?:[,;:] | [–-] |,? as of |,? (?:last )?seen (?:on )?){_DATE}{_TIME}?\.?$"
    r"|[ ,;:-]{0,3}[(\[](?:#|no\. ?|x|run |attempt |seen )?\d{1,9}(?:x|st|nd|rd|th| times)?[)\]]\.?$"
)
_LONGEST_LAST = 80


def wording(content: str) -> str:
    """The words of a content as they are compared."""
    folded = " ".join(unicodedata.normalize("NFKC", content).casefold().split())
    start = max(0, len(folded) - _LONGEST_LAST)
    kept = folded[:start] + _LAST.sub("", folded[start:])
    return " ".join(bare for word in kept.split(" ") if (bare := word.lstrip(_OPENING).rstrip(_CLOSING)))


def fingerprint(content: str) -> str:
    """The SHA-256 of the wording."""
    return hashlib.sha256(wording(content).encode("utf-8", "surrogatepass")).hexdigest()
