"""The limits that every counter leads to, and the backoff between tries."""

from __future__ import annotations

import msgspec

_SHORTEST_OUTAGE_MS = 1000


class Limits(msgspec.Struct, frozen=True):
    """Limits of one unit: from the configuration and from its pinned workflow."""

    max_attempts: int = 6
    max_retries: int = 3
    max_fix_attempts: int = 3
    max_conflicts: int = 2
    max_reassess: int = 2
    max_interruptions: int = 20
    max_waits: int = 1000
    max_runs: int = 100
    first_backoff_ms: int = 10_000
    max_backoff_ms: int = 300_000

    def of(self, kind: str) -> int:
        """What a counter of this kind may reach."""
        return {
            "tries": self.max_attempts,
            "gate": self.max_retries,
            "fixes": self.max_fix_attempts,
            "conflicts": self.max_conflicts,
            "replans": self.max_reassess,
            "interruptions": self.max_interruptions,
            "waits": self.max_waits,
        }[kind]


def backoff_ms(tries: int, limits: Limits) -> int:
    """How long to wait after the nth abnormal end: 10 s doubled each time, up to the cap."""
    doubled: int = limits.first_backoff_ms * 2 ** min(tries - 1, 40)
    return min(doubled, limits.max_backoff_ms)


def outage_ms(times: int, limits: Limits) -> int:
    """How long to wait for what was out of reach so often in a row: as after tries, but a second at least.

    Without any pause, an outage would use up the waits that a unit may have.
    """
    first = max(limits.first_backoff_ms, _SHORTEST_OUTAGE_MS)
    longest = max(limits.max_backoff_ms, _SHORTEST_OUTAGE_MS)
    return backoff_ms(times, msgspec.structs.replace(limits, first_backoff_ms=first, max_backoff_ms=longest))
