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
