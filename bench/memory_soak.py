"""`python -m bench.memory_soak`: many clients retain and recall at once; no error, no lost write.

Every client writes facts that have a word of their own, and asks for them by it: what was acknowledged must
be found at once, and must be in the bank at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from singularity_memory.client import Client
from singularity_memory.client.models import (
    Draft,
    ExportRequest,
    FeedbackRequest,
    RecallRequest,
    RetainRequest,
)
from singularity_memory.errors import MemoryFault

T = TypeVar("T")
BANKS = ("project/soak", "global/soak")
_SUBJECTS = ("the parser", "the scheduler", "the migration", "a test", "the cache", "the token check", "git")
_VERBS = ("fails on", "must run before", "is slower than", "was replaced by", "depends on", "hides", "needs")
_SECONDS_FOR_ONE = 120.0


@dataclass
class Tally:
    """What happened so far, of all clients together."""

    acknowledged: dict[str, set[str]] = field(default_factory=lambda: {bank: set() for bank in BANKS})
    retains: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    lost: int = 0

    @property
    def written(self) -> int:
        """How many documents the server said it has."""
        return sum(map(len, self.acknowledged.values()))

    @property
    def sound(self) -> bool:
        """Whether nothing went wrong and nothing is missing."""
        return not self.errors and not self.lost

    def report(self, seconds: float) -> str:
        """The figures, a line each."""
        lines = [f"{self.written} entries acknowledged, {self.lost} lost, {len(self.errors)} errors"]
        for name, times in (("retain", self.retains), ("recall", self.recalls)):
            lines.append(f"{name}: {len(times)} requests, {len(times) / seconds:.1f}/s, {_spread(times)}")
        return "\n".join([*lines, *self.errors[:10]])


async def soak(url: str, token: str, seconds: float, clients: int) -> Tally:
    """Let clients write and ask for so long, then count what is there."""
    tally, end = Tally(), time.monotonic() + seconds
    await asyncio.gather(*(_work(number, url, token, end, tally) for number in range(clients)))
    async with Client(url, token, seconds=_SECONDS_FOR_ONE) as client:
        for bank, documents in tally.acknowledged.items():
            tally.lost += len(documents - {one async for one in documents_of(client, bank)})
    return tally


async def documents_of(client: Client, bank: str) -> AsyncIterator[str]:
    """The id of every document of a bank."""
    after: int | None = 0
    while after is not None:
        part = await client.export_entries(ExportRequest(bank, after=after))
        for line in part.lines:
            assert isinstance(line.document_id, str)
            yield line.document_id
        after = part.next


async def _work(number: int, url: str, token: str, end: float, tally: Tally) -> None:
    chance, turn = random.Random(number), 0
    mine: list[tuple[str, str, str]] = []
    async with Client(url, token, seconds=_SECONDS_FOR_ONE) as client:
        while time.monotonic() < end:
            turn += 1
            try:
                if not mine or chance.random() < 0.5:
                    mine.append(await _write(client, f"marker{number}x{turn}", chance, tally))
                else:
                    await _ask(client, chance.choice(mine), chance, tally)
            except MemoryFault as fault:
                tally.errors.append(f"client {number}: {fault.code}: {fault.message}")


async def _write(client: Client, marker: str, chance: random.Random, tally: Tally) -> tuple[str, str, str]:
    bank = chance.choice(BANKS)
    said = f"{chance.choice(_SUBJECTS)} {chance.choice(_VERBS)} {chance.choice(_SUBJECTS)}"
    request = RetainRequest(bank, [Draft(f"In {marker}: {said}.", tags=["soak"])])
    answer = await _timed(client.retain(request), tally.retains)
    (kept,) = answer.entries
    if kept.status == "refused":
        tally.errors.append(f"refused: {kept.reason}")
    tally.acknowledged[bank].add(kept.document_id)
    return bank, marker, kept.id


async def _ask(client: Client, written: tuple[str, str, str], chance: random.Random, tally: Tally) -> None:
    bank, marker, entry = written
    answer = await _timed(client.recall(RecallRequest(bank, f"what about {marker}?")), tally.recalls)
    if answer.degraded or entry not in {hit.id for hit in answer.entries}:
        tally.errors.append(f"{marker} of {bank} was not found: {answer.reason}")
    elif chance.random() < 0.1:
        await client.feedback(FeedbackRequest(entry, 1))


async def _timed(work: Awaitable[T], times: list[float]) -> T:
    begun = time.monotonic()
    done = await work
    times.append(time.monotonic() - begun)
    return done


def _spread(times: Sequence[float]) -> str:
    if not times:
        return "none"
    ordered = sorted(times)
    return ", ".join(f"p{part} {1000 * ordered[len(ordered) * part // 100]:.0f} ms" for part in (50, 95, 99))


@contextlib.contextmanager
def _served(data: Path, embedder: str) -> Iterator[str]:
    command = [sys.executable, "-m", "singularity_memory", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--data", str(data), "--embedder", embedder], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def main() -> int:
    """0 when nothing went wrong and nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--embedder", default="sentence")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        data = Path(folder) / "data"
        with _served(data, chosen.embedder) as url:
            token = (data / "token").read_text(encoding="ascii").strip()
            tally = asyncio.run(soak(url, token, chosen.seconds, chosen.clients))
    print(tally.report(chosen.seconds))
    return 0 if tally.sound else 1


if __name__ == "__main__":
    sys.exit(main())
