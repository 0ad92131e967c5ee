"""Entries for measuring a memory: 60 words each, common and rare as in any language, and their vectors."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence

import numpy as np

from singularity_memory.embedders import Matrix, Vector, files, normalised
from singularity_memory.embedders.sentence import TOKENIZER, SentenceEmbedder

_WORDS = 60_000
_LENGTH = 60
_SUBJECTS = 200


class Ground:
    """The same texts and vectors for everybody: they depend on their number alone."""

    def __init__(self, entries: int) -> None:
        self._cumulative = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(_WORDS)))
        self._words = _vocabulary()
        source = np.random.default_rng(1)
        subjects = source.standard_normal((_SUBJECTS, 384)).astype(np.float32)
        noise = source.standard_normal((entries, 384)).astype(np.float32)
        self._vectors = normalised(subjects[source.integers(0, _SUBJECTS, entries)] + 1.2 * noise)
        self.entries = entries

    def texts(self, start: int, end: int) -> list[str]:
        """Entries by number."""
        return [self._text(number, _LENGTH) for number in range(start, end)]

    def vectors(self, start: int, end: int) -> Matrix:
        """Their vectors."""
        return self._vectors[start:end]

    def query(self, number: int) -> str:
        """Three to nine words."""
        return self._text(-1 - number, 3 + number % 7)

    def query_vector(self, number: int) -> Vector:
        """A vector near that of some entry."""
        source = np.random.default_rng(number)
        near = self._vectors[number * 131 % self.entries] + 0.03 * source.standard_normal(384)
        made: Vector = normalised(near[None])[0]
        return made

    def _text(self, number: int, length: int) -> str:
        return " ".join(random.Random(number).choices(self._words, cum_weights=self._cumulative, k=length))


class WithQueries:
    """Gives entries and queries of the ground their vectors, in the order in which they are asked for."""

    name = "ground"
    dimension = 384
    trust = 1.0

    def __init__(self, ground: Ground, model: SentenceEmbedder | None = None) -> None:
        self._ground, self._model = ground, model
        self._next = 0

    def documents(self, texts: Sequence[str]) -> Matrix:
        """The next entries' vectors."""
        start, self._next = self._next, self._next + len(texts)
        return self._ground.vectors(start, self._next)

    def query(self, text: str, seconds: float | None = None) -> Vector:
        """The next query's vector; with a model, after it has read the text as well."""
        if self._model is not None:
            self._model.query(text, seconds)
        self._next += 1
        return self._ground.query_vector(self._next)


def _vocabulary() -> list[str]:
    """Words that the sentence model knows, and after them compounds of two, as rare words often are."""
    known = json.loads(files.locate(*TOKENIZER).read_text(encoding="utf-8"))["model"]["vocab"]
    words = [word for word in known if len(word) > 2 and word.isascii() and word.isalpha()]
    odd = random.Random(0)
    return words + [odd.choice(words) + odd.choice(words) for _ in range(_WORDS - len(words))]
