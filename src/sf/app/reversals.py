"""A revert under way: noted before its branch moves, so that whoever comes after a crash records it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from sf import files
from sf.domain.clock import Instant
from sf.domain.units import Unit
from sf.harness import artifacts, reversion
from sf.harness.reversion import Reverted
from sf.harness.rules import Rules
from sf.harness.workshop import Workshop
from sf.paths import Project
from sf.store import records, units
from sf.store.database import Database
from sf.store.tx import Tx

_PREFIX = "revert-"


class Reversal(msgspec.Struct, frozen=True):
    """What is to be recorded once a branch has the commit `tip`."""

    unit_id: str
    created_at: int
    """Of the unit: another one may have its id in another store."""
    branch: str
    old: str
    tip: str
    tree: str
    reverted: list[Reverted]


class Found(msgspec.Struct, frozen=True):
    """What became of a noted revert: the units that are no longer done, and the folders that came back."""

    unit_id: str
    told: str
    """For a person who did not see it end."""
    marked: list[str] = []
    restored: list[str] = []


def note(project: Project, reversal: Reversal) -> None:
    """Keep what is about to be landed, durably."""
    project.runtime.mkdir(parents=True, exist_ok=True)
    name = f"{_PREFIX}{reversal.unit_id.replace('/', '_')}-{reversal.created_at}.json"
    files.put(project.runtime / name, msgspec.json.encode(reversal), sync=True)


def drop(project: Project, unit: Unit) -> None:
    """Forget what was noted of a unit, durably: one that came back would be recorded a second time."""
    for file, each in _notes(project).items():
        if (each.unit_id, each.created_at) == (unit.id, unit.created_at):
            file.unlink()
            files.sync_path(project.runtime)


def noted(project: Project) -> list[Reversal]:
    """What was noted and neither recorded nor dropped; one whose writing was cut off is nothing."""
    return list(_notes(project).values())


def _notes(project: Project) -> dict[Path, Reversal]:
    """What was noted, by the file it is in: earlier versions named those otherwise."""
    found = {}
    for file in sorted(project.runtime.glob(f"{_PREFIX}*.json")):
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            found[file] = msgspec.json.decode(file.read_bytes(), type=Reversal)
    return found


async def finish(
    project: Project, database: Database, workshop: Workshop, rules: Rules, now: Instant
) -> list[Found]:
    """Record the reverts that were noted and have landed; what there is to tell.

    One whose branch is not there for the moment, or whose unit is in another store, stays noted.
    """
    found = [await _finish(project, database, workshop, each, rules, now) for each in noted(project)]
    return [each for each in found if each is not None]


async def _finish(
    project: Project, database: Database, workshop: Workshop, reversal: Reversal, rules: Rules, now: Instant
) -> Found | None:
    unit = units.find(database.read, reversal.unit_id)
    if unit is None or unit.created_at != reversal.created_at:
        return None
    head = await workshop.user.branch_commit(reversal.branch)
    if head is None:
        told = f"its revert was cut off, and the branch {reversal.branch} is gone"
        return Found(unit.id, f"{told}: it is recorded once that is back")
    if await workshop.user.contains(reversal.branch, reversal.tip):
        found = await _record(project, database, unit, reversal, rules, now)
    elif head == reversal.old:
        found = None
    else:
        told = f"its revert was cut off, and {reversal.branch} has moved on without {reversal.tip[:12]}"
        found = Found(unit.id, f"{told}: if that was undone or reworded, sf revert {unit.id} looks again")
    drop(project, unit)
    return found


async def _record(
    project: Project, database: Database, unit: Unit, reversal: Reversal, rules: Rules, now: Instant
) -> Found:
    folders = [artifacts.restore(project, item.id) for item in reversion.affected(database.read, unit)]

    def write(tx: Tx) -> list[str]:
        before = {row["commit_id"] for row in records.evidence(tx, unit.id) if row["kind"] == "revert"}
        is_recorded = any(step.by in before for step in reversal.reverted if step.by)
        if is_recorded or units.get(tx, unit.id).reverted_at is not None:
            return []
        return reversion.record(tx, unit, reversal.reverted, reversal.tree, rules, now)

    marked = await database.write(write)
    told = "its revert was cut off after it had landed, and is recorded now"
    return Found(unit.id, told, marked, [str(folder) for folder in folders if folder is not None])
