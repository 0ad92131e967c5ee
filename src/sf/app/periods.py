"""`sf session`: the stretches of work that a project's money is counted by."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from sf.app import clones, stores
from sf.app.trust import load_config
from sf.domain.attention import SESSION_BUDGET
from sf.domain.clock import Instant, SystemClock
from sf.errors import WrongState
from sf.paths import Project
from sf.scheduler import lock, replies
from sf.store import attention, blockers, sessions, units
from sf.store.connection import open_reader, transact
from sf.store.tx import Tx

_LONGEST_IDLE_MS = 30 * 86_400_000


class SessionLine(msgspec.Struct, frozen=True):
    """One session in a list; `ended_at` is None for the present one."""

    id: str
    status: str
    branch: str
    started_at: int
    ended_at: int | None
    units: int
    done: int
    """Units that ended with success; those that were carried over count where they ended."""
    cost_micro_usd: int


class Ended(msgspec.Struct, frozen=True):
    """A session that was closed, and how many open units the next one takes over."""

    session_id: str
    carried: int


def listed(project: Project) -> list[SessionLine]:
    """Every session of the project, oldest first."""
    return [
        SessionLine(
            id=row["id"],
            status=row["status"],
            branch=row["integration_branch"] or "",
            started_at=row["created_at"],
            ended_at=row["ended_at"],
            units=row["units"],
            done=row["done"],
            cost_micro_usd=row["cost_micro_usd"],
        )
        for row in sessions.listed(open_reader(stores.place_of(project)))
    ]


def end(project: Project, *, force: bool = False) -> Ended:
    """Close the present session. Raises ProjectLocked while an autopilot runs, WrongState with open units."""
    place = stores.chosen(project, load_config(project))
    clones.require_kin(project, place)
    with contextlib.ExitStack() as held:
        held.enter_context(lock.hold(project, "sf session end"))
        if not isinstance(place, Path):
            from sf.scheduler.notices import seat

            held.enter_context(seat(place))
        return transact(place, lambda tx: _end(tx, SystemClock().now(), force=force))


def expire(tx: Tx, now: Instant) -> None:
    """Close a session in which nothing has been done for so long that a start begins another one.

    One that is paused waits for its operator, and one at which somebody sits is in use.
    """
    session = sessions.current(tx)
    if session is None or session["status"] == "paused" or sessions.seats(tx):
        return
    if now - sessions.last_deed(tx) > _LONGEST_IDLE_MS:
        _end(tx, now, force=True)


def _end(tx: Tx, now: Instant, *, force: bool) -> Ended:
    session = sessions.current(tx)
    if session is None:
        raise WrongState("there is no session to end", hint="sf plan or sf auto begins one")
    left = units.open_count(tx)
    if left and not force:
        raise WrongState(
            f"{left} unit(s) are open",
            hint="sf auto finishes them, or sf session end --force: the next session takes them over",
        )
    sessions.end(tx, session["id"], now)
    # What was asked about this session as a whole: its pause, and its money.
    blockers.resolve_event(tx, "Paused", "session end", now)
    attention.close_kind(tx, SESSION_BUDGET, "session end", now)
    for row in blockers.open_blockers(tx):
        if row["event"] == replies.BUDGET_EVENT and row["unit_id"] is None:
            blockers.resolve(tx, row["id"], "session end", now)
    return Ended(session["id"], left)
