"""A deadline: how much of a call's time is left."""

from __future__ import annotations

import time


class Deadline:
    """Counts from when it is made; without a limit there is always time."""

    def __init__(self, milliseconds: float | None) -> None:
        self._end = None if milliseconds is None else time.monotonic() + milliseconds / 1000

    def left(self) -> float | None:
        """The seconds that are left, never below 0; None without a limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def allows(self, seconds: float) -> bool:
        """Whether something that takes this long still fits."""
        left = self.left()
        return left is None or left > seconds
