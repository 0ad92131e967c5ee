"""`python -m bench.memory_rule [SET …]`: both arms of the memory alone and together, on every set of ours.

No arm may be made worse than it is alone by more than 0.02. Embedding the sets takes some minutes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import memory_sets
from bench.memory_sets import Judged
from singularity_memory.effort import EFFORTS
from singularity_memory.engine import MOST_RESULTS, Engine
from singularity_memory.model import Draft, Hit, Query

_BANK = "bench"
_PORTION = 200
_TOP = 10
_LOSS = 0.02


class Quality(NamedTuple):
    """The means over a set's questions."""

    recall: float
    rank: float

    def __str__(self) -> str:
        return f"{self.recall:.3f}/{self.rank:.3f}"


def main(names: Sequence[str]) -> int:
    """Print a line for each set; 1 when an arm is made worse."""
    worse = 0
    for judged in memory_sets.every():
        if names and judged.name not in names:
            continue
        found = _measured(judged)
        together = min(found["fast"], found["accurate"])
        loss = max(
            max(found[arm].recall - together.recall, found[arm].rank - together.rank)
            for arm in ("words", "meaning")
        )
        worse += loss > _LOSS
        print(f"{judged.name:26}", *(f"{arm} {each}" for arm, each in found.items()), f"loss {loss:+.3f}")
    return int(worse > 0)


def _measured(judged: Judged) -> dict[str, Quality]:
    with tempfile.TemporaryDirectory() as folder, Engine.open(Path(folder) / "rule.db") as engine:
        for start in range(0, len(judged.texts), _PORTION):
            some = enumerate(judged.texts[start : start + _PORTION], start)
            engine.retain(_BANK, [Draft(text, document_id=str(number)) for number, text in some])
        orders: dict[str, list[list[str]]] = {"words": [], "meaning": [], **{name: [] for name in EFFORTS}}
        for asked in judged.asked:
            every = engine.recall(Query(_BANK, asked.text, top_k=MOST_RESULTS)).entries
            orders["words"].append(_by((hit.explanation.lexical_rank, hit) for hit in every))
            orders["meaning"].append(_by((hit.explanation.semantic_rank, hit) for hit in every))
            for quality in EFFORTS:
                best = engine.recall(Query(_BANK, asked.text, top_k=_TOP, rerank_quality=quality)).entries
                orders[quality].append([hit.document_id for hit in best])
    return {name: _quality(judged, order) for name, order in orders.items()}


def _by(ranked: Iterable[tuple[int | None, Hit]]) -> list[str]:
    """What one arm alone would answer."""
    known = sorted((rank, hit.document_id) for rank, hit in ranked if rank is not None)
    return [document for _, document in known[:_TOP]]


def _quality(judged: Judged, orders: Sequence[Sequence[str]]) -> Quality:
    recall = rank = 0.0
    for asked, order in zip(judged.asked, orders, strict=True):
        places = [place for place, found in enumerate(order, start=1) if int(found) in asked.relevant]
        recall += len(places) / len(asked.relevant)
        rank += 1 / places[0] if places else 0.0
    return Quality(recall / len(orders), rank / len(orders))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
