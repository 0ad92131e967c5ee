"""`python -m bench.memory_reading FILE`: open a memory, recall, and print what it took as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.memory_ground import Ground, WithQueries
from bench.timing import Stopwatch
from singularity_memory.embedders.sentence import SentenceEmbedder
from singularity_memory.engine import Engine
from singularity_memory.model import Query

_QUERIES = 200


def main(file: str) -> None:
    """The ground is small here: only its words and the vectors of queries are needed."""
    ground = Ground(1000)
    watch = Stopwatch()
    engine = Engine.open(Path(file), embedder=WithQueries(ground))
    opening = watch.seconds()
    engine.recall(Query("bench", ground.query(10_000)))
    first = watch.seconds()
    recalls = _timed(engine, ground, 0)
    engine.close()
    engine = Engine.open(Path(file), embedder=WithQueries(ground, SentenceEmbedder()))
    engine.recall(Query("bench", ground.query(10_001)))
    embedded = _timed(engine, ground, _QUERIES)
    engine.close()
    found: dict[str, object] = {"opening": opening, "first": first, "recalls": recalls, "embedded": embedded}
    found["megabytes"] = _megabytes()
    print(json.dumps(found))


def _megabytes() -> float:
    """The most that this process held. The kernel's ru_maxrss would have the parent's as well."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (most,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(most) / 1024


def _timed(engine: Engine, ground: Ground, start: int) -> list[float]:
    taken = []
    for number in range(start, start + _QUERIES):
        query = Query("bench", ground.query(number), top_k=10)
        watch = Stopwatch()
        engine.recall(query)
        taken.append(watch.seconds())
    return taken[_QUERIES // 10 :]


if __name__ == "__main__":
    main(sys.argv[1])
