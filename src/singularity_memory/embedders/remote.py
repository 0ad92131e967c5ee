"""Embedders that ask a server: the OpenAI form of the request, which many speak, and Ollama's."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

import numpy as np

from singularity_memory.embedders import Matrix, Vector, normalised
from singularity_memory.errors import BadRequest, EmbeddingFailed

OPENAI = "https://api.openai.com/v1"
OLLAMA = "http://127.0.0.1:11434"
_BATCH = 64
_SECONDS = 30.0
_LONGEST_ANSWER = 64 << 20


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class RemoteEmbedder:
    """A model on a server. Its dimension is asked for once, unless it is given."""

    trust = 1.0

    def __init__(self, kind: str, url: str, model: str, key: str = "", dimension: int = 0) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise BadRequest(f"an embedder's address begins with http:// or https://, not {url!r}")
        if not model:
            raise BadRequest(f"the embedder {kind} needs the name of a model")
        self.name = f"{kind}:{model}"
        self._kind, self._model, self._key = kind, model, key
        path = "/embeddings" if kind == "openai" else "/api/embed"
        self._url = url.rstrip("/") + path
        self._opener = urllib.request.build_opener(_NoRedirect)
        self.dimension = dimension or self._embed(["dimension"], _SECONDS).shape[1]

    def documents(self, texts: Sequence[str]) -> Matrix:
        """One row a text, some texts a request."""
        parts = [
            self._embed(list(texts[start : start + _BATCH]), _SECONDS)
            for start in range(0, len(texts), _BATCH)
        ]
        made = np.concatenate(parts) if parts else np.zeros((0, self.dimension), dtype=np.float32)
        if made.shape[1] != self.dimension:
            raise EmbeddingFailed(f"{self.name} has {made.shape[1]} dimensions, not {self.dimension}")
        return made

    def query(self, text: str, seconds: float | None = None) -> Vector:
        """One request, within the time there is."""
        made: Vector = self._embed([text], _SECONDS if seconds is None else max(0.001, seconds))[0]
        if len(made) != self.dimension:
            raise EmbeddingFailed(f"{self.name} has {len(made)} dimensions, not {self.dimension}")
        return made

    def _embed(self, texts: list[str], seconds: float) -> Matrix:
        body = json.dumps({"model": self._model, "input": texts}).encode()
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url, data=body, headers=headers)
        try:
            with self._opener.open(request, timeout=seconds) as answer:
                said = json.loads(answer.read(_LONGEST_ANSWER))
            matrix = np.asarray(self._vectors(said), dtype=np.float32)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise EmbeddingFailed(f"{self.name}: {type(error).__name__}: {error}") from error
        if matrix.ndim != 2 or len(matrix) != len(texts) or not np.isfinite(matrix).all():
            raise EmbeddingFailed(f"{self.name}: not a vector for each text")
        return normalised(matrix)

    def _vectors(self, said: dict[str, Any]) -> list[Any]:
        if self._kind == "ollama":
            return list(said["embeddings"])
        return [one["embedding"] for one in sorted(said["data"], key=lambda one: one["index"])]
