"""What the memory server has acknowledged is there, whatever happens to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.memory_soak import documents_of, soak
from singularity_memory.client import Client, Unreachable
from singularity_memory.client.models import Draft, RecallRequest, RetainRequest
from tests.support.memory_server import PATIENCE, MemoryServer

BANK = "project/durable"
CLIENTS = 12
ENOUGH = 60


class Acknowledged:
    """What the server said it has, by document."""

    def __init__(self) -> None:
        self.contents: dict[str, str] = {}
        self.enough = asyncio.Event()
        self.wanted = ENOUGH

    def add(self, document: str, content: str) -> None:
        self.contents[document] = content
        if len(self.contents) >= self.wanted:
            self.enough.set()

    async def more(self) -> None:
        """Wait for some more."""
        await self.enough.wait()
        self.wanted = len(self.contents) + ENOUGH
        self.enough.clear()


async def _retain_until_it_dies(url: str, token: str, name: str, acknowledged: Acknowledged) -> None:
    async with Client(url, token) as client:
        number = 0
        while True:
            number += 1
            content = f"The fact {name}n{number} was acknowledged before the server died"
            try:
                (kept,) = (await client.retain(RetainRequest(BANK, [Draft(content)]))).entries
            except Unreachable:
                return
            acknowledged.add(kept.document_id, content)


@pytest.mark.conforms("C-94")
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    for life in range(3):
        with MemoryServer(tmp_path / "data") as server:
            names = [f"life{life}c{number}" for number in range(CLIENTS)]
            writing = asyncio.gather(
                *(_retain_until_it_dies(server.url, server.token, name, acknowledged) for name in names)
            )
            await asyncio.wait_for(acknowledged.more(), PATIENCE)
            server.kill()
            await writing
    with MemoryServer(tmp_path / "data") as server:
        async with Client(server.url, server.token) as client:
            found = {document async for document in documents_of(client, BANK)}
            assert set(acknowledged.contents) - found == set()
            last = next(reversed(acknowledged.contents.values()))
            answer = await client.recall(RecallRequest(BANK, last.split()[2]))
            assert answer.entries[0].content == last
    assert len(acknowledged.contents) >= 3 * ENOUGH


async def test_sixteen_clients_mix_recall_and_retain_without_an_error_or_a_loss(tmp_path: Path) -> None:
    with MemoryServer(tmp_path / "data") as server:
        tally = await soak(server.url, server.token, seconds=5, clients=16)
    assert tally.sound, tally.report(5)
    assert len(tally.retains) >= 16 and len(tally.recalls) >= 16
