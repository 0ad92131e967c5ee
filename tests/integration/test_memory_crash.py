"""An acknowledged retain survives kill -9, and what is half done is not there."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from singularity_memory.engine import Engine
from singularity_memory.model import Query
from tests.support.memories import WordEmbedder

ROOT = Path(__file__).parent.parent.parent


def killed_after(file: Path, acknowledged: int) -> int:
    """Kill a process that retains, with a retain under way; the number of the last acknowledged entry."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.support.memory_writer", str(file)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    last = -1
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        while last < acknowledged:
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        for line in writer.stdout:
            if line.endswith("\n"):
                last = int(line)
    finally:
        writer.kill()
        writer.wait(timeout=30)
        if writer.stdout:
            writer.stdout.close()
    return last


@pytest.mark.parametrize("acknowledged", [0, 7, 40])
def test_what_was_acknowledged_is_there_and_whole(tmp_path: Path, acknowledged: int) -> None:
    file = tmp_path / "memory.db"
    last = killed_after(file, acknowledged)
    with Engine.open(file, embedder=WordEmbedder()) as engine:
        entries = engine.health().entries
        assert last + 1 <= entries <= last + 2, "all that was acknowledged, and at most the one under way"
        for number in range(entries):
            (hit,) = engine.recall(Query("bank", f"topic{number}", top_k=1)).entries
            assert hit.content == f"lesson {number} is about topic{number}"
            assert hit.explanation.lexical_rank == 1
            assert hit.explanation.similarity is not None
        assert engine.recall(Query("bank", "anything", filter={"n": last})).entries[0].tags == (f"n:{last}",)
    raw = sqlite3.connect(file)
    assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert raw.execute("INSERT INTO words_1 (words_1) VALUES ('integrity-check')").fetchall() == []
    raw.close()


def test_a_retain_is_synced_before_it_is_acknowledged(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "memory.db", embedder=None):
        raw = sqlite3.connect(tmp_path / "memory.db")
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        raw.close()
    from singularity_memory.store.file import File

    file = File(tmp_path / "memory.db")
    with file.transaction() as writer:
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
    file.close()


def test_who_makes_the_file_at_the_same_moment_is_waited_for(tmp_path: Path) -> None:
    """SQLite gives up at once where one file is put into WAL mode while another connection writes it."""
    path = tmp_path / "memory.db"
    Engine.open(path, embedder=None).close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    other.execute("BEGIN IMMEDIATE")
    ending = threading.Timer(0.2, other.close)
    ending.start()
    Engine.open(path, embedder=None).close()
    ending.join()
