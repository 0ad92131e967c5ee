"""Conditions that hold units back and that someone else may have changed: looked at again, with no model."""

from __future__ import annotations

import os
from functools import partial

from sf.domain.attention import Question
from sf.domain.clock import Instant
from sf.domain.units import BRANCH, PATHS, RECHECKED, HoldKind, Unit
from sf.domain.utf8 import unquoted
from sf.harness import lifecycle
from sf.harness.billing import terms
from sf.harness.desk import Desk
from sf.scheduler.allotment import Allotment
from sf.store import attention, units
from sf.store.tx import Tx


async def recheck(desk: Desk, now: Instant) -> int:
    """Let every parked unit go whose condition is no longer there; how many.

    What git is needed for comes last.
    """
    waiting = [unit for unit in units.held(desk.database.read, desk.station) if unit.hold_kind in RECHECKED]
    dirty: set[str] | None = None
    freed = 0
    allotment = Allotment(desk.database.read, desk.rules.caps, now)
    for unit in sorted(waiting, key=lambda unit: unit.hold_kind is HoldKind.CHECKOUT_DIRTY):
        asked = _asked(desk.database.read, unit)
        if unit.hold_kind is HoldKind.CHECKOUT_DIRTY and (branch := _missed(asked)):
            over = await desk.workshop.user.branch_commit(branch) is not None
        elif unit.hold_kind is HoldKind.CHECKOUT_DIRTY:
            dirty = set(await desk.workshop.user.dirty()) if dirty is None else dirty
            busy = desk.workshop.user.is_out_elsewhere(desk.workshop.integration_branch(unit))
            over = not dirty and not busy and not await _in_the_way(desk, unit, asked, now)
        elif unit.hold_kind is HoldKind.NO_EVIDENCE:
            over = _gates_since(desk, unit, asked)
        else:
            over = _has_room(desk, unit, asked, allotment)
            if over and asked is not None:
                allotment.take(asked)
        if over:
            going = partial(let_go, unit=unit, asked=asked, station=desk.station, now=now)
            freed += await desk.database.write(going)
    return freed


def _missed(asked: Question | None) -> str:
    """The branch for want of which a unit is held, if it is."""
    return str(asked.data.get(BRANCH, "")) if asked is not None else ""


def let_go(tx: Tx, unit: Unit, asked: Question | None, station: str, now: Instant) -> bool:
    """Let a unit go, unless somebody has meanwhile: by now it may be held for another cause, or canceled."""
    if units.get(tx, unit.id).hold_kind is not unit.hold_kind or _asked(tx, unit) != asked:
        return False
    if station and _missed(asked) and unit.station is None:
        # Who has the branch has the unit: another folder would take it first, and miss the branch again.
        units.bind_unit(tx, unit.id, station)
    unseen = asked is not None and not asked.data.keys() & {PATHS, BRANCH}
    if unit.hold_kind is HoldKind.CHECKOUT_DIRTY and unseen:
        # Whether it is still there is seen by trying alone.
        lifecycle.look_again(tx, unit.id, now)
    else:
        lifecycle.release(tx, unit.id, "auto", now)
    return True


async def _in_the_way(desk: Desk, unit: Unit, asked: Question | None, now: Instant) -> bool:
    """Whether an untracked path still is, or it is too early to try.

    Some obstacles cannot be seen from here, and some are there only while a merge is: hooks around it may
    put them there and take them away again.
    """
    obstacle = desk.obstacles.get(unit.id)
    is_seen = asked is not None and PATHS in asked.data
    # One that is seen to be gone is believed once.
    if obstacle is not None and now < obstacle.look_again_at and not (is_seen and obstacle.looked <= 1):
        return True
    if asked is None or not is_seen:
        return False
    paths = {unquoted(path) for path in asked.data[PATHS]}
    untracked = paths.difference(await desk.workshop.user.tracked_files()) if paths else paths
    return any(os.path.lexists(desk.project.root / path) for path in untracked)


def _gates_since(desk: Desk, unit: Unit, asked: Question | None) -> bool:
    """Whether other gates are configured now than when nothing proved the unit."""
    return asked is not None and list(desk.rules.merge_gates(unit)) != asked.data.get("gates", [])


def _has_room(desk: Desk, unit: Unit, asked: Question | None, allotment: Allotment) -> bool:
    """Whether the scopes of a unit now have room for what it wanted, or that has become cheaper.

    How much cheaper is known only when the request is put together: the unit is let go to see, and if
    there is still no room it is parked by the new terms.
    """
    if asked is None:
        return False
    then = asked.data.get("terms", ())
    # Of two lists of different lengths one is unknown.
    if any(now < before for now, before in zip(terms(desk, unit.phase), then, strict=False)):
        return True
    return allotment.reaches(asked)


def _asked(tx: Tx, unit: Unit) -> Question | None:
    return next(iter(attention.of_unit(tx, unit.id)), None)
