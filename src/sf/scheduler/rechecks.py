"""Conditions that hold units back and that someone else may have changed: looked at again, with no model."""

from __future__ import annotations

import os

from sf.domain.attention import Question
from sf.domain.clock import Instant
from sf.domain.spending import breach
from sf.domain.units import BRANCH, RECHECKED, HoldKind, Unit
from sf.harness import lifecycle
from sf.harness.billing import terms
from sf.harness.desk import Desk
from sf.store import attention, spending, units


async def recheck(desk: Desk, now: Instant) -> None:
    """Let every parked unit go whose condition is no longer there."""
    waiting = [unit for unit in units.held(desk.database.read, desk.station) if unit.hold_kind in RECHECKED]
    dirty: set[str] | None = None
    for unit in waiting:
        if unit.hold_kind is HoldKind.CHECKOUT_DIRTY and (branch := _missed(desk, unit)):
            over = await desk.workshop.user.branch_commit(branch) is not None
        elif unit.hold_kind is HoldKind.CHECKOUT_DIRTY:
            dirty = set(await desk.workshop.user.dirty()) if dirty is None else dirty
            busy = desk.workshop.user.is_out_elsewhere(desk.workshop.integration_branch(unit))
            over = not dirty and not busy and not await _in_the_way(desk, unit, now)
        elif unit.hold_kind is HoldKind.NO_EVIDENCE:
            over = _gates_since(desk, unit)
        else:
            over = _has_room(desk, unit)
        if over:
            await _let_go(desk, unit, now)


def _missed(desk: Desk, unit: Unit) -> str:
    """The branch for want of which a unit is held, if it is."""
    asked = _asked(desk, unit)
    return str(asked.data.get(BRANCH, "")) if asked is not None else ""


async def _in_the_way(desk: Desk, unit: Unit, now: Instant) -> bool:
    """Whether an untracked path still is, or it is too early to try what cannot be seen from here."""
    obstacle = desk.obstacles.get(unit.id)
    if obstacle is None:
        return False
    tracked = set(await desk.workshop.user.tracked_files())
    untracked = [path for path in obstacle.paths if path not in tracked]
    if any(os.path.lexists(desk.project.root / path) for path in untracked):
        return True
    return not obstacle.paths and now < obstacle.look_again_at


def _gates_since(desk: Desk, unit: Unit) -> bool:
    """Whether other gates are configured now than when nothing proved the unit."""
    asked = _asked(desk, unit)
    return asked is not None and list(desk.rules.merge_gates(unit)) != asked.data.get("gates", [])


def _has_room(desk: Desk, unit: Unit) -> bool:
    """Whether the scopes of a unit now have room for what it wanted, or that has become cheaper.

    How much cheaper is known only when the request is put together: the unit is let go to see, and if
    there is still no room it is parked by the new terms.
    """
    asked, read = _asked(desk, unit), desk.database.read
    if asked is None:
        return False
    then = asked.data.get("terms", ())
    # Of two lists of different lengths one is unknown.
    if any(now < before for now, before in zip(terms(desk, unit.phase), then, strict=False)):
        return True
    by = spending.payer(read, unit)
    accounts = [spending.account(read, scope, key) for scope, key in by.keys().items()]
    return breach(accounts, desk.rules.caps, asked.data["wanted"]) is None


def _asked(desk: Desk, unit: Unit) -> Question | None:
    return next(iter(attention.of_unit(desk.database.read, unit.id)), None)


async def _let_go(desk: Desk, unit: Unit, now: Instant) -> None:
    obstacle = desk.obstacles.get(unit.id) if unit.hold_kind is HoldKind.CHECKOUT_DIRTY else None
    if obstacle is not None and not obstacle.paths:
        # Whether it is still there is seen by trying alone.
        await desk.database.write(lambda tx: lifecycle.look_again(tx, unit.id, now))
    else:
        await desk.database.write(lambda tx: lifecycle.release(tx, unit.id, "auto", now))
