"""What a start tells a person at once, because it would surprise them hours later."""

from __future__ import annotations

import contextlib

from sf.domain import events
from sf.domain.utf8 import escaped
from sf.errors import WorkspaceFailed
from sf.harness.desk import Desk
from sf.store import sessions


async def tell(desk: Desk) -> None:
    """Say what of the user's checkout will stand in the way, or look odd, when the first unit lands."""
    await _filters(desk)
    await _changes(desk)


async def _filters(desk: Desk) -> None:
    """Say what a person would wonder at: no filter is run, so what lands looks changed in their checkout."""
    filtered = await desk.workshop.user.filtered()
    if filtered:
        detail = f"filters such as LFS are not run; files under them land as they are stored: {filtered[0]}"
        desk.announce(events.WARNING, detail=detail)


async def _changes(desk: Desk) -> None:
    """Say at the start what the first merge would say hours later: a changed file holds every one of them."""
    user, session = desk.workshop.user, sessions.current(desk.database.read)
    branch = session["integration_branch"] if session else None
    if branch is None or user.branch_out() != branch:
        return
    changed: list[str] = []
    # Where git cannot look, the merge says so when its time comes.
    with contextlib.suppress(WorkspaceFailed, OSError):
        changed = await user.dirty()
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        told = f"your checkout has changes, which hold every merge into {branch}: {escaped(changed[0])}{more}"
        desk.announce(events.WARNING, detail=f"{told} (commit or stash them)")
