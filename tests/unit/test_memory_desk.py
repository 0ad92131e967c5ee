"""The desk: every request within its grant, on a file and on PostgreSQL; and the threads that answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from singularity_memory import wire
from singularity_memory.desk import Desk, Forbidden
from singularity_memory.embedders import Vector
from singularity_memory.embedders.factory import Choice
from singularity_memory.engine import Engine
from singularity_memory.errors import Mistake, StoreFailed, UnknownEntry
from singularity_memory.grants import EVERYTHING, SCOPES, Grant
from singularity_memory.lines import Line
from singularity_memory.model import Answer, Draft
from singularity_memory.opening import open_desk
from singularity_memory.operations import BY_REQUEST, IMPORT, OPERATIONS
from singularity_memory.server.parsing import parsed
from singularity_memory.server.threads import Threads
from singularity_memory.store.sqlite import SqliteStore
from tests.support.memories import WordEmbedder, memory_url
from tests.support.stores import Server

MINE, OTHER = "project/mine", "project/other"
TESTS = "Run the test suite with two workers, or the database tests collide"


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    place = str(tmp_path / "memory.db")
    if request.param == "postgres":
        server: Server = request.getfixturevalue("server")
        place = memory_url(server)
    made = open_desk(place, Choice("none"))
    yield made
    made.close()


def retained(desk: Desk, bank: str, content: str = TESTS) -> str:
    reply = desk.answer(EVERYTHING, wire.RetainRequest(bank, [Draft(content)]))
    assert isinstance(reply, wire.RetainAnswer)
    return reply.entries[0].id


def test_there_is_one_operation_for_each_request() -> None:
    assert set(BY_REQUEST) == set(get_args(wire.Request))
    assert {operation.reply for operation in OPERATIONS} == set(get_args(wire.Reply))
    assert len({operation.path for operation in OPERATIONS}) == len(OPERATIONS)


def test_no_request_leaves_its_grant(desk: Desk) -> None:
    other = retained(desk, OTHER)
    retained(desk, MINE)
    requests: list[wire.Request] = [
        wire.RetainRequest(OTHER, [Draft(TESTS)]),
        wire.RecallRequest(OTHER, "tests"),
        wire.ForgetRequest(OTHER, ids=[other]),
        wire.ExportRequest(OTHER),
        wire.ImportRequest(OTHER, [Line(TESTS)]),
        wire.FeedbackRequest(other, -1, OTHER),
        wire.ValidateRequest(other, OTHER),
    ]
    elsewhere = Grant("n", (MINE,), SCOPES)
    for request in requests:
        with pytest.raises(Forbidden):
            desk.answer(elsewhere, request)
        with pytest.raises(Forbidden):
            desk.answer(None, request)
        needed = BY_REQUEST[type(request)].scope
        lacking = Grant("n", ("*",), tuple(scope for scope in SCOPES if scope != needed))
        with pytest.raises(Forbidden):
            desk.answer(lacking, request)
    for unnamed in (wire.FeedbackRequest(other, -1), wire.ValidateRequest(other)):
        with pytest.raises(UnknownEntry):
            desk.answer(elsewhere, unnamed)
    seen = desk.answer(elsewhere, wire.BanksRequest())
    assert isinstance(seen, wire.BanksAnswer) and [bank.bank for bank in seen.banks] == [MINE]
    left = desk.answer(EVERYTHING, wire.ExportRequest(OTHER))
    assert isinstance(left, wire.ExportAnswer)
    assert [(line.content, line.standing and line.standing.harmful) for line in left.lines] == [(TESTS, 0)]


def test_an_export_in_parts_is_whole_and_comes_back_with_its_history(desk: Desk) -> None:
    contents = [f"fact number_{number} about the scheduler" for number in range(25)]
    entry = [retained(desk, MINE, content) for content in contents][3]
    desk.answer(EVERYTHING, wire.FeedbackRequest(entry, 1))
    lines: list[Line] = []
    after: int | None = 0
    while after is not None:
        part = desk.answer(EVERYTHING, wire.ExportRequest(MINE, after, 10))
        assert isinstance(part, wire.ExportAnswer) and len(part.lines) <= 10
        lines, after = lines + part.lines, part.next
    assert [line.content for line in lines] == contents
    desk.answer(EVERYTHING, wire.ImportRequest(OTHER, lines))
    copied = desk.answer(EVERYTHING, wire.ExportRequest(OTHER))
    assert isinstance(copied, wire.ExportAnswer)
    assert {line.content: line.standing for line in copied.lines} == {
        line.content: line.standing for line in lines
    }


@pytest.mark.parametrize(
    "history", [{"helpful": -2}, {"observations": 10**30}, {"fresh_at": -1e300}, {"helpful_score": 1e308}]
)
def test_a_history_that_cannot_be_is_not_imported(history: dict[str, float]) -> None:
    line = {"content": TESTS, "standing": {"created_at": 0, "updated_at": 0, "fresh_at": 0, **history}}
    with pytest.raises(Mistake):
        parsed(msgspec.json.encode({"bank": MINE, "lines": [line]}), IMPORT)


def test_health_tells_strangers_nothing(tmp_path: Path) -> None:
    desk = open_desk(tmp_path / "memory.db", Choice("none"))
    assert desk.answer(None, wire.HealthRequest()) == wire.HealthAnswer(True)
    assert desk.answer(Grant("n", (MINE,), SCOPES), wire.HealthRequest()) == wire.HealthAnswer(True)
    desk.close()
    assert desk.answer(None, wire.HealthRequest()) == wire.HealthAnswer(False, "store_failed")
    told = desk.answer(EVERYTHING, wire.HealthRequest())
    assert isinstance(told, wire.HealthAnswer) and not told.ok and "memory.db" in told.reason


def test_a_store_that_cannot_be_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "memory.db").mkdir()
    with pytest.raises(StoreFailed):
        open_desk(tmp_path / "memory.db", Choice("none"))
    with pytest.raises(StoreFailed):
        open_desk("postgresql://127.0.0.1:9/nothing?connect_timeout=2", Choice("none"))


class Held(WordEmbedder):
    """An embedder whose queries wait to be let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.free = threading.Event(), threading.Event()

    def query(self, text: str, seconds: float | None = None) -> Vector:
        self.begun.set()
        self.free.wait(60)
        return super().query(text, seconds)


async def test_a_deadline_counts_while_a_request_waits_for_its_turn(tmp_path: Path) -> None:
    held = Held()
    store = SqliteStore(tmp_path / "memory.db")
    threads = Threads(Desk(Engine(store, held), store), reading=1, writing=1)
    try:
        await threads.answer(EVERYTHING, wire.RetainRequest(MINE, [Draft(TESTS)]))
        slow = asyncio.ensure_future(threads.answer(EVERYTHING, wire.RecallRequest(MINE, "slow tests")))
        await asyncio.to_thread(held.begun.wait, 60)
        late = asyncio.ensure_future(
            threads.answer(EVERYTHING, wire.RecallRequest(MINE, "late tests", deadline_ms=50))
        )
        await threads.answer(
            EVERYTHING, wire.RetainRequest(MINE, [Draft("Writers go on meanwhile, of course")])
        )
        await asyncio.sleep(0.1)
        held.free.set()
        first, second = await slow, await late
    finally:
        held.free.set()
        threads.close()
    assert isinstance(first, Answer) and not first.degraded
    assert isinstance(second, Answer) and second.degraded and second.entries[0].content == TESTS
