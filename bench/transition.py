"""A change of phase, settled in one transaction with its record, against a LangGraph step on SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypedDict

from bench import peers
from bench.ground import HOLDER, LONG, Ground, opened
from bench.table import Row
from bench.timing import Stopwatch, medians
from sf.domain import outcomes as o
from sf.domain.phases import Phase
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.harness import settle
from sf.harness.rules import Rules
from sf.harness.settle import Ending
from sf.scheduler import claims
from sf.store import units
from sf.store.tx import Tx

_STEPS = 50
Durability = Literal["sync", "async"]


class _Ours:
    """Settles runs that were claimed before the clock starts; each goes from execute to tdd."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._rounds = 0

    async def __call__(self) -> float:
        desk = self._ground.desk
        leases = await self._claimed()
        watch = Stopwatch()
        for lease in leases:
            await desk.database.write(partial(self._settle, lease))
        taken = watch.seconds() / _STEPS
        assert units.get(desk.database.read, leases[-1].unit_id).phase is Phase.TDD
        return taken

    def _settle(self, lease: Lease, tx: Tx) -> None:
        desk = self._ground.desk
        settle.settle(tx, lease, o.Done(), Ending(), desk.rules, desk.clock.now())

    async def _claimed(self) -> list[Lease]:
        self._rounds += 1
        prefix = f"r{self._rounds}x"
        await self._ground.plant(_STEPS, prefix, content=LONG)
        now = self._ground.desk.clock.now()

        def write(tx: Tx) -> list[tuple[Unit, Lease] | None]:
            planted = [units.get(tx, f"task/{prefix}{index}") for index in range(1, _STEPS + 1)]
            return [
                claims.take(tx, unit, holder=HOLDER, host="bench", rules=Rules(), now=now) for unit in planted
            ]

        return [claimed[1] for claimed in await self._ground.desk.database.write(write) if claimed]


class _State(TypedDict):
    number: int


def _step(state: _State) -> _State:
    return {"number": state["number"] + 1}


def _next(state: _State) -> str:
    return "step" if state["number"] < _STEPS else "__end__"


class _LangGraph:
    """A graph of one node that follows itself, so that a round is many steps and one start."""

    def __init__(self, connection: sqlite3.Connection, durability: Durability) -> None:
        saver = peers.load("langgraph.checkpoint.sqlite").SqliteSaver(connection)
        graph = peers.load("langgraph.graph").StateGraph(_State)
        graph.add_node("step", _step)
        graph.set_entry_point("step")
        graph.add_conditional_edges("step", _next, ["step", "__end__"])
        self._graph: Any = graph.compile(checkpointer=saver)
        self._durability = durability
        self._threads = count()

    async def __call__(self) -> float:
        return await asyncio.to_thread(self._round)

    def _round(self) -> float:
        config = {"configurable": {"thread_id": str(next(self._threads))}, "recursion_limit": _STEPS + 5}
        watch = Stopwatch()
        state = self._graph.invoke({"number": 0}, config, durability=self._durability)
        taken = watch.seconds() / _STEPS
        assert state["number"] == _STEPS
        return taken


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    try:
        yield connection
    finally:
        connection.close()


async def measure(scratch: Path) -> list[Row]:
    """The transition's rows."""
    async with opened(scratch / "project") as ground:
        with _database(scratch / "sync.db") as first, _database(scratch / "async.db") as second:
            found = await medians(
                {
                    "ours": _Ours(ground),
                    "sync": _LangGraph(first, "sync"),
                    "async": _LangGraph(second, "async"),
                }
            )
    what = "phase transition with its record"
    return [
        Row(what, found["ours"], "s", "LangGraph step, durability sync", found["sync"], most_ratio=0.5),
        Row(what, found["ours"], "s", "LangGraph step, durability async", found["async"], most_ratio=0.5),
    ]
