"""A static model: the mean of its tokens' vectors. Much faster than a sentence model, and blunter."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from singularity_memory.embedders import Matrix, Vector, files, normalised

_WEIGHTS = (
    "wordllama",
    "weights/l2_supercat_256.safetensors",
    "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
)
_TOKENIZER = (
    "wordllama",
    "tokenizers/l2_supercat_tokenizer_config.json",
    "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
)


class StaticEmbedder:
    """256 dimensions from a table of token vectors."""

    name = "wordllama-l2-supercat-256"
    dimension = 256
    trust = 0.25

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        self._table = _only_tensor(files.locate(*_WEIGHTS))
        self._tokenizer = Tokenizer.from_file(str(files.locate(*_TOKENIZER)))

    def documents(self, texts: Sequence[str]) -> Matrix:
        """One row a text."""
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        made = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for index, one in enumerate(encoded):
            if one.ids:
                made[index] = self._table[one.ids].astype(np.float32).mean(axis=0)
        return normalised(made)

    def query(self, text: str, seconds: float | None = None) -> Vector:
        """Well below a millisecond."""
        made: Vector = self.documents([text])[0]
        return made


def _only_tensor(file: Path) -> NDArray[np.float16]:
    """The one half-precision tensor of a safetensors file."""
    content = file.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    (tensor,) = (value for key, value in header.items() if key != "__metadata__")
    start, end = tensor["data_offsets"]
    flat = np.frombuffer(content[8 + length + start : 8 + length + end], dtype=np.float16)
    return flat.reshape(tensor["shape"])
