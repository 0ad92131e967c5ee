"""Who waits for whom, and which waits can never end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sf.domain.books import Books, UnitFacts
from sf.domain.phases import RANK, Phase
from sf.domain.plans import find_cycle
from sf.domain.units import Status

_SHOWN = 5


def endless(books: Books) -> Iterator[tuple[str, str]]:
    """Units that wait for what cannot come, each with what is wrong and what a person can do."""
    below: dict[str, list[str]] = defaultdict(list)
    for unit in books.units.values():
        if unit.parent_id in books.units and not unit.terminal:
            below[unit.parent_id].append(unit.id)
    needs: dict[str, list[str]] = defaultdict(list)
    for unit_id, upstream in books.upstream:
        if _is_open(books.units.get(unit_id)) and _is_waited_for(books.units.get(upstream)):
            needs[unit_id].append(upstream)
    for container, children in below.items():
        unit = books.units[container]
        if _is_past(unit, waits=bool(needs.get(container))):
            names = ", ".join(sorted(children)[:_SHOWN])
            where = unit.status.value if unit.status is Status.CANCELED else f"in {unit.phase}"
            cure = f'sf abandon {min(children)} "reason"' + (", and so on" if len(children) > 1 else "")
            yield container, f"is {where}, but what is below it is open ({names}): {cure}"
    edges = {unit_id: _waits_for(unit, books, needs, below) for unit_id, unit in books.units.items()}
    for cycle in _cycles({unit_id: found for unit_id, found in edges.items() if found}):
        alone = next((unit_id for unit_id in cycle if not below.get(unit_id)), "")
        run = f"sf dispatch {alone} runs it all the same, " if alone else ""
        cure = f'{run}sf abandon {alone or cycle[0]} "reason" gives it up'
        yield cycle[0], f"waits for itself ({' → '.join(cycle)}): {cure}"


def _is_open(unit: UnitFacts | None) -> bool:
    return unit is not None and not unit.terminal


def _is_waited_for(unit: UnitFacts | None) -> bool:
    """Whether others still wait for it: one that was called off ends with its run, or with one below it."""
    return unit is not None and not unit.closed


def _is_past(container: UnitFacts, *, waits: bool) -> bool:
    """Whether children of it can no longer run; one that waits itself comes to execute when that is over."""
    if container.terminal or RANK[container.phase] > RANK[Phase.EXECUTE]:
        return True
    return container.phase is not Phase.EXECUTE and not waits


def _waits_for(
    unit: UnitFacts, books: Books, needs: Mapping[str, Sequence[str]], below: Mapping[str, Sequence[str]]
) -> list[str]:
    if unit.terminal or unit.status is Status.RUNNING:
        return []
    found = list(needs.get(unit.id, ()))
    if unit.phase is Phase.EXECUTE:
        found += below.get(unit.id, ())
    parent = books.units.get(unit.parent_id or "")
    if parent is not None and not parent.terminal and parent.phase is not Phase.EXECUTE:
        found.append(parent.id)
    return found


def _cycles(edges: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Cycles that have no unit in common, until what is left has none."""
    left = dict(edges)
    while cycle := find_cycle(left):
        yield cycle
        for unit_id in cycle[1:]:
            del left[unit_id]
