"""A null unit through the real loop, against a one-step DBOS workflow and a Huey task, all on SQLite."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import peers
from bench.ground import Ground, done_at_once, opened
from bench.table import Row
from bench.timing import Stopwatch, medians
from sf.domain import events

_UNITS = 20
_ONE_AT_A_TIME = "[harness.concurrency]\nmax_agents = 1\n"


class _Ours:
    """Rounds of null units, timed with and without the transaction that states them."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._rounds = 0
        self._dispatched: Stopwatch | None = None
        ground.desk.bus.subscribe(self._on_event)

    def _on_event(self, event: events.Event) -> None:
        if event.name == events.PRE_DISPATCH and self._dispatched is None:
            self._dispatched = Stopwatch()

    async def dispatched(self) -> float:
        """Units that are all there before the clock starts at the first dispatch."""
        self._rounds += 1
        await self._ground.plant(_UNITS, f"d{self._rounds}x")
        return await self._run()

    async def stated(self) -> float:
        """The same, and the time in which each unit is inserted in a transaction of its own."""
        self._rounds += 1
        watch = Stopwatch()
        for index in range(_UNITS):
            await self._ground.plant(1, f"s{self._rounds}y{index}z")
        stating = watch.seconds() / _UNITS
        return stating + await self._run()

    async def _run(self) -> float:
        self._dispatched = None
        result = await self._ground.loop(done_at_once).run()
        watch: Stopwatch | None = self._dispatched
        assert watch is not None and result.ending == "done", result
        return watch.seconds() / _UNITS


def _write_ahead(path: Path) -> None:
    """The journal mode is a property of the file: whoever opens it later uses it."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


@contextmanager
def _dbos(path: Path) -> Iterator[Callable[[], float]]:
    """A launched DBOS; yields what times one call of a workflow with one step."""
    module = peers.load("dbos")
    logging.getLogger("dbos").setLevel(logging.ERROR)
    config = {
        "name": "bench",
        "system_database_url": f"sqlite:///{path}",
        "run_admin_server": False,
        "log_level": "ERROR",
    }
    module.DBOS(config=config)
    step = module.DBOS.step(name="step")(_nothing)

    def body() -> int:
        return int(step())

    workflow = module.DBOS.workflow(name="workflow")(body)
    module.DBOS.launch()

    def timed() -> float:
        watch = Stopwatch()
        for _ in range(_UNITS):
            workflow()
        return watch.seconds() / _UNITS

    try:
        yield timed
    finally:
        module.DBOS.destroy(destroy_registry=True)


def _nothing() -> int:
    return 1


class _Huey:
    """A task that is queued, taken and executed in this thread: no polling, and its result is stored."""

    def __init__(self, path: Path) -> None:
        self._huey: Any = peers.load("huey").SqliteHuey(filename=str(path), fsync=True)
        self._task = self._huey.task()(_nothing)

    def dispatched(self) -> float:
        """From taking a task to its stored result."""
        for _ in range(_UNITS):
            self._task()
        return self._execute()

    def stated(self) -> float:
        """From queueing a task to its stored result."""
        watch = Stopwatch()
        for _ in range(_UNITS):
            self._task()
        return watch.seconds() / _UNITS + self._execute()

    def _execute(self) -> float:
        watch = Stopwatch()
        for _ in range(_UNITS):
            self._huey.execute(self._huey.dequeue())
        return watch.seconds() / _UNITS


def _threaded(work: Callable[[], float]) -> Callable[[], Any]:
    return lambda: asyncio.to_thread(work)


async def measure(scratch: Path) -> list[Row]:
    """The null unit's rows."""
    shipped, write_ahead = scratch / "dbos.db", scratch / "dbos-wal.db"
    _write_ahead(write_ahead)
    found: dict[str, float] = {}
    for name, path in (("shipped", shipped), ("write-ahead", write_ahead)):
        async with opened(scratch / f"project-{name}", _ONE_AT_A_TIME) as ground:
            with ExitStack() as stack:
                ours, huey = _Ours(ground), _Huey(scratch / f"huey-{name}.db")
                contenders = {
                    f"{name} dispatched": ours.dispatched,
                    f"{name} stated": ours.stated,
                    f"{name} dbos": _threaded(stack.enter_context(_dbos(path))),
                    f"{name} huey dispatched": _threaded(huey.dispatched),
                    f"{name} huey stated": _threaded(huey.stated),
                }
                found |= await medians(contenders)
    return [*_against_dbos(found), *_against_huey(found)]


def _against_dbos(found: dict[str, float]) -> list[Row]:
    rows = []
    for what, ours in (
        ("null unit, dispatch to done", "dispatched"),
        ("null unit, stated to done", "stated"),
    ):
        for peer, name in (("DBOS workflow, as shipped", "shipped"), ("DBOS workflow, WAL", "write-ahead")):
            rows.append(Row(what, found[f"{name} {ours}"], "s", peer, found[f"{name} dbos"], most_ratio=0.25))
    return rows


def _against_huey(found: dict[str, float]) -> list[Row]:
    pairs = (("null unit, dispatch to done", "dispatched"), ("null unit, stated to done", "stated"))
    return [
        Row(what, found[f"shipped {ours}"], "s", "Huey task, fsync on", found[f"shipped huey {ours}"])
        for what, ours in pairs
    ]
