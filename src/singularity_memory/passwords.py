"""Passwords in a text: a literal that is assigned to a name for one, however short. Pure.

Prose about passwords, types, calls, references and placeholders are no literals. Without quotes a value
counts when no word and no variable looks like that, or when it is set as an environment variable is.
"""

from __future__ import annotations

import re

_HINT = re.compile(r"pass|pwd", re.IGNORECASE)
"""Most texts have neither, and looking for a name takes much longer."""
# Every repetition is bounded, so that a hostile text costs no more than a plain one of its length.
_NAME = (
    r"(?:[\w.-]{0,48}?(?:passwords?|passwd|passphrase|passcode|pwd)|(?:[\w.-]{0,48}[_.-])?pass"
    r"|[\w.-]{0,48}[a-z](?-i:Pass))(?:_?(?:\d{1,4}|prod|production|staging|dev|test|old|new))?"
)
_ASSIGNED = re.compile(
    rf"(?<![\w.-])(?P<option>--)?(?P<name>{_NAME})[\"'`]?"
    r"(?:\s{0,9}:\s{0,9}[A-Za-z_][\w.|\[\] ]{0,60}?(?=\s{0,9}=))?"
    r"(?P<joint>(?(option)[ =]|\s{0,9}(?:=>|:=|==?|:)\s{0,9}))"
    r"(?:\"(?P<double>[^\"\n]{1,200})\"|'(?P<single>[^'\n]{1,200})'|`(?P<back>[^`\n]{1,200})`|(?P<bare>[^\s\"'`,;]{1,200}))",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"^(?:[$<{%&*•\[]|x{3,}$|\.{3}|…|vault:|env:|op://|your|my[-_ ]|change|example|placeholder|redacted"
    r"|hidden|secret$|password|pass(?:wd|phrase)?$|none$|null$|nil$|true$|false$|str(?:ing)?\b|bytes\b|text\b"
    r"|required|optional|empty$|unset$)",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"%[sdr(]|[{<]|\$\w")
_EXPRESSION = re.compile(r"[\[({]|^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$|\w::\w|->")
_VERSION = re.compile(r"^\w*?\d+(?:\.\d+)+\W*$")
_SHORTEST = 4


def holds(text: str) -> bool:
    """Whether a password is written out in a text."""
    if not _HINT.search(text):
        return False
    return any(_is_literal(found) for found in _ASSIGNED.finditer(text))


def redacted(text: str) -> str:
    """The text with `[secret]` for every password in it."""
    if not _HINT.search(text):
        return text
    return _ASSIGNED.sub(lambda found: _without(found) if _is_literal(found) else found[0], text)


def _without(found: re.Match[str]) -> str:
    (group,) = (name for name in ("double", "single", "back", "bare") if found[name] is not None)
    start, end = (place - found.start() for place in found.span(group))
    return found[0][:start] + "[secret]" + found[0][end:]


def _is_literal(found: re.Match[str]) -> bool:
    quoted = found["double"] or found["single"] or found["back"]
    if quoted is not None:
        return not (_REFERENCE.search(quoted) or _TEMPLATE.search(quoted) or " " in quoted)
    value = found["bare"].rstrip(".)]}")
    if len(value) < _SHORTEST or _REFERENCE.search(value) or _EXPRESSION.search(value):
        return False
    if found["name"].isupper() and "=" in found["joint"]:
        return not value.isupper()
    return _is_odd(value) and not _VERSION.search(value)


def _is_odd(value: str) -> bool:
    """Neither a word nor a variable: digits alone, letters with digits, or signs that no name has."""
    if value.isdigit():
        return True
    has_letter = any(letter.isalpha() for letter in value)
    return has_letter and any(letter.isdigit() or letter in "!@#$%^&*+?" for letter in value)
