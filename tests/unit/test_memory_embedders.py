"""Embedders: models from packages that are checked, and servers that are real sockets here."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from singularity_memory.embedders import Embedder, factory, files
from singularity_memory.embedders.factory import Choice
from singularity_memory.errors import (
    BadRequest,
    EmbeddingFailed,
    ModelMissing,
    ModelTampered,
    UnknownEmbedder,
)


@pytest.fixture(scope="module", params=["sentence", "static"])
def model(request: pytest.FixtureRequest) -> Embedder:
    made = factory.embedder(Choice(request.param))
    assert made is not None
    return made


def test_vectors_have_unit_length_and_the_stated_dimension(model: Embedder) -> None:
    made = model.documents(["one text", "", "another, much longer text " * 200])
    assert made.shape == (3, model.dimension)
    assert made.dtype == np.float32
    assert np.linalg.norm(made[[0, 2]], axis=1) == pytest.approx([1, 1], abs=1e-3)


def test_a_paraphrase_is_nearer_than_another_subject(model: Embedder) -> None:
    query = model.query("how do I remove a file from disk?")
    near, far = model.documents(
        ["deleting files from the hard drive", "the recipe needs two eggs and some milk"]
    )
    assert query @ near > query @ far + 0.2


def test_a_text_has_the_same_vector_in_any_company(model: Embedder) -> None:
    alone = model.documents(["retry the request"])[0]
    among = model.documents(["retry the request", "a text of another length, which shares a batch with it"])[
        0
    ]
    assert alone @ among == pytest.approx(1.0, abs=0.02)


def test_a_model_file_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_model_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('a model package is never imported')\n")
    (package / "model.bin").write_bytes(b"weights")
    monkeypatch.syspath_prepend(str(tmp_path))
    good = hashlib.sha256(b"weights").hexdigest()
    assert files.locate("some_model_package", "model.bin", good) == package / "model.bin"
    (package / "model.bin").write_bytes(b"other weights")
    with pytest.raises(ModelTampered):
        files.locate("some_model_package", "model.bin", good)
    with pytest.raises(ModelMissing):
        files.locate("some_model_package", "nothing.bin", good)
    with pytest.raises(ModelMissing):
        files.locate("no_such_package_at_all", "model.bin", good)


def test_names_that_nobody_knows() -> None:
    with pytest.raises(UnknownEmbedder):
        factory.embedder(Choice("word2vec"))
    assert factory.embedder(Choice("none")) is None
    with pytest.raises(BadRequest):
        factory.embedder(Choice("openai", url="file:///etc", model="m"))
    with pytest.raises(BadRequest):
        factory.embedder(Choice("ollama"))


class Endpoint:
    """An embedding server: three numbers a text, out of order, as the real ones may."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None, dict[str, Any]]] = []
        self.delay = 0.0
        self.status = 200
        self.answer: Any = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append((self.path, self.headers["Authorization"], body))
                time.sleep(outer.delay)
                said = json.dumps(outer.answer or outer.vectors(self.path, body["input"])).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(said)))
                if outer.status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                with contextlib.suppress(BrokenPipeError):
                    self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self._thread.start()

    def vectors(self, path: str, texts: list[str]) -> Any:
        made = [[float(len(text)), 1.0, 2.0] for text in texts]
        if path.endswith("/api/embed"):
            return {"embeddings": made}
        return {"data": [{"index": index, "embedding": one} for index, one in enumerate(made)][::-1]}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


@pytest.mark.parametrize(("kind", "path"), [("openai", "/embeddings"), ("ollama", "/api/embed")])
def test_servers_are_asked_in_their_own_form(endpoint: Endpoint, kind: str, path: str) -> None:
    made = factory.embedder(
        Choice(kind, model="small", url=endpoint.url, key="k" if kind == "openai" else "")
    )
    assert made is not None
    assert (made.name, made.dimension) == (f"{kind}:small", 3)
    texts = ["x" * (1 + index) for index in range(70)]
    found = made.documents(texts)
    assert found.shape == (70, 3)
    assert np.argmax(found[:, 0]) == 69, "in the order of the texts"
    assert endpoint.seen[-1][0] == path
    assert endpoint.seen[-1][1] == ("Bearer k" if kind == "openai" else None)
    assert [len(body["input"]) for _, _, body in endpoint.seen] == [1, 64, 6]


def test_a_server_that_is_slow_or_talks_nonsense_fails_in_time(endpoint: Endpoint) -> None:
    made = factory.embedder(Choice("openai", model="small", url=endpoint.url, dimension=3))
    assert made is not None
    endpoint.delay = 1.0
    begun = time.monotonic()
    with pytest.raises(EmbeddingFailed):
        made.query("anything", 0.05)
    assert time.monotonic() - begun < 0.8
    endpoint.delay = 0.0
    for status, answer in ((500, None), (302, None), (200, {"data": []}), (200, [1]), (200, {"data": [{}]})):
        endpoint.status, endpoint.answer = status, answer
        with pytest.raises(EmbeddingFailed):
            made.query("anything")
    assert {path for path, _, _ in endpoint.seen} == {"/embeddings"}, "a redirect is not followed"
    endpoint.status, endpoint.answer = 200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}
    with pytest.raises(EmbeddingFailed):
        made.query("another dimension")
