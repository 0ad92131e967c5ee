"""One run from claim to outcome: workspace, hooks, the work itself, a snapshot. It never changes a phase."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.excerpt import one_line
from sf.domain.phases import WRITING, Phase
from sf.domain.runs import AttemptState, Lease
from sf.domain.units import BRANCH, CURE, HoldKind, Unit
from sf.errors import (
    BranchGone,
    Canceled,
    HookFailed,
    HookTimeout,
    InvalidConfig,
    LeaseLost,
    Mistake,
    ModelUnavailable,
    Paused,
    QuotaWait,
    SandboxUnavailable,
    SfError,
    SpendingReached,
    Unreachable,
    WorkspaceFailed,
)
from sf.harness import artifacts, work
from sf.harness.agent import Agent
from sf.harness.desk import Desk
from sf.harness.hooks import HookType
from sf.harness.notice import hook_variables, unit_payload
from sf.harness.settle import Ending
from sf.harness.workshop import Place
from sf.policy import orphans
from sf.store import leases
from sf.unbroken import to_the_end
from sf.workspaces.refusals import CheckoutBusy

Job = Callable[[Agent], Awaitable[o.AnyOutcome]]


_JUDGING = frozenset({Phase.VERIFY, Phase.REVIEW, Phase.MERGE})
"""Phases that judge what a run before them left in the worktree."""
_SNAPSHOT_TRIES = 2
_PAUSES = (0.2, 1.0)
"""Seconds between the looks for what a run left running, where a look fails."""
_BUSY = 30.0
"""Seconds after which a checkout that was in somebody's hands is looked at again."""


class Finished(msgspec.Struct, frozen=True):
    """How a run ended, and what it leaves for its settlement."""

    outcome: o.AnyOutcome
    ending: Ending


async def attempt(desk: Desk, unit: Unit, lease: Lease, job: Job) -> Finished:
    """Carry out one run. Whatever happens becomes an outcome; only a lost lease is raised."""
    started_at = time.time_ns() // 1_000_000
    progress = _Progress()
    try:
        async with _time_limit(desk, unit):
            outcome = await _carry_out(desk, unit, lease, job, progress)
    except asyncio.CancelledError:
        # Handled here: what follows must be able to time out like any other work.
        _current_task().uncancel()
        outcome = _stopped(desk, lease)
    except LeaseLost:
        raise
    except TimeoutError:
        outcome = o.Failed("unit_timeout", f"{unit.phase} took longer than {_limit(desk, unit):g} s")
    except SfError as error:
        outcome = _from_error(error)
    except Exception as error:  # the boundary of a run: recorded, converted, charged as a try
        desk.log.error("run failed", unit_id=unit.id, unit_type=unit.type, error=traceback.format_exc())
        outcome = o.Failed("internal", f"{type(error).__name__}: {error}")
    # Who is told to stop now has ended already: its outcome is settled as it is.
    return await to_the_end(_wind_down(desk, unit, lease, progress, outcome, started_at))


async def _wind_down(
    desk: Desk, unit: Unit, lease: Lease, progress: _Progress, outcome: o.AnyOutcome, started_at: int
) -> Finished:
    """What follows a run whichever way it ended: nothing lives on, the hook runs, the tree is kept."""
    try:
        await _end_orphans(desk, unit, lease)
    except WorkspaceFailed as error:
        # Nothing may begin where it still writes: the session stops, and nobody is charged.
        outcome = o.Unconfigured(error.code, error.message + (f" ({error.hint})" if error.hint else ""))
    await _after_run(desk, unit, lease, progress)
    tree = await _snapshot(desk, unit, lease, progress.place)
    if progress.agent is not None:
        progress.agent.close()
    _remember(desk, unit, outcome, await _changed(desk, progress.before, tree))
    desk.tracer.span(
        "run",
        trace_id=lease.run_id,
        started_at=started_at,
        attrs={
            "unit_id": unit.id,
            "phase": unit.phase.value,
            "outcome": type(outcome).__name__,
            "tree": tree,
        },
        error=outcome.code if isinstance(outcome, o.Failed) else "",
    )
    return Finished(outcome, Ending(tree=tree, feedback_read=progress.feedback_read))


class _Progress:
    """How far a run came, for what must follow whichever way it ends."""

    place: Place | None = None
    before: str | None = None
    """The tree that a writing run found."""
    hooks_ran = False
    agent: Agent | None = None

    @property
    def feedback_read(self) -> str:
        return self.agent.feedback_read if self.agent else ""


async def _carry_out(desk: Desk, unit: Unit, lease: Lease, job: Job, progress: _Progress) -> o.AnyOutcome:
    desk.announce(events.STATE_CHANGED, unit.id, state=AttemptState.PREPARING_WORKSPACE.value)
    place = await desk.workshop.place(unit, lease)
    progress.place = place
    if place.created:
        desk.announce(events.WORKTREE_CREATE, unit.id, folder=str(place.folder))
    if not place.worktree.is_set_up:
        # Also in one whose hook failed, or was cut off: half a time is not once.
        await run_hook(desk, "after_create", unit, lease, place.folder)
        place.worktree.set_up()
    if unit.phase in _JUDGING:
        kept = await desk.workshop.settle_tree(place, unit)
        if kept:
            tell_undone(desk, unit, "since its last run", kept)
    work.ensure_plan_file(desk, unit)
    progress.hooks_ran = True
    await _run_in_place(desk, "before_run", unit, lease, place)
    if unit.phase in WRITING:
        with contextlib.suppress(SfError):
            progress.before = await place.worktree.snapshot()
    progress.agent = Agent(desk, unit, lease, place)
    return await job(progress.agent)


def tell_undone(desk: Desk, unit: Unit, since: str, kept: str) -> None:
    """Say that what somebody changed in a worktree was undone, and where it is kept."""
    desk.log.warning("changed in its worktree, undone", unit_id=unit.id, unit_type=unit.type, kept=kept)
    told = f"what was changed in its worktree {since} was undone; it is kept as {kept}: sf rescue list"
    desk.announce(events.WARNING, unit.id, detail=told)


async def run_hook(desk: Desk, kind: HookType, unit: Unit, lease: Lease, folder: Path) -> None:
    """Run one of the workspace hooks in a worktree."""
    payload = {"unit": unit_payload(unit), "run_id": lease.run_id, "phase": unit.phase.value}
    await desk.hooks.run(
        kind,
        payload,
        cwd=folder,
        trace_id=lease.run_id,
        variables=hook_variables(desk, unit, lease.run_id, str(folder)),
    )


async def _run_in_place(desk: Desk, kind: HookType, unit: Unit, lease: Lease, place: Place) -> None:
    """A hook where an agent has been: the `.git` is made anew first, for the hook's own git to be safe."""
    if desk.hooks.commands(kind):
        await place.worktree.refresh_agent_git()
        await run_hook(desk, kind, unit, lease, place.folder)


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _limit(desk: Desk, unit: Unit) -> float:
    return float(desk.config.harness.timeout(unit.phase))


def _time_limit(desk: Desk, unit: Unit) -> asyncio.Timeout:
    seconds = _limit(desk, unit)
    return asyncio.timeout(seconds if seconds > 0 else None)


def _stopped(desk: Desk, lease: Lease) -> o.AnyOutcome:
    match desk.stops.get(lease.run_id):
        case "cancel":
            return o.CalledOff("canceled_by_operator")
        case "pause":
            return o.Interrupted("paused")
        case _:
            return o.Interrupted("shutdown")


def _from_error(error: SfError) -> o.AnyOutcome:
    if isinstance(error, QuotaWait):
        return o.Waiting(error.seconds, error.message)
    if isinstance(error, Unreachable):
        return o.Waiting(None, error.message, error.code)
    if isinstance(error, CheckoutBusy):
        return o.Waiting(_BUSY, error.message, error.code)
    if isinstance(error, Paused):
        return o.Interrupted("paused")
    if isinstance(error, SpendingReached):
        return o.Overspent(error.scope, error.key, error.message, error.wanted, error.terms)
    if isinstance(error, Canceled):
        return o.CalledOff(error.code)
    details = [error.hint] if error.hint else []
    if isinstance(error, InvalidConfig):
        details += error.problems
    message = error.message + (f" ({'; '.join(details)})" if details else "")
    if isinstance(error, BranchGone):
        # One goal's branch: the others go on.
        return o.Held(HoldKind.CHECKOUT_DIRTY, error.message, {BRANCH: error.branch, CURE: error.hint})
    if isinstance(error, Mistake | ModelUnavailable | SandboxUnavailable):
        return o.Unconfigured(error.code, message)
    return o.Failed(error.code, message)


async def _end_orphans(desk: Desk, unit: Unit, lease: Lease) -> None:
    """Kill what the run's commands left running: the tree must not change once it is judged.

    Raises WorkspaceFailed where something cannot be ended, or not be looked for.
    """
    if not desk.leaks(unit.phase):
        return
    count = await _ended_marked(orphans.run_mark(lease.run_id))
    if count:
        desk.log.warning("left-over processes ended", unit_id=unit.id, unit_type=unit.type, count=count)


async def _ended_marked(mark: str) -> int:
    """End what bears a mark; a machine that is short of descriptors or memory for a moment is asked again."""
    for pause in _PAUSES:
        with contextlib.suppress(OSError):
            return await asyncio.to_thread(orphans.end, [mark])
        await asyncio.sleep(pause)
    try:
        return await asyncio.to_thread(orphans.end, [mark])
    except OSError as error:
        raise WorkspaceFailed(f"what the run left running cannot be looked for: {error}") from error


async def _snapshot(desk: Desk, unit: Unit, lease: Lease, place: Place | None) -> str | None:
    """Keep the tree as the run left it; a git that was killed or had no room gets a second try."""
    if place is None or unit.phase not in WRITING:
        return None
    for _ in range(_SNAPSHOT_TRIES):
        try:
            return await _keep_tree(desk, unit, lease, place)
        except LeaseLost:
            raise
        except (SfError, OSError) as error:
            desk.log.warning("snapshot failed", unit_id=unit.id, unit_type=unit.type, error=_line(error))
    return None


async def _keep_tree(desk: Desk, unit: Unit, lease: Lease, place: Place) -> str:
    """The worktree's content, untracked files included, now under `refs/sf/runs/`."""
    leases.require_lease(desk.database.read, lease)
    tree = await place.worktree.snapshot()
    tip = await place.worktree.head()
    commit = await desk.workshop.owned.commit_tree(tree, [tip], f"sf: {unit.id} after run {lease.run_id}")
    await desk.workshop.owned.set_ref(f"refs/sf/runs/{lease.run_id}", commit)
    # What the agent wrote into its `.git` must not outlive it: people run git in here too.
    await place.worktree.refresh_agent_git()
    return tree


async def _after_run(desk: Desk, unit: Unit, lease: Lease, progress: _Progress) -> None:
    """Always tried once before_run was; a failure is logged and changes nothing."""
    place = progress.place
    if not progress.hooks_ran or place is None or not desk.hooks.commands("after_run"):
        return
    try:
        judged = await place.worktree.snapshot() if unit.phase in _JUDGING else None
        with contextlib.suppress(HookFailed, HookTimeout):
            await _run_in_place(desk, "after_run", unit, lease, place)
        # What a hook writes beside work that is being judged is not a part of it, nor a person's.
        if judged is not None and await place.worktree.snapshot() != judged:
            await place.worktree.checkout_tree(judged)
    except (SfError, OSError) as error:
        desk.log.warning(
            "after_run not seen to its end", unit_id=unit.id, unit_type=unit.type, error=_line(error)
        )


def _line(error: SfError | OSError) -> str:
    return error.line() if isinstance(error, SfError) else str(error)


async def _changed(desk: Desk, before: str | None, after: str | None) -> str:
    """How much a run changed, in a few words; empty where that is not known."""
    if before is None or after is None:
        return ""
    try:
        changes = await desk.workshop.owned.diff_stat(before, after)
    except (SfError, OSError) as error:
        desk.log.warning("what a run changed is not known", error=_line(error))
        return ""
    if not changes:
        return "no file changed"
    added, deleted = (sum(getattr(each, kind) or 0 for each in changes) for kind in ("added", "deleted"))
    return f"{len(changes)} file{'s' * (len(changes) > 1)}, +{added} −{deleted}"


def _remember(desk: Desk, unit: Unit, outcome: o.AnyOutcome, changed: str) -> None:
    ended = type(outcome).__name__ + (f" ({changed})" if changed else "")
    said = _said(outcome)
    line = f"- run {unit.attempt}, {unit.phase}: {ended}" + (f" — {said}" if said else "")
    try:
        artifacts.append_line(desk.project, unit.id, artifacts.ATTEMPTS, line)
    except OSError as error:
        # What the run has done counts all the same.
        desk.log.warning("run not noted", unit_id=unit.id, unit_type=unit.type, error=str(error))


def _said(outcome: o.AnyOutcome) -> str:
    match outcome:
        case o.Failed(code=code, message=message):
            return one_line(f"{code}: {message}", 200)
        case o.GateFailed(gate=gate):
            return f"gate {gate}"
        case o.ChangesWanted(findings=text) | o.GaveUp(reason=text):
            return one_line(text, 200)
        case o.WentStale(detail=text) | o.Conflict(detail=text) | o.Waiting(message=text):
            return one_line(text, 200)
        case o.Held(kind=kind):
            return kind.value
        case _:
            return ""
