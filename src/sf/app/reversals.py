"""A revert under way: noted before its branch moves, so that whoever comes after a crash records it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from sf import files
from sf.domain.clock import Instant
from sf.harness import artifacts, reversion
from sf.harness.reversion import Reverted
from sf.harness.rules import Rules
from sf.harness.workshop import Workshop
from sf.paths import Project
from sf.store import records, units
from sf.store.database import Database
from sf.store.tx import Tx

_FILE = "revert.json"


class Reversal(msgspec.Struct, frozen=True):
    """What is to be recorded once a branch has the commit `tip`."""

    unit_id: str
    branch: str
    tip: str
    tree: str
    reverted: list[Reverted]


class Recorded(msgspec.Struct, frozen=True):
    """What was recorded: the units that are no longer done, and the folders that came back."""

    unit_id: str
    marked: list[str]
    restored: list[str]


def note(project: Project, reversal: Reversal) -> None:
    """Keep what is about to be landed, durably."""
    project.runtime.mkdir(parents=True, exist_ok=True)
    files.put(_file(project), msgspec.json.encode(reversal), sync=True)


def drop(project: Project) -> None:
    """Forget what was not landed."""
    _file(project).unlink(missing_ok=True)


async def finish(
    project: Project, database: Database, workshop: Workshop, rules: Rules, now: Instant
) -> Recorded | None:
    """Record a revert that was noted and has landed; None for one that has not, or none at all."""
    noted = _read(project)
    unit = units.find(database.read, noted.unit_id) if noted else None
    recorded = None
    if noted and unit and await workshop.user.contains(noted.branch, noted.tip):
        folders = [artifacts.restore(project, item.id) for item in reversion.affected(database.read, unit)]

        def write(tx: Tx) -> list[str]:
            before = {row["commit_id"] for row in records.evidence(tx, unit.id) if row["kind"] == "revert"}
            if any(step.by in before for step in noted.reverted if step.by):
                return []
            return reversion.record(tx, unit, noted.reverted, noted.tree, rules, now)

        marked = await database.write(write)
        recorded = Recorded(unit.id, marked, [str(folder) for folder in folders if folder is not None])
    drop(project)
    return recorded


def _read(project: Project) -> Reversal | None:
    with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
        return msgspec.json.decode(_file(project).read_bytes(), type=Reversal)
    return None


def _file(project: Project) -> Path:
    return project.runtime / _FILE
