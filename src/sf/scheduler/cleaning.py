"""`sf clean`: what is due to be tidied away, each as a step that is shown first and carried out after.

A step moves, parks or packs. What it removes is whole somewhere else, or was told to go by the operator.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path

from sf.domain.clock import Instant
from sf.domain.sizes import told
from sf.domain.units import Unit
from sf.harness import artifacts
from sf.observe import disk, trace
from sf.paths import Project
from sf.policy import scratch
from sf.scheduler import courier, leftovers
from sf.scheduler.leftovers import RUN_REFS, Leftovers
from sf.store import compacting, knowledge, records, relations, runs, sessions, units
from sf.store.connection import transact
from sf.store.place import Place
from sf.store.tx import Tx
from sf.workspaces import packing, rescue
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository
from sf.workspaces.worktree import Worktree, clear_place, discard

KEPT_DAYS = 30
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Step:
    """One thing to tidy: what would be done, to what, how many bytes it is about, and the doing of it."""

    what: str
    subject: str
    size: int
    act: Callable[[], Awaitable[str]]
    """Carries it out; what there is to add, such as where something is kept now."""


@dataclass(frozen=True)
class Premises:
    """Where is tidied, and as of when."""

    project: Project
    read: Tx
    place: Place
    user: UserRepository
    owned: OwnedRepository | None
    now: Instant
    keep_archive: float = 0.0
    """Seconds; 0 is for ever."""

    @property
    def today(self) -> date:
        """The day of the instant."""
        return datetime.fromtimestamp(self.now / 1000, UTC).date()


async def steps(at: Premises) -> list[Step]:
    """Everything that is due, in the order in which it is to be done; nothing is changed."""
    found = await leftovers.find(at.project, at.read, at.owned)
    due = [*_traces(at), *_archive(at), *_lessons(at), *_temporary(at, found), *_active(at, found)]
    if at.owned is not None:
        heads = await _heads(at, at.owned)
        due += [*_worktrees(at, at.owned, found, heads), *await _refs(at.owned, found, heads)]
        forgotten = await _snapshots(at, at.owned, heads)
        due += [*forgotten, *await _packs(at.owned, always=bool(forgotten))]
    return [*due, *_database(at)]


def _step(what: str, path: Path, act: Callable[[], Awaitable[str]]) -> Step:
    return Step(what, str(path), disk.size(path)[0], act)


def _traces(at: Premises) -> list[Step]:
    target = at.project.dot / "archive" / "trace"

    async def move(file: Path) -> str:
        return f"now {trace.rotate(file, target)}"

    old = trace.older(at.project.trace, at.today - timedelta(days=KEPT_DAYS))
    return [_step("archive trace", file, partial(move, file)) for file in old]


def _archive(at: Premises) -> list[Step]:
    """Entries of the archive that the operator no longer keeps."""
    if not at.keep_archive:
        return []
    folder = at.project.dot / "archive"
    lain = [(path, _named_day_ended(path)) for path in sorted(folder.glob("*"))]
    # A trace is named after the day that it is of; it was moved here later.
    lain += [(path, path.stat().st_ctime) for path in sorted((folder / "trace").glob("*"))]
    return [
        _step("remove archived", path, _discarding(path))
        for path, since in lain
        if at.now / 1000 - since > at.keep_archive
    ]


def _named_day_ended(path: Path) -> float:
    """When the day was over that an entry is named after; one that names none was never put there by sf."""
    day = trace.day_of(path.name)
    return datetime.combine(day + timedelta(days=1), time.min, UTC).timestamp() if day else math.inf


def _lessons(at: Premises) -> list[Step]:
    """Lessons that the memory has not taken for a week."""
    old = knowledge.older(at.read, at.now - courier.LOST_AFTER_MS, at.project.key)

    async def act() -> str:
        file = courier.archive_lost(at.project, old)
        transact(at.place, lambda tx: courier.give_up(tx, old))
        return f"now {file}"

    return [Step("archive lessons", f"{len(old)} that nobody took", 0, act)] if old else []


def _discarding(path: Path) -> Callable[[], Awaitable[str]]:
    async def act() -> str:
        await asyncio.to_thread(discard, path)
        return ""

    return act


def _temporary(at: Premises, found: Leftovers) -> list[Step]:
    """What killed processes were filling: checkouts of commits, and temporary folders of ended runs."""
    ended = [path for run_id, path in scratch.left() if (run := runs.get(at.read, run_id)) and run.ended_at]
    return [_step("remove leftover", path, _discarding(path)) for path in (*found.temporary, *ended)]


def _active(at: Premises, found: Leftovers) -> list[Step]:
    async def move(path: Path) -> str:
        return f"now {artifacts.archive_folder(at.project, path, at.now)}"

    return [_step("archive", path, partial(move, path)) for path in found.active]


async def _heads(at: Premises, owned: OwnedRepository) -> dict[str, str]:
    """The integration branches that exist, and their newest commits, present in sf's own repository."""
    session = sessions.current(at.read)
    names = {str(session["integration_branch"])} if session and session["integration_branch"] else set()
    known = units.listed(at.read, archived=True, most=1_000_000)
    names |= {str(unit.metadata["integration_branch"]) for unit in known if _branch(unit)}
    heads = {}
    for name in sorted(names):
        commit = await at.user.branch_commit(name)
        if commit is not None:
            await owned.fetch(commit)
            heads[name] = commit
    return heads


def _branch(unit: Unit) -> str:
    return str(unit.metadata.get("integration_branch") or "")


def _worktrees(at: Premises, owned: OwnedRepository, found: Leftovers, heads: dict[str, str]) -> list[Step]:
    async def put_away(unit_id: str, folder: Path) -> str:
        unit = units.get(at.read, unit_id)
        # With no branch of the user's to hold it against, whatever the unit added is work to keep.
        head = heads.get(_branch(unit)) or next(iter(heads.values()), unit.base_commit)
        if unit.branch and head and await owned.ref(f"refs/heads/{unit.branch}"):
            parked = await Worktree(owned, folder, unit.branch).remove(landed_in=head)
            return f"its work is under {parked}" if parked else ""
        return await park(folder)

    async def park(path: Path) -> str:
        return f"now under {await clear_place(owned, path)}"

    ended = [
        _step(f"remove worktree of {name}", path, partial(put_away, name, path)) for name, path in found.ended
    ]
    return [*ended, *(_step("park and remove", path, partial(park, path)) for path in found.unknown)]


async def _refs(owned: OwnedRepository, found: Leftovers, heads: dict[str, str]) -> list[Step]:
    """Refs of no unit: deleted when a branch of the user's holds them, else kept under another name."""

    async def drop(name: str, value: str) -> str:
        for head in heads.values():
            if await owned.is_ancestor(value, head):
                await owned.delete_ref(name, value)
                return "merged already"
        return f"now {await rescue.park_ref(owned, name, value)}"

    due = []
    for name in found.refs:
        value = await owned.ref(name)
        if value is not None:
            due.append(Step("park ref", name, 0, partial(drop, name, value)))
    return due


async def _snapshots(at: Premises, owned: OwnedRepository, heads: dict[str, str]) -> list[Step]:
    """Snapshots of the runs of units that landed long ago."""
    before = at.now - KEPT_DAYS * _DAY_MS
    verdicts: dict[str, bool] = {}
    old: dict[str, str] = {}
    for name, value in (await owned.refs(RUN_REFS)).items():
        run = runs.get(at.read, name.removeprefix(RUN_REFS))
        if run is None:
            continue
        if run.unit_id not in verdicts:
            unit = units.get(at.read, run.unit_id)
            verdicts[run.unit_id] = (unit.archived_at or at.now) < before and await _landed(
                at.read, owned, unit, heads
            )
        if verdicts[run.unit_id]:
            old[name] = value

    async def prune() -> str:
        for name, value in old.items():
            await owned.delete_ref(name, value)
        return ""

    return [Step("forget snapshots of", f"{len(old)} run(s) that landed", 0, prune)] if old else []


async def _landed(read: Tx, owned: OwnedRepository, unit: Unit, heads: dict[str, str]) -> bool:
    """Whether a unit and its container succeeded, and the commits are in the branch they were made for."""
    head = heads.get(_branch(unit))
    above = units.find(read, unit.parent_id or "")
    if not unit.succeeded or head is None or (above is not None and not above.succeeded):
        return False
    holders = [unit, *([above] if unit.in_slice and above is not None else [])]
    if unit.type == "milestone":
        holders = [child for child in relations.children(read, unit.id) if child.succeeded]
    for holder in holders:
        commits = [row["commit_id"] for row in records.evidence(read, holder.id) if row["kind"] == "merge"]
        reached = [
            commit and await owned.holds(commit) and await owned.is_ancestor(commit, head)
            for commit in commits
        ]
        if not commits or not all(reached):
            return False
    return bool(holders)


async def _packs(owned: OwnedRepository, *, always: bool) -> list[Step]:
    async def repack() -> str:
        before = disk.size(owned.git_dir, own=True)[0]
        await packing.repack(owned, f"{KEPT_DAYS}.days.ago")
        return f"{told(before)} before, {told(disk.size(owned.git_dir, own=True)[0])} now"

    size = await packing.loose(owned)
    return [Step("pack", str(owned.git_dir), size, repack)] if size or always else []


def _database(at: Premises) -> list[Step]:
    place = at.place
    if not isinstance(place, Path):
        return []

    async def vacuum() -> str:
        await asyncio.to_thread(compacting.vacuum, place)
        return ""

    size = compacting.spare(place)
    return [Step("vacuum", str(place), size, vacuum)] if size else []
