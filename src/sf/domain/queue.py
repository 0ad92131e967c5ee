"""The order in which eligible units are taken, and whether one is eligible."""

from __future__ import annotations

from sf.domain.clock import Instant
from sf.domain.phases import RANK
from sf.domain.units import Status, Unit

_WAITING = frozenset({Status.PENDING, Status.INTERRUPTED, Status.FAILED})


def priority_key(unit: Unit) -> tuple[int, bool, int, int, str]:
    """Urgent first; then unblocked, earlier phase, older, and the id."""
    explicit = unit.priority if unit.priority is not None else 1_000_000
    return (explicit, unit.open_blockers > 0, RANK[unit.phase], unit.created_at, unit.id)


def claimable(unit: Unit) -> bool:
    """Whether a run of the unit could begin, whatever it waits for: it is open, at rest, and not parked."""
    return (
        unit.status in _WAITING and not unit.terminal and unit.archived_at is None and unit.hold_kind is None
    )


def eligible(unit: Unit, now: Instant) -> bool:
    """Whether the unit could be dispatched now, caps aside."""
    return (
        claimable(unit)
        and unit.open_blockers == 0
        and unit.open_children == 0
        and unit.parent_ready
        and unit.lane_open
        and (unit.due_at is None or unit.due_at <= now)
    )


READY = "ready"


def standing(unit: Unit, now: Instant, last_code: str = "", branch: str = "") -> str:
    """The one recorded reason for which an open unit is not running, or what it does, as a word.

    With the error code of its last run and the branch it is merged into, a wait says what for.
    """
    if unit.reverted_at is not None:
        return "reverted"
    if unit.terminal:
        return "canceled" if unit.status is Status.CANCELED else (unit.verdict or "done")
    if unit.status is Status.RUNNING:
        return "running"
    if unit.hold_kind is not None:
        return f"held:{unit.hold_kind}"
    if unit.open_blockers:
        return "blocked"
    if unit.open_children:
        return "waiting for children"
    if not unit.parent_ready:
        return "waiting for its container"
    if not unit.lane_open:
        return "waiting for the worktree"
    if unit.due_at is not None and unit.due_at > now:
        return _wait(last_code, branch)
    return READY


def _wait(last_code: str, branch: str) -> str:
    if last_code == "rate_limited":
        return "waits for a quota"
    if last_code == "provider_unreachable":
        return "waits for the provider"
    if last_code == "branch_moved":
        return f"waits for {branch or 'its branch'} to settle"
    if last_code == "checkout_dirty":
        return "waits for the checkout to settle"
    return "retry"
