"""A clock that stands still until it is told to move."""

from __future__ import annotations

from sf.domain.clock import Instant

START = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


class FakeClock:
    """Implements `sf.domain.clock.Clock`. Time only goes forward, and only by `advance`."""

    def __init__(self, start: int = START) -> None:
        self._now = start

    def now(self) -> Instant:
        """The present instant."""
        return Instant(self._now)

    def advance(self, *, milliseconds: int = 0, seconds: float = 0) -> Instant:
        """Let time pass; the new instant. Raises ValueError for a step back."""
        step = milliseconds + round(seconds * 1000)
        if step < 0:
            raise ValueError(f"a clock cannot go back by {-step} ms")
        self._now += step
        return self.now()
