"""Embedders: texts become unit vectors. A name in the configuration becomes one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Vector = NDArray[np.float32]
Halves = NDArray[np.float16]
"""Vectors as they are kept."""


class Embedder(Protocol):
    """Makes vectors of unit length. Thread-safe. Raises EmbeddingFailed, and nothing else, when it cannot."""

    @property
    def name(self) -> str:
        """Which vectors these are: kept beside them, and vectors of two names are never compared."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    @property
    def trust(self) -> float:
        """What its judgement weighs against that of the words; 1 for a good sentence model."""

    def documents(self, texts: Sequence[str]) -> Matrix:
        """One row for each text that is kept."""

    def query(self, text: str, seconds: float | None = None) -> Vector:
        """The vector of a text that is asked for, within a time."""


def normalised(matrix: NDArray[Any]) -> Matrix:
    """The rows at unit length; a row of zeros stays one."""
    wide = np.asarray(matrix, dtype=np.float32)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    made: Matrix = (wide / np.maximum(lengths, np.float32(1e-12))).astype(np.float32)
    return made
