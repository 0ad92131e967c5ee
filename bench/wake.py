"""From another process's commit and ring to the start of the run, with the loop idle."""

from __future__ import annotations

import asyncio
import statistics
import sys
from pathlib import Path

from bench.ground import SHORT, Busy, opened, running
from bench.table import Row
from sf.scheduler.doorbell import Doorbell

_SAMPLES = 40
_PAUSE = 0.03
_AWAY = '[harness]\ntick = "60s"\n'
"""The tick is far off: what is measured is the bell."""


async def measure(scratch: Path) -> list[Row]:
    """The wake-up's rows."""
    rows = []
    for how, what in (("unit", "a committed unit"), ("intent", "a committed intent")):
        taken = await _samples(scratch / how, how)
        rows.append(Row(f"{what} to its run's start, p50", statistics.median(taken), "s", most=0.010))
        worst = statistics.quantiles(taken, n=20)[-1]
        rows.append(Row(f"{what} to its run's start, p95", worst, "s"))
    return rows


async def _samples(folder: Path, how: str) -> list[float]:
    async with opened(folder, _AWAY) as ground:
        await ground.plant(1, "head")
        busy = Busy(lambda unit: unit.id == "task/head1")
        loop = ground.loop(busy)
        bell = Doorbell(ground.desk.project.runtime, loop.wake)
        try:
            async with running(loop):
                await busy.started.get()
                return await _ring(folder, how, busy)
        finally:
            bell.close()


async def _ring(folder: Path, how: str, busy: Busy) -> list[float]:
    """Have the other process write and ring, and compare its clock with ours: both read CLOCK_MONOTONIC."""
    writer = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench._writer", how, str(folder), SHORT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert writer.stdin is not None and writer.stdout is not None
    taken = []
    try:
        await writer.stdout.readline()
        for _ in range(_SAMPLES):
            await asyncio.sleep(_PAUSE)
            writer.stdin.write(b"\n")
            async with asyncio.timeout(10):
                _, started = await busy.started.get()
                committed = int(await writer.stdout.readline())
            taken.append((started - committed) / 1e9)
    finally:
        writer.stdin.close()
        await writer.wait()
    return taken
