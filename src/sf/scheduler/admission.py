"""Which ready units may be dispatched now: the caps, the order, and what the caller asked for."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import msgspec

from sf.config.schema import Concurrency
from sf.domain.phases import DISPATCHED, Phase
from sf.domain.queue import priority_key
from sf.domain.units import Unit
from sf.store import leases, units
from sf.store.tx import Tx

_ENOUGH = 1000


class Selection(msgspec.Struct, frozen=True):
    """What the loop may dispatch: everything, or only some units, or only so many, or one out of turn."""

    only: frozenset[str] | None = None
    most: int | None = None
    force: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out, and nothing goes first."""
        return self.only is None and self.most is None and self.force is None

    def covers(self, unit: Unit) -> bool:
        """Whether the unit is one of those asked for, or below one of them."""
        if self.only is None:
            return True
        slug = unit.id.split("/", 1)[1] + "/"
        return any(slug.startswith(name.split("/", 1)[1] + "/") for name in self.only)

    def spent(self, dispatched: int) -> bool:
        """Whether nothing more may be dispatched."""
        return self.most is not None and dispatched >= self.most

    def left(self, dispatched: int) -> int:
        """How many more may be dispatched."""
        return sys.maxsize if self.most is None else self.most - dispatched


def room(caps: Concurrency, running: Sequence[Phase]) -> dict[Phase, int]:
    """How many more units may enter each phase, under the phase's and the global cap."""
    free = max(0, caps.max_agents - len(running))
    left = dict.fromkeys(DISPATCHED, free)
    for phase, most in caps.caps().items():
        if phase in left:
            left[phase] = max(0, min(free, most - running.count(phase)))
    return left


def admit(
    tx: Tx,
    caps: Concurrency,
    running: Sequence[Phase],
    selection: Selection,
    dispatched: int,
    *,
    station: str = "",
    begun_only: bool = False,
) -> list[Unit]:
    """The units to dispatch beside runs of these phases, most urgent first.

    With `begun_only` none that has not had a run yet.
    """
    free = room(caps, running)
    if selection.force is not None:
        found = [units.get(tx, selection.force)] if not dispatched else []
    elif selection.only is not None:
        everything = leases.ready(tx, dict.fromkeys(free, _ENOUGH), station=station)
        found = [unit for unit in everything if selection.covers(unit)]
    else:
        found = leases.ready(tx, free, station=station, begun_only=begun_only)
    taken: Counter[Phase] = Counter()
    admitted: list[Unit] = []
    for unit in sorted(found, key=priority_key):
        if len(admitted) + len(running) < caps.max_agents and taken[unit.phase] < free.get(unit.phase, 0):
            taken[unit.phase] += 1
            admitted.append(unit)
    return admitted
