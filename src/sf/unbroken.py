"""Work that a cancellation does not break off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(work: Awaitable[T]) -> T:
    """Wait for work that must not be left half-way; a cancellation meanwhile is set aside."""
    task = asyncio.ensure_future(work)
    await _outwaited(task)
    return task.result()


async def or_undone(work: Awaitable[T], undo: Callable[[T], Awaitable[None]] | None = None) -> T:
    """Wait for work; a cancellation meanwhile takes effect once that has ended, and has been undone."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        aside = await _outwaited(task)
        # Work that failed, or was cancelled itself, has left nothing to undo.
        if not task.cancelled() and task.exception() is None and undo is not None:
            undoing = asyncio.ensure_future(undo(task.result()))
            aside += await _outwaited(undoing)
            undoing.result()
        # Each in its turn: the first may have been a time limit's, the second somebody who stops it all.
        for _ in range(aside):
            await _cancelled_again()
        raise


async def _outwaited(task: asyncio.Future[T]) -> int:
    """Wait until a task has ended, however; how many cancellations were set aside meanwhile."""
    aside = 0
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            _current().uncancel()
            aside += 1
    return aside


async def _cancelled_again() -> None:
    """Let a cancellation count, without one that strikes whatever is awaited next."""
    _current().cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


def _current() -> asyncio.Task[object]:
    current = asyncio.current_task()
    assert current is not None, "whatever is cancelled is a task"
    return current
