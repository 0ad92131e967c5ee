"""Measuring: contenders take turns within each round, and medians are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping

Contender = Callable[[], Awaitable[float]]
"""Does its work some times over and returns the seconds that one piece of it took."""

ROUNDS = 11
MANY_ROUNDS = 25
"""For `drain`, whose units make ten thousand so."""


async def medians(contenders: Mapping[str, Contender], rounds: int = ROUNDS) -> dict[str, float]:
    """The median of every contender's rounds.

    Each round runs all contenders one after the other, starting with another one each time, so that a busy
    moment of the machine or the disk does not fall on one of them alone. The first round warms up.
    """
    names = list(contenders)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            seconds = await contenders[name]()
            if number > 0:
                taken[name].append(seconds)
    return {name: statistics.median(values) for name, values in taken.items()}


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def seconds(self) -> float:
        """How long it has been."""
        return time.perf_counter() - self._started
