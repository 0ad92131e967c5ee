"""Time as the rules see it: instants in UNIX milliseconds, handed in, never looked up."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import NewType, Protocol

Instant = NewType("Instant", int)


class Clock(Protocol):
    """Where instants come from."""

    def now(self) -> Instant:
        """The present instant."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> Instant:
        """The present instant."""
        return Instant(time.time_ns() // 1_000_000)


def has_passed(every_ms: int, since: int, now: Instant) -> bool:
    """Whether an interval is over. A clock that was set back tells nothing of it: then it is over too."""
    return not 0 <= now - since < every_ms


def drawn_in(due_at: Instant, written_at: Instant, now: Instant, longest_ms: int | None = None) -> Instant:
    """When a wait is over for one whose clock may have been set back since the wait was written down.

    From now it lasts no longer than it was to last from its beginning, nor than the longest of its kind.
    """
    left = due_at - now
    if now < written_at <= due_at:
        left = min(left, due_at - written_at)
    if longest_ms is not None:
        left = min(left, longest_ms)
    return Instant(min(due_at, now + max(0, left)))


def rfc3339(instant: int) -> str:
    """An instant as UTC text with seconds."""
    return datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def brief_duration(milliseconds: int) -> str:
    """A duration for people: `840ms`, `4.2s`, `3m12s`, `2h05m`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f}s"
    if seconds < 3600:
        return f"{int(seconds // 60)}m{int(seconds % 60):02d}s"
    return f"{int(seconds // 3600)}h{int(seconds % 3600 // 60):02d}m"
