"""Which document a content is, and which entry a document is in a bank."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_SHA256 = re.compile(r"[0-9a-f]{64}")


def normalised(content: str) -> str:
    """A content without the differences that no reader sees: line ends, trailing space, composed letters."""
    lines = unicodedata.normalize("NFC", content).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()


def document_id(content: str) -> str:
    """The SHA-256 of the normalised content."""
    return hashlib.sha256(normalised(content).encode("utf-8", "surrogatepass")).hexdigest()


def is_unnamed(document: str) -> bool:
    """Whether a document is known by the content that it had at first, because nobody named it."""
    return _SHA256.fullmatch(document) is not None


def entry_id(bank: str, document: str) -> str:
    """The id of a document in a bank: the same on every machine, and different in every bank."""
    return hashlib.sha256(f"{bank}\0{document}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
