"""A memory file that is damaged, and several processes on one that is whole."""

from __future__ import annotations

import asyncio
import random
import stat
import subprocess
import sys
from pathlib import Path

from sf.domain.knowledge import Lesson
from sf.errors import MemoryUnavailable
from sf.memory.embedded import EmbeddedMemory, Embedding

BANK = "project/embedded"
PAGE = 4096
WRITER = """
import asyncio, sys
from pathlib import Path
from sf.domain.knowledge import Lesson
from sf.memory.embedded import EmbeddedMemory, Embedding

async def main(place, name):
    memory = EmbeddedMemory(Path(place), Embedding("none"))
    for number in range(20):
        (kept,) = await memory.retain(name, [Lesson(f"fact {number} of the project {name} about parsers")])
        assert kept.id, kept
    await memory.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_whatever_ails_the_file_is_a_memory_that_is_away(tmp_path: Path) -> None:
    whole, chance, away = tmp_path / "whole.db", random.Random(4), 0
    memory = EmbeddedMemory(whole, Embedding("none"))
    facts = [
        " ".join(chance.choices(["parser", "config", "date", "queue", "lease"], k=60)) for _ in range(200)
    ]
    await memory.retain(BANK, [Lesson(f"fact{number} {text}") for number, text in enumerate(facts)])
    await memory.aclose()
    content = whole.read_bytes()
    for trial in range(20):
        broken = bytearray(content)
        place = chance.randrange(1, len(content) // PAGE) * PAGE
        broken[place : place + PAGE] = chance.randbytes(PAGE)
        file = tmp_path / f"broken{trial}.db"
        file.write_bytes(broken)
        memory = EmbeddedMemory(file, Embedding("none"))
        try:
            await memory.recall(BANK, "parser config", top_k=5, deadline=10)
        except MemoryUnavailable:
            away += 1
        finally:
            await memory.aclose()
    assert away > 0


async def test_the_file_is_for_its_owner_only_in_any_folder(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    memory = EmbeddedMemory(folder / "memory.db", Embedding("none"))
    await memory.retain(BANK, [Lesson("a fact about the parser")])
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    await memory.aclose()


def test_projects_that_begin_at_once_share_one_file(tmp_path: Path) -> None:
    place, names = tmp_path / "memory" / "memory.db", [f"project/{number}" for number in range(3)]
    command = [sys.executable, "-c", WRITER, str(place)]
    running = [subprocess.Popen([*command, name], stderr=subprocess.PIPE) for name in names]
    ended = [process.communicate(timeout=120)[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * len(names), ended

    async def sizes() -> dict[str, int]:
        memory = EmbeddedMemory(place, Embedding("none"))
        found = {size.bank: size.entries for size in await memory.banks()}
        await memory.aclose()
        return found

    assert asyncio.run(sizes()) == dict.fromkeys(names, 20)
