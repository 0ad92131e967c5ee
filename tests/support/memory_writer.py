"""`python -m tests.support.memory_writer FILE`: retain without end, and say when each is acknowledged."""

from __future__ import annotations

import sys
from pathlib import Path

from singularity_memory.engine import Engine
from singularity_memory.model import Draft
from tests.support.memories import WordEmbedder


def main(file: str) -> None:
    """Print the number of each entry once its retain has returned."""
    with Engine.open(Path(file), embedder=WordEmbedder()) as engine:
        print("ready", flush=True)
        for number in range(1_000_000):
            engine.retain("bank", [Draft(f"lesson {number} is about topic{number}", tags=(f"n:{number}",))])
            print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
