"""The door: what is refused, with a reason each. Secrets, junk, and what every session is told anyway."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

from singularity_memory import passwords, words
from singularity_memory.model import Draft

LONGEST = 100_000
FEWEST_WORDS = 2
MOST_TAGS = 64
LONGEST_TAG = 256
LONGEST_DOCUMENT_ID = 512
LONGEST_METADATA = 20_000
_SHINGLE = 5
_RESTATED = 0.8

# No pattern may look at a character from more than some places: an entry of 100,000 that makes one try them
# all holds the interpreter, and every other call with it, for hours.
_KEYS = (
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[0-9A-Z]{16}\b")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[0-9A-Za-z]{36,}|github_pat_[0-9A-Za-z_]{60,})")),
    ("a GitLab token", re.compile(r"\bglpat-[0-9A-Za-z_-]{20,}")),
    ("an Anthropic key", re.compile(r"\bsk-ant-[0-9A-Za-z_-]{20,}")),
    ("an OpenAI key", re.compile(r"\bsk-(?:proj-)?[0-9A-Za-z_-]{32,}")),
    ("a Stripe key", re.compile(r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}")),
    ("a Slack token", re.compile(r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}")),
    ("a Google key", re.compile(r"\bAIza[0-9A-Za-z_-]{35}\b")),
    ("a package index token", re.compile(r"\b(?:pypi-AgE[0-9A-Za-z_-]{50,}|npm_[0-9A-Za-z]{36})")),
    ("a JSON web token", re.compile(r"\beyJ[\w-]{10,2000}\.eyJ[\w-]{10,}\.[\w-]{10,}")),
    ("a password in an address", re.compile(r"[a-z0-9+.-]://[^\s/:@]+:(?!\$|<|\{|\*)[^\s/@]{3,}@")),
)
_ASSIGNED = re.compile(
    r"(?i)(?:secret|token|passw(?:or)?d|api_?-?key|access_?-?key|private_?-?key|credential)[\w.-]{0,64}"
    r"[\"']?\s*(?:=>|[:=])\s*[\"']?([^\s\"',;]{12,})"
)
_KEY_BODY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]")
_CALM_BITS = 3.5
"""Below this many bits a character a value is words or a name, not a secret."""
_REFERENCE = re.compile(r"^(?:\$|<|\{|%|vault:|env:|os\.|process\.|self\.|config|getenv|\*{3})|\(")


def refusal(draft: Draft, boot_files: Iterable[str] = ()) -> str:
    """Why a draft is not retained; empty when it may be. `boot_files`: texts that every session reads."""
    return (
        _size(draft)
        or _secret(draft.content)
        or _secret(_metadata(draft))
        or _secret(_quoted_metadata(draft))
        or _junk(draft.content)
        or _restated(draft.content, boot_files)
    )


def redacted(text: str) -> str:
    """The text with `[secret]` for every secret that would be refused."""
    text = _KEY_BODY.sub("[secret]", text)
    for _, pattern in _KEYS:
        text = pattern.sub("[secret]", text)
    text = _ASSIGNED.sub(
        lambda found: found[0].replace(found[1], "[secret]") if _is_random(found[1]) else found[0], text
    )
    return passwords.redacted(text)


def _size(draft: Draft) -> str:
    if not draft.content.strip():
        return "empty"
    if any(
        _is_unstorable(text) for text in (draft.content, draft.document_id, *draft.tags, _metadata(draft))
    ):
        return "not text: it has a character that no store keeps"
    if len(draft.content) > LONGEST:
        return f"too long: {len(draft.content)} characters, at most {LONGEST}"
    if len(draft.document_id) > LONGEST_DOCUMENT_ID:
        return f"a document_id has at most {LONGEST_DOCUMENT_ID} characters"
    if len(draft.tags) > MOST_TAGS or any(not tag or len(tag) > LONGEST_TAG for tag in draft.tags):
        return f"at most {MOST_TAGS} tags of 1 to {LONGEST_TAG} characters"
    if len(_metadata(draft)) > LONGEST_METADATA:
        return f"more than {LONGEST_METADATA} characters of metadata"
    return ""


def _is_unstorable(text: str) -> bool:
    return _UNSTORABLE.search(text) is not None


def _metadata(draft: Draft) -> str:
    return "\n".join(f"{key}={value}" for key, value in draft.metadata.items())


def _quoted_metadata(draft: Draft) -> str:
    """What is under a name in metadata is a value, never a variable."""
    return "\n".join(f'{key}="{value}"' for key, value in draft.metadata.items() if isinstance(value, str))


def _secret(text: str) -> str:
    for what, pattern in _KEYS:
        if pattern.search(text):
            return f"a secret: {what}"
    if any(_is_random(value) for value in _ASSIGNED.findall(text)):
        return "a secret: a random value that is assigned to a name for one"
    return "a secret: a password" if passwords.holds(text) else ""


def _is_random(value: str) -> bool:
    mixed = any(letter.isdigit() for letter in value) and any(letter.isalpha() for letter in value)
    return mixed and not _REFERENCE.search(value) and entropy(value) >= _CALM_BITS


def entropy(text: str) -> float:
    """Bits a character, by the text's own frequencies."""
    counts = Counter(text)
    return -sum(times / len(text) * math.log2(times / len(text)) for times in counts.values())


def _junk(content: str) -> str:
    found = words.tokens(content)
    telling = {word for word in found if word not in words.STOP and not word.isdigit()}
    if len(telling) < FEWEST_WORDS:
        return "says nothing: fewer than two words that tell something"
    if len(found) >= 40 and len(telling) * 20 < len(found):
        return "says nothing: the same few words over and over"
    if len(_CONTROL.findall(content)) > 0.1 * len(content):
        return "not text"
    return ""


def _restated(content: str, boot_files: Iterable[str]) -> str:
    for text in boot_files:
        mine = _shingles(content)
        if mine and len(mine & _shingles(text)) >= _RESTATED * len(mine):
            return "restates a file that every session reads anyway"
    return ""


def _shingles(text: str) -> set[tuple[str, ...]]:
    cut = words.tokens(text)
    return {tuple(cut[at : at + _SHINGLE]) for at in range(max(0, len(cut) - _SHINGLE + 1))}
