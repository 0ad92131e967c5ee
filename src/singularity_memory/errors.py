"""The error tree. Match on `code`, never on text.

MemoryFault
├── Mistake           the caller asked for something that cannot be
│   ├── UnknownEntry      unknown_entry
│   ├── BadRequest        bad_request
│   └── UnknownEmbedder   unknown_embedder
└── Failure           the memory could not do what it was asked
    ├── StoreFailed       store_failed
    ├── StoreTooNew       store_too_new
    ├── ModelMissing      model_missing (not installed)
    ├── ModelTampered     model_tampered (its file is not the one this version was made for)
    └── EmbeddingFailed   embedding_failed
"""

from __future__ import annotations

from typing import ClassVar


class MemoryFault(Exception):
    """An error with a stable code and one line of cause."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Mistake(MemoryFault):
    """The caller asked for something that cannot be."""

    code = "mistake"


class UnknownEntry(Mistake):
    """No entry has this id."""

    code = "unknown_entry"


class BadRequest(Mistake):
    """A value is outside what the call allows."""

    code = "bad_request"


class UnknownEmbedder(Mistake):
    """No embedder has this name."""

    code = "unknown_embedder"


class Failure(MemoryFault):
    """The memory could not do what it was asked."""

    code = "failure"


class StoreFailed(Failure):
    """The database could not be opened or refused a statement."""

    code = "store_failed"


class StoreTooNew(Failure):
    """The database was written by a version that knows more."""

    code = "store_too_new"


class ModelMissing(Failure):
    """The package that carries a model is not installed."""

    code = "model_missing"


class ModelTampered(Failure):
    """A model's file is not the one that this version was made for."""

    code = "model_tampered"


class EmbeddingFailed(Failure):
    """A text could not be embedded in the time there was."""

    code = "embedding_failed"
