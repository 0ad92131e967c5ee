"""A cancellation waits for what must not be left half-way, and is not lost."""

from __future__ import annotations

import asyncio

import pytest

from sf.unbroken import or_undone, to_the_end


async def test_work_is_waited_for_and_a_cancellation_set_aside() -> None:
    ended = asyncio.Event()

    async def work() -> int:
        await ended.wait()
        return 7

    task = asyncio.create_task(to_the_end(work()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    ended.set()
    assert await task == 7


async def test_what_a_cancelled_task_had_begun_is_undone() -> None:
    begun, undone = asyncio.Event(), []

    async def work() -> int:
        await begun.wait()
        return 7

    async def undo(value: int) -> None:
        undone.append(value)

    task = asyncio.create_task(or_undone(work(), undo))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    begun.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert undone == [7]


async def test_a_stop_that_comes_while_a_time_limit_is_undone_is_heard() -> None:
    """The limit's own cancellation was answered, and the stop taken for a part of it: the task went on."""
    undoing, undone = asyncio.Event(), asyncio.Event()

    async def undo(_: int) -> None:
        undoing.set()
        await undone.wait()

    async def run() -> str:
        try:
            async with asyncio.timeout(0.01):
                await or_undone(asyncio.sleep(0.02, 1), undo)
        except TimeoutError:
            await asyncio.sleep(0)
        return "went on"

    task = asyncio.create_task(run())
    await undoing.wait()
    task.cancel()
    await asyncio.sleep(0)
    undone.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_two_limits_that_ran_out_cancel_nothing_that_comes_after_them() -> None:
    async def run() -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.03), asyncio.timeout(0.01):
                await or_undone(asyncio.sleep(0.02, 1), lambda _: asyncio.sleep(0.03))
        await asyncio.sleep(0)
        return "went on"

    assert await asyncio.create_task(run()) == "went on"
