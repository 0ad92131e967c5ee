"""What follows when a unit is terminal: worktree first, then PostUnit hooks, then the archive."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sf.domain import events
from sf.domain.phases import Phase
from sf.domain.reverting import work_subject
from sf.domain.runs import Lease
from sf.domain.units import PUT_AWAY, Unit
from sf.errors import BadUsage, GitFailed, HookFailed, HookTimeout, SfError, WorkspaceFailed
from sf.harness import artifacts, lessons
from sf.harness.attempt import run_hook
from sf.harness.desk import Desk
from sf.harness.results import Told, unit_result
from sf.scheduler import landed, unit_hooks
from sf.store import leases, runs, sessions, units
from sf.workspaces.refusals import CheckoutBusy
from sf.workspaces.worktree import Worktree

_NAMES = 10
"""How many names a branch that is kept may be tried under."""


async def due(desk: Desk, seen: Collection[str]) -> list[Unit]:
    """The terminal units that this autopilot is to wind up, but for those that it has seen to already.

    Where several share a store, one that nobody had begun is taken first: its hooks are one autopilot's.
    """
    found = [unit for unit in units.to_wind_up(desk.database.read, desk.station) if unit.id not in seen]
    free = [unit.id for unit in found if unit.station is None] if desk.station else []
    if not free:
        return found
    taken = await desk.database.write(
        lambda tx: [name for name in free if units.bind_unit(tx, name, desk.station)]
    )
    return [unit for unit in found if unit.station is not None or unit.id in taken]


async def close(desk: Desk, unit: Unit) -> None:
    """Wind a terminal unit up. Raises HookFailed when a PostUnit hook refuses: the session must stop.

    The caller marks it afterwards, so a crash repeats the hooks rather than skipping them. Where only a hook
    is left to be told, what came before it is not done again: the user may have deleted the branch that was
    kept.
    """
    if not unit.metadata.get(PUT_AWAY):
        is_away = await put_away(desk, unit)
        await _remember(desk, unit)
        # Written down with the hooks that have heard of the unit, if one of them could not be told.
        unit = msgspec.structs.replace(unit, metadata={**unit.metadata, PUT_AWAY: is_away})
    try:
        await _post_unit(desk, unit)
    finally:
        _archive(desk, unit)


def _archive(desk: Desk, unit: Unit) -> None:
    """Move the unit's artifacts away; the next start tries it again, and needs to tell no hook for that."""
    try:
        artifacts.archive(desk.project, unit.id, desk.clock.now())
    except OSError as error:
        told = f"its artifacts stay in {desk.project.active(unit.id)}: {error}"
        desk.log.warning("artifacts kept", unit_id=unit.id, unit_type=unit.type, error=str(error))
        desk.announce(events.WARNING, unit.id, detail=told)


async def _remember(desk: Desk, unit: Unit) -> None:
    """What the unit taught goes to the memory before the user's hooks are told of its end."""
    if not desk.rules.bank:
        return
    paths, rules, now = await _touched(desk, unit), desk.rules, desk.clock.now()
    await desk.database.write(lambda tx: lessons.unit_ended(tx, unit, paths, rules, now))


async def _touched(desk: Desk, unit: Unit) -> tuple[str, ...]:
    """The paths that a task which succeeded has changed."""
    if unit.type != "task" or not unit.succeeded or not unit.base_commit:
        return ()
    tree = runs.last_tree(desk.database.read, unit.id)
    if not tree:
        return ()
    try:
        return tuple(change.path for change in await desk.workshop.owned.diff_stat(unit.base_commit, tree))
    except WorkspaceFailed as error:
        desk.log.warning("changed paths unknown", unit_id=unit.id, unit_type=unit.type, error=error.line())
        return ()


async def put_away(desk: Desk, unit: Unit) -> bool:
    """Remove the unit's worktree; what cannot be removed is kept, and tried again at the next start."""
    try:
        await _put_away(desk, unit)
        return True
    except (SfError, OSError) as error:
        told = error.message if isinstance(error, SfError) else str(error)
        desk.log.warning("worktree kept", unit_id=unit.id, unit_type=unit.type, error=told)
        desk.announce(events.WARNING, unit.id, detail=f"its worktree is kept: {told}")
        return False


async def _put_away(desk: Desk, unit: Unit) -> None:
    """Remove the unit's own worktree; whatever is not in the integration branch is kept under a ref."""
    workshop = desk.workshop
    owner = workshop.owner(unit)
    if owner.id != unit.id:
        await _leave_shared(desk, unit, owner)
        return
    if unit.base_commit is None:
        return
    await landed.forget(workshop.owned, unit)
    if not workshop.folder(unit).exists() and await _has_nothing_to_keep(desk, unit):
        kept = await workshop.removed(unit).finish_removal(await workshop.landed_in(unit))
        _tell_parked(desk, unit, kept)
        return
    worktree, _ = await workshop.open(unit)
    folder = workshop.folder(unit)
    lease = Lease(unit.id, f"closing-{unit.attempt}", unit.attempt, "")
    head = await workshop.landed_in(unit)
    await _keep_unmerged(desk, unit, head, worktree)
    try:
        await worktree.refresh_agent_git()
        await run_hook(desk, "before_remove", unit, lease, folder)
    except (HookFailed, HookTimeout) as error:
        desk.log.warning("hook failed", unit_id=unit.id, unit_type=unit.type, error=error.line())
    parked = await worktree.remove(landed_in=head)
    _tell_parked(desk, unit, parked)
    desk.announce(events.WORKTREE_DELETE, unit.id, folder=str(folder), parked=parked)


async def _has_nothing_to_keep(desk: Desk, unit: Unit) -> bool:
    """Whether a unit whose folder is gone needs none to leave its branch behind."""
    return _merges(desk, unit) or not unit.succeeded or await desk.workshop.removed(unit).is_nearly_removed()


def _tell_parked(desk: Desk, unit: Unit, ref: str | None) -> None:
    if ref:
        desk.log.info("unmerged work parked", unit_id=unit.id, unit_type=unit.type, ref=ref)


async def _leave_shared(desk: Desk, unit: Unit, owner: Unit) -> None:
    """Leave a shared worktree with what was judged committed, and nothing else in it."""
    workshop, read = desk.workshop, desk.database.read
    if unit.base_commit is None or owner.terminal or _is_taken(desk, unit, owner):
        return
    last = runs.last_writing(read, owner.id, below=True)
    if last is None or last.unit_id != unit.id:
        # What lies there is another's.
        return
    worktree, _ = await workshop.open(owner)
    # A slice has no merge of its own in its milestone's worktree.
    if unit.succeeded and (unit.type == "slice" or not _merges(desk, unit)):
        await worktree.commit(_message(unit), tree=last.tree)
    await workshop.undo_changes(owner, worktree)


def _is_taken(desk: Desk, unit: Unit, owner: Unit) -> bool:
    """Whether another unit is at work in the worktree already."""
    running = leases.running(desk.database.read, desk.station)
    return any(other.id != unit.id and desk.workshop.owner(other).id == owner.id for other in running)


def _merges(desk: Desk, unit: Unit) -> bool:
    return sessions.pinned(desk.database.read, unit.workflow_hash).has(Phase.MERGE)


def _message(unit: Unit) -> str:
    return f"{work_subject(unit.title)}\n\nSf-Unit: {unit.id}\n"


async def _keep_unmerged(desk: Desk, unit: Unit, head: str, worktree: Worktree) -> None:
    """A finished unit whose workflow does not merge leaves its branch in the user's repository."""
    workshop = desk.workshop
    if _merges(desk, unit) or not unit.succeeded or unit.branch is None or unit.type == "milestone":
        return
    judged = runs.last_tree(desk.database.read, unit.id) if unit.type == "task" else None
    await worktree.commit(_message(unit), tree=judged)
    tip = await worktree.head()
    if not await workshop.owned.is_ancestor(tip, head):
        await _keep_branch(desk, unit, unit.branch, tip)


async def _keep_branch(desk: Desk, unit: Unit, branch: str, tip: str) -> None:
    """Give a commit a branch in the user's repository, by another name where the first cannot be had."""
    # A branch `sf` of the user's may be in the way of `sf/…`, or one of this name with work of their own.
    names = [branch, branch.replace("/", "-"), *(f"{branch}-{number}" for number in range(2, _NAMES))]
    for name in names:
        try:
            await desk.workshop.user.keep_branch(name, tip, desk.workshop.owned)
            return
        except (GitFailed, BadUsage, CheckoutBusy) as error:
            desk.log.info("branch not taken", unit_id=unit.id, unit_type=unit.type, error=error.line())
            if name == names[-1]:
                raise


async def _post_unit(desk: Desk, unit: Unit) -> None:
    verdict: Told = "canceled" if unit.verdict is None else unit.verdict
    desk.announce(events.POST_UNIT, unit.id, verdict=verdict)
    try:
        if desk.hooks.commands("post_unit"):
            told = unit_result(desk, unit, verdict=verdict, error="" if unit.succeeded else unit.hold_detail)
            await unit_hooks.tell(desk, unit, told)
    finally:
        # Named by the unit, so that hooks before and after a restart can be below it.
        desk.tracer.span(
            "unit",
            trace_id=unit.id,
            span_id=unit.id,
            started_at=unit.created_at,
            attrs={"unit_id": unit.id, "verdict": verdict},
        )
