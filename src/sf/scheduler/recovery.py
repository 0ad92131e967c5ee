"""Starting after a crash: nothing is replayed; what was running is interrupted and dispatched afresh."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from collections.abc import Mapping
from types import MappingProxyType

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.runs import Lease
from sf.domain.units import Status, Unit
from sf.harness import lifecycle, settle
from sf.harness.desk import Desk
from sf.harness.rules import Rules
from sf.harness.settle import Ending
from sf.policy import orphans, scratch
from sf.scheduler import closing, housekeeping, landed
from sf.store import leases, records, runs, units
from sf.store.tx import Tx
from sf.workspaces.worktree import Remains, discard, remove_folder


async def recover(desk: Desk) -> list[str]:
    """Bring the project into a state from which the loop can go on; the ids that were interrupted."""
    found = leases.stranded(desk.database.read, desk.station, socket.gethostname(), desk.clock.now())
    live = await _end_processes(desk, [*found, *leases.canceled_with_claim(desk.database.read, desk.station)])
    stale = desk.workshop.owned.clear_locks()
    if stale:
        desk.log.warning("locks of killed git processes removed", locks=", ".join(stale))
    rules, now = desk.rules, desk.clock.now()
    merged = await _merged_though_called_off(desk)
    await desk.database.write(lambda tx: interrupt_all(tx, desk.station, rules, now, merged))
    for unit_id in merged:
        detail = f"it was merged before it was called off, and counts as done: sf revert {unit_id}"
        desk.announce(events.WARNING, unit_id, detail=detail, log=True)
    for unit in found:
        desk.log.warning("unit interrupted", unit_id=unit.id, unit_type=unit.type, phase=unit.phase.value)
    await _end_given_up(desk)
    await _remove_leftovers(desk)
    await _remove_scratch(desk, live)
    _archive(desk)
    return [unit.id for unit in found]


async def _merged_though_called_off(desk: Desk) -> dict[str, str]:
    """The commits of units that were called off after a merge that was killed had moved the branch."""
    called_off = leases.canceled_with_claim(desk.database.read, desk.station)
    commits = {unit.id: await landed.by_killed_merge(desk.workshop, unit) for unit in called_off}
    return {unit_id: commit for unit_id, commit in commits.items() if commit}


def _archive(desk: Desk) -> None:
    """Startup cleanup: what lies in `.sf/active` of units that ended. What cannot be moved stops nobody."""
    try:
        moved = housekeeping.archive_ended(desk)
    except OSError as error:
        told = f"artifacts of ended units stay in {desk.project.dot / 'active'}: {error}"
        desk.log.warning(told)
        desk.announce(events.WARNING, detail=told)
        return
    for unit_id in moved:
        desk.log.info("artifacts of an ended unit archived", unit_id=unit_id, unit_type=unit_id.split("/")[0])


async def _end_given_up(desk: Desk) -> None:
    """End what was called off in a folder of which nothing is heard any more: anyone may."""
    rules, now = desk.rules, desk.clock.now()
    for unit in await desk.database.write(lambda tx: end_given_up(tx, desk.station, rules, now)):
        told = f"ended for {unit.station}, of which nothing is heard: its worktree, if any, is there"
        desk.log.warning("unit called off", unit_id=unit.id, unit_type=unit.type, detail=told)
        desk.announce(events.WARNING, unit.id, detail=told)


async def _end_processes(desk: Desk, found: list[Unit]) -> list[str]:
    """End what the units' runs and the hooks that a killed sf was waiting for left running; the runs' ids.

    Before anything else is touched: what still writes would undo it, or stand in its way.
    """
    read = desk.database.read
    live = [run.id for unit in found if (run := runs.live_of_unit(read, unit.id))]
    hooks = orphans.left_noted(desk.hooks.notes)
    marks = [*map(orphans.run_mark, live), *(orphans.hook_mark(str(note)) for note in hooks)]
    ended = await asyncio.to_thread(orphans.end, marks)
    if ended:
        desk.log.warning("processes of interrupted runs and hooks ended", count=ended)
    for note in hooks:
        # One that stays names nobody any more.
        with contextlib.suppress(OSError):
            note.unlink()
    return live


async def _remove_leftovers(desk: Desk) -> None:
    """What a killed process was filling: checkouts for the proof of a merge, other folders, small files."""
    for index in (desk.workshop.owned.git_dir / "worktrees").glob("merge-*.index"):
        index.unlink()
    beside = desk.project.repository.parent.glob(f".{desk.project.key}.folder.*.new")
    for file in [*desk.project.runtime.glob(".*.new"), *beside]:
        file.unlink(missing_ok=True)
    await asyncio.to_thread(shutil.rmtree, desk.project.committed_gates, ignore_errors=True)
    if desk.project.worktrees.is_dir():
        for folder in [*desk.project.worktrees.glob("merge-*"), *desk.project.worktrees.glob(".*")]:
            try:
                await remove_folder(desk.workshop.owned, folder)
            except OSError as error:
                desk.log.warning("leftover kept", folder=str(folder), error=str(error))
                desk.announce(events.WARNING, detail=f"{folder} cannot be removed: {error}")
        await _put_away_again(desk)


async def _remove_scratch(desk: Desk, live: list[str]) -> None:
    """The temporary folders of runs that were cut short, or could not remove theirs."""
    for run_id, folder in scratch.left():
        run = runs.get(desk.database.read, run_id)
        if run is None or (run.ended_at is None and run_id not in live):
            continue
        try:
            await asyncio.to_thread(discard, folder)
        except OSError as error:
            # `sf clean` will try again; nothing of it is needed.
            desk.log.warning("temporary folder kept", folder=str(folder), error=str(error))


async def _put_away_again(desk: Desk) -> None:
    """Worktrees of units that ended, left because something failed when they were wound up."""
    remains = Remains.below(desk.workshop.owned, desk.project.worktrees)
    if not remains:
        return
    still_due = {unit.id for unit in units.to_wind_up(desk.database.read, desk.station)}
    for unit in units.listed(desk.database.read, archived=True, most=1_000_000):
        if unit.terminal and unit.id not in still_due and desk.workshop.folder(unit) in remains:
            await closing.put_away(desk, unit)


def interrupt_all(
    tx: Tx, station: str, rules: Rules, now: Instant, merged: Mapping[str, str] = MappingProxyType({})
) -> None:
    """End every run of a station that a row still speaks of: at its start nothing runs there yet.

    `merged` are the commits by which units that were called off have landed all the same.
    """
    for unit in leases.stranded(tx, station, socket.gethostname(), now):
        interrupt(tx, unit, rules, now)
    for unit in leases.canceled_with_claim(tx, station):
        _call_off(tx, unit, rules, now, merged.get(unit.id, ""))


def end_given_up(tx: Tx, station: str, rules: Rules, now: Instant) -> list[Unit]:
    """End the called-off runs of other folders whose claim is over; which units."""
    found = leases.given_up(tx, station, now)
    for unit in found:
        _call_off(tx, unit, rules, now)
        # Nobody else will: its hooks and its worktree are of a folder that may be gone.
        units.wound_up(tx, [unit.id], now)
    return found


def sweep(tx: Tx, holder: str, station: str, rules: Rules, now: Instant) -> None:
    """End the runs of other holders at a station whose claim is over."""
    for unit in leases.expired(tx, holder, now, station):
        interrupt(tx, unit, rules, now)


def _call_off(tx: Tx, unit: Unit, rules: Rules, now: Instant, commit: str = "") -> None:
    """End the run of a unit that was called off while it ran, and whose worker is gone.

    What has landed by a commit has landed.
    """
    run = runs.live_of_unit(tx, unit.id)
    if run is None:
        leases.release_claim(tx, unit.id)
        lifecycle.closed(tx, unit, rules, now)
        return
    lease = Lease(unit.id, run.id, unit.attempt, str(unit.claim_holder))
    if not commit:
        settle.settle(tx, lease, o.CalledOff("canceled_by_operator"), Ending(), rules, now)
        return
    if commit not in [row["commit_id"] for row in records.evidence(tx, unit.id)]:
        records.found(tx, lease, "merge", "merged before it was called off", now, commit=commit)
    settle.settle(tx, lease, o.Done("merged before it was called off"), Ending(), rules, now)


def interrupt(tx: Tx, unit: Unit, rules: Rules, now: Instant) -> None:
    """End the run of a unit whose worker is gone."""
    run = runs.live_of_unit(tx, unit.id)
    if unit.status is not Status.RUNNING or unit.claim_holder is None or run is None:
        return
    lease = Lease(unit.id, run.id, unit.attempt, unit.claim_holder)
    settle.settle(tx, lease, o.Crashed(), Ending(), rules, now)
