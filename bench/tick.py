"""What a tick of the scheduler costs when there is nothing to dispatch, at 100,000 units and at 1,000."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from bench.ground import Busy, Ground, opened, running
from bench.table import Row
from bench.timing import Stopwatch, medians
from sf.domain import events
from sf.scheduler.loop import Loop

_FEW, _MANY = 1_000, 100_000
_TICKS = 200
_ONE_AT_A_TIME = "[harness.concurrency]\nmax_agents = 1\n"


class _Ticks:
    """Wakes a live loop and waits for the end of its tick."""

    def __init__(self, ground: Ground, loop: Loop) -> None:
        self._loop = loop
        self._ticked = asyncio.Event()
        ground.desk.bus.subscribe(self._on_event)

    def _on_event(self, event: events.Event) -> None:
        if event.name == events.AUTO_LOOP:
            self._ticked.set()

    async def __call__(self) -> float:
        watch = Stopwatch()
        for _ in range(_TICKS):
            self._ticked.clear()
            self._loop.wake()
            await self._ticked.wait()
        return watch.seconds() / _TICKS


@contextlib.asynccontextmanager
async def _caps_full(folder: Path, number: int) -> AsyncIterator[_Ticks]:
    """One unit runs, all others are ready, and no more than one may run."""
    async with opened(folder, _ONE_AT_A_TIME) as ground:
        await ground.plant(1, "head")
        await ground.plant(number, "u")
        async with _ticking(ground) as ticks:
            yield ticks


@contextlib.asynccontextmanager
async def _all_blocked(folder: Path, number: int) -> AsyncIterator[_Ticks]:
    """One unit runs, there is room for more, and all others wait for the one that runs."""
    async with opened(folder) as ground:
        await ground.plant(1, "head")
        await ground.plant(number, "u", blocked_by="task/head1")
        async with _ticking(ground) as ticks:
            yield ticks


@contextlib.asynccontextmanager
async def _ticking(ground: Ground) -> AsyncIterator[_Ticks]:
    busy = Busy(lambda unit: True)
    loop = ground.loop(busy)
    ticks = _Ticks(ground, loop)
    async with running(loop):
        await busy.started.get()
        yield ticks


async def measure(scratch: Path) -> list[Row]:
    """The tick's rows."""
    async with contextlib.AsyncExitStack() as stack:
        contenders = {}
        for name, situation in (("full", _caps_full), ("blocked", _all_blocked)):
            for number in (_FEW, _MANY):
                folder = scratch / f"{name}-{number}"
                contenders[f"{name} {number}"] = await stack.enter_async_context(situation(folder, number))
        found = await medians(contenders)
    return [
        Row(
            f"tick at {_MANY:,} units, {what}",
            found[f"{name} {_MANY}"],
            "s",
            f"the same at {_FEW:,}",
            found[f"{name} {_FEW}"],
            most_ratio=1.5,
        )
        for name, what in (("full", "caps full"), ("blocked", "all blocked"))
    ]
