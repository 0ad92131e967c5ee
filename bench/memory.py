"""Memory: how fast and how large at 100,000 entries, against two vector stores with the same vectors.

Quality needs a folder with `corpus.jsonl` and `queries.jsonl` in the form of CoSQA: MEMORY_DATA names it.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench import peers
from bench.memory_ground import Ground, WithQueries
from bench.process import run_json
from bench.table import Row
from bench.timing import Stopwatch
from singularity_memory.effort import EFFORTS
from singularity_memory.embedders.sentence import SentenceEmbedder
from singularity_memory.embedders.static import StaticEmbedder
from singularity_memory.engine import Engine
from singularity_memory.model import Draft, Quality, Query

ENTRIES = int(os.environ.get("MEMORY_ENTRIES", "100000"))
_QUERIES = 200
_PORTION = 500
_MEGABYTE = 1 << 20
_BANK = "bench"


class Reading(msgspec.Struct, frozen=True):
    """What a process of its own found about a memory that is already there."""

    opening: float
    first: float
    recalls: list[float]
    embedded: list[float]
    megabytes: float


async def measure(scratch: Path) -> list[Row]:
    """All rows of the memory."""
    ground = Ground(ENTRIES)
    rows = _retaining(scratch, ground)
    ours = _ours(scratch / "memory.db", ground)
    chroma = _chroma(scratch / "chroma", ground)
    lance = _lance(scratch / "lance", ground)
    reading = msgspec.convert(run_json("bench.memory_reading", str(scratch / "memory.db")), Reading)
    what = f"recall of 10 from {ENTRIES:,}, p95"
    near = _p95(reading.recalls)
    rows += [
        Row(f"{what}, both arms", near, "s", "chroma, vectors only", _p95(chroma.recalls), most=0.040),
        Row(f"{what}, both arms", near, "s", "lancedb, vectors only", _p95(lance.recalls), most=0.040),
        Row(f"{what}, with query embedding", _p95(reading.embedded), "s", most=0.060),
        Row("writing an entry, vector given", ours, "s", "chroma", chroma.write),
        Row("writing an entry, vector given", ours, "s", "lancedb", lance.write),
        Row("opening", reading.opening, "s", most=1.0),
        Row("opening and the first recall", reading.first, "s"),
        Row("memory of the process", reading.megabytes, "MB", most=700),
    ]
    return [*rows, *_quality(scratch)]


class Peer(msgspec.Struct, frozen=True):
    """Another store: seconds to write an entry, and seconds of each query."""

    write: float
    recalls: list[float]


def _retaining(scratch: Path, ground: Ground) -> list[Row]:
    rows = []
    for name, embedder, count, most in (
        ("the sentence model", SentenceEmbedder(), 120, 1 / 30),
        ("the static model", StaticEmbedder(), 4000, 1 / 1000),
    ):
        drafts = [Draft(text) for text in ground.texts(0, count + 20)]
        with Engine.open(scratch / f"{embedder.name}.db", embedder=embedder) as engine:
            engine.retain(_BANK, drafts[count:])
            watch = Stopwatch()
            for start in range(0, count, 200):
                engine.retain(_BANK, drafts[start : min(count, start + 200)])
            rows.append(Row(f"retain of 60 words, {name}", watch.seconds() / count, "s", most=most))
    return rows


def _ours(file: Path, ground: Ground) -> float:
    with Engine.open(file, embedder=WithQueries(ground)) as engine:
        return _filled(ground, lambda start, texts: engine.retain(_BANK, _drafts(start, texts)))


def _drafts(start: int, texts: Sequence[str]) -> list[Draft]:
    return [Draft(text, document_id=str(start + index)) for index, text in enumerate(texts)]


def _filled(ground: Ground, write: Callable[[int, list[str]], object]) -> float:
    watch = Stopwatch()
    for start in range(0, ENTRIES, _PORTION):
        write(start, ground.texts(start, min(ENTRIES, start + _PORTION)))
    return watch.seconds() / ENTRIES


def _timed(queries: Sequence[Any], ask: Callable[[Any], object]) -> list[float]:
    taken = []
    for query in queries:
        watch = Stopwatch()
        ask(query)
        taken.append(watch.seconds())
    return taken[len(taken) // 10 :]


def _chroma(folder: Path, ground: Ground) -> Peer:
    chromadb, config = peers.load("chromadb"), peers.load("chromadb.config")
    client = chromadb.PersistentClient(str(folder), settings=config.Settings(anonymized_telemetry=False))
    kept = client.create_collection(_BANK, metadata={"hnsw:space": "cosine"}, embedding_function=None)

    def write(start: int, texts: list[str]) -> None:
        ids = [str(start + index) for index in range(len(texts))]
        kept.add(ids=ids, documents=texts, embeddings=ground.vectors(start, start + len(texts)))

    taken = _filled(ground, write)
    asked = [ground.query_vector(number) for number in range(_QUERIES)]
    return Peer(taken, _timed(asked, lambda vector: kept.query(query_embeddings=[vector], n_results=10)))


def _lance(folder: Path, ground: Ground) -> Peer:
    lancedb, pyarrow = peers.load("lancedb"), peers.load("pyarrow")
    rows = pyarrow.schema(
        [
            ("id", pyarrow.string()),
            ("text", pyarrow.string()),
            ("vector", pyarrow.list_(pyarrow.float32(), 384)),
        ]
    )
    table = lancedb.connect(str(folder)).create_table(_BANK, schema=rows)

    def write(start: int, texts: list[str]) -> None:
        vectors = ground.vectors(start, start + len(texts)).tolist()
        table.add(
            [
                {"id": str(start + index), "text": text, "vector": vector}
                for index, (text, vector) in enumerate(zip(texts, vectors, strict=True))
            ]
        )

    taken = _filled(ground, write)
    asked = [ground.query_vector(number) for number in range(_QUERIES)]
    return Peer(taken, _timed(asked, lambda vector: table.search(vector).limit(10).to_list()))


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


# --- quality -----------------------------------------------------------------------------------------


def _quality(scratch: Path) -> list[Row]:
    folder = os.environ.get("MEMORY_DATA", "")
    if not folder:
        print("no MEMORY_DATA: quality is not measured", file=sys.stderr)
        return []
    corpus = [json.loads(line) for line in (Path(folder) / "corpus.jsonl").read_text().splitlines()]
    queries = [json.loads(line) for line in (Path(folder) / "queries.jsonl").read_text().splitlines()]
    rows = []
    with Engine.open(scratch / "quality.db", embedder="sentence") as engine:
        for start in range(0, len(corpus), _PORTION):
            some = corpus[start : start + _PORTION]
            engine.retain(_BANK, [Draft(one["code"], document_id=str(one["id"])) for one in some])
        for quality in EFFORTS:
            recall, rank = _judged(engine, queries, quality)
            name = Path(folder).name
            rows += [
                Row(f"{name}, {quality}: recall@10", recall, "", least=0.82),
                Row(f"{name}, {quality}: MRR@10", rank, "", least=0.54),
            ]
    return rows


def _judged(engine: Engine, queries: Sequence[dict[str, Any]], quality: Quality) -> tuple[float, float]:
    found, ranks = 0.0, 0.0
    for query in queries:
        relevant = {str(one) for one in query["relevant"]}
        answer = engine.recall(Query(_BANK, query["query"], top_k=10, rerank_quality=quality))
        places = [place for place, hit in enumerate(answer.entries, start=1) if hit.document_id in relevant]
        found += len(places) / len(relevant)
        ranks += 1 / places[0] if places else 0.0
    return found / len(queries), ranks / len(queries)
