"""Ten thousand null units drained two and ten at a time, against Huey's tasks and as many worker threads."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench import peers
from bench.ground import HOLDER, Ground, done_at_once, opened
from bench.table import Row
from bench.timing import MANY_ROUNDS, Contender, Stopwatch, medians
from sf.domain import events
from sf.domain.decide import Move, Step, settled
from sf.domain.phases import Phase
from sf.domain.runs import AttemptState, Lease, RunOutcome
from sf.domain.units import Status, Unit
from sf.scheduler import claims
from sf.store import runs, units
from sf.store.tx import Tx

_UNITS = 400
"""In each round, so that the contenders take turns; 25 rounds make ten thousand."""
_DONE = Move(status=Status.SUCCEEDED, verdict="success", steps=(Step(Phase.COMPLETE, "done"),))
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Ours:
    """Rounds of null units that are all there before the clock starts at the first dispatch."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._rounds = 0
        self._dispatched: Stopwatch | None = None
        ground.desk.bus.subscribe(self._on_event)

    def _on_event(self, event: events.Event) -> None:
        if event.name == events.PRE_DISPATCH and self._dispatched is None:
            self._dispatched = Stopwatch()

    async def drain(self) -> float:
        """From the first dispatch until the loop ends: every unit settled and wound up."""
        self._rounds += 1
        await self._ground.plant(_UNITS, f"d{self._rounds}x")
        self._dispatched = None
        result = await self._ground.loop(done_at_once).run()
        watch: Stopwatch | None = self._dispatched
        assert watch is not None and result.ending == "done", result
        return watch.seconds() / _UNITS


class _Rows:
    """The rows of null units without a loop: how fast one could be that did nothing besides.

    Nobody looks at anything: a settlement's commit is that of the next claims, and nothing is wound up.
    """

    def __init__(self, ground: Ground, number: int) -> None:
        self._ground = ground
        self._number = number
        self._rounds = 0

    async def drain(self) -> float:
        """From the first claim to the last settlement."""
        self._rounds += 1
        database, prefix = self._ground.desk.database, f"r{self._rounds}x"
        await self._ground.plant(_UNITS, prefix)
        planted = [units.get(database.read, f"task/{prefix}{index}") for index in range(1, _UNITS + 1)]
        running: list[tuple[Unit, Lease]] = []
        watch = Stopwatch()
        while planted or running:
            batch, planted = planted[: self._number], planted[self._number :]
            running = await database.write(partial(self._round, ended=running, begun=batch))
        return watch.seconds() / _UNITS

    def _round(self, tx: Tx, ended: list[tuple[Unit, Lease]], begun: list[Unit]) -> list[tuple[Unit, Lease]]:
        rules, now = self._ground.desk.rules, self._ground.desk.clock.now()
        for unit, lease in ended:
            runs.finish(tx, lease.run_id, outcome=RunOutcome.SUCCESS, state=AttemptState.SUCCEEDED, now=now)
            units.record_transition(tx, unit.id, unit.phase, Phase.COMPLETE, "done", now)
            units.settle(tx, unit.phase, settled(unit, _DONE, now))
        units.wound_up(tx, [unit.id for unit, _ in ended], now)
        taken = [claims.take(tx, unit, holder=HOLDER, host="here", rules=rules, now=now) for unit in begun]
        return [claim for claim in taken if claim is not None]


class _Huey:
    """Tasks with stored results, queued before the clock starts."""

    def __init__(self, path: Path, workers: int) -> None:
        self._huey: Any = peers.load("huey").SqliteHuey(filename=str(path), fsync=True)
        self._task = self._huey.task()(_nothing)
        self._stored = 0
        self._workers = workers
        self._log_file = path.with_suffix(".log")

    async def drain(self) -> float:
        """Threads that take and execute until the queue is empty: its consumer without the waits."""
        self._queue()
        threads = [threading.Thread(target=self._work) for _ in range(self._workers)]
        logging.getLogger("huey").setLevel(logging.ERROR)
        watch = Stopwatch()
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        seconds = watch.seconds()
        assert self._huey.storage.result_store_size() == self._stored
        return seconds / _UNITS

    async def consume(self) -> float:
        """Its own consumer with its threads, from its start until the last result is stored."""
        logging.getLogger("huey").setLevel(logging.ERROR)
        return await self._consume()

    async def consume_logging(self) -> float:
        """The same with the log that its command line sets up: two lines for each task, in a file."""
        with _logging(self._log_file, self._workers):
            return await self._consume()

    async def _consume(self) -> float:
        self._queue()
        consumer = self._huey.create_consumer(workers=self._workers, periodic=False)
        last = asyncio.Event()
        loop, left = asyncio.get_running_loop(), iter(range(_UNITS - 1, -1, -1))

        def completed(signal_name: str, task: object) -> None:
            if next(left) == 0:
                loop.call_soon_threadsafe(last.set)

        self._huey.signal("complete")(completed)
        with _own_signals():
            watch = Stopwatch()
            consumer.start()
            await last.wait()
            seconds = watch.seconds()
            await asyncio.to_thread(consumer.stop, graceful=True)
        self._huey.disconnect_signal(completed, "complete")
        return seconds / _UNITS

    def _queue(self) -> None:
        for _ in range(_UNITS):
            self._task()
        self._stored += _UNITS

    def _work(self) -> None:
        while (task := self._huey.dequeue()) is not None:
            self._huey.execute(task)


def _nothing() -> int:
    return 1


@contextmanager
def _logging(file: Path, workers: int) -> Iterator[None]:
    """Huey logs to a file, in the format and at the level that its command line gives it by default."""
    logger, options = logging.getLogger("huey"), peers.load("huey.consumer_options")
    options.ConsumerConfig(workers=workers, logfile=str(file)).setup_logger(logger)
    (handler,) = logger.handlers
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


@contextmanager
def _own_signals() -> Iterator[None]:
    """The handlers that were there, after a consumer has put up its own."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def measure(scratch: Path) -> list[Row]:
    """The drain's rows: two at a time, which is to be level, and as many as an autopilot has agents."""
    return [*await _measured(scratch / "two", 2, "two", 1.0), *await _measured(scratch / "ten", 10, "ten")]


async def _measured(scratch: Path, number: int, word: str, most_ratio: float | None = None) -> list[Row]:
    config = f"[harness.concurrency]\nmax_agents = {number}\nmax_agents_by_phase = {{ execute = {number} }}\n"
    async with opened(scratch / "project", config) as ground:
        ours, huey = _Ours(ground), _Huey(scratch / "huey.db", number)
        contenders: dict[str, Contender] = {
            "ours": ours.drain,
            "rows": _Rows(ground, number).drain,
            "threads": huey.drain,
            "consumer": huey.consume,
            "logging": huey.consume_logging,
        }
        found = await medians(contenders, MANY_ROUNDS)
    what = f"10,000 null units, {word} at a time, each"
    peers_of_it = {
        "Huey task, its consumer and its log": "logging",
        "Huey task, its consumer, silent": "consumer",
        f"Huey task, {word} threads, silent": "threads",
    }
    rows = [
        Row(what, found["ours"], "s", peer, found[name], most_ratio=most_ratio)
        for peer, name in peers_of_it.items()
    ]
    alone = f"their rows alone, {word} in a commit, each"
    return [*rows, Row(alone, found["rows"], "s", f"Huey task, {word} threads, silent", found["threads"])]
