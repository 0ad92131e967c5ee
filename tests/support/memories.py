"""Memories for tests: a clock that stands still, an embedder of words, and places on both kinds of store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from singularity_memory import words
from singularity_memory.embedders import Matrix, Vector, normalised
from singularity_memory.errors import EmbeddingFailed
from tests.support.stores import Server

DAY = 86_400.0


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class WordEmbedder:
    """Texts with common words are near each other; quick, exact, the same everywhere."""

    trust = 1.0

    def __init__(self, name: str = "words", dimension: int = 64) -> None:
        self.name, self.dimension = name, dimension
        self.broken = False
        self.asked = 0

    def documents(self, texts: Sequence[str]) -> Matrix:
        if self.broken:
            raise EmbeddingFailed("the embedder is away")
        self.asked += len(texts)
        made = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for index, text in enumerate(texts):
            for word in words.tokens(text):
                made[index] += self._of_word(word)
        return normalised(made)

    def query(self, text: str, seconds: float | None = None) -> Vector:
        made: Vector = self.documents([text])[0]
        return made

    def _of_word(self, word: str) -> Vector:
        seed = int.from_bytes(hashlib.sha256(f"{self.name} {word}".encode()).digest()[:8])
        return np.random.default_rng(seed).standard_normal(self.dimension).astype(np.float32)


def memory_url(server: Server) -> str:
    """A schema of its own on a server, as an address."""
    place = server.fresh()
    server.do(f"CREATE SCHEMA {place.schema}")
    joint = "&" if "?" in place.value else "?"
    return f"{place.value}{joint}options=-csearch_path%3D{place.schema}%2Cpublic"
