"""What lies about that no unit needs any more: folders, refs and artifacts, found and only looked at."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sf.domain.ids import branch_name, folder_name
from sf.domain.units import Unit
from sf.paths import Project
from sf.store import runs, units
from sf.store.tx import Tx
from sf.workspaces.owned import OwnedRepository

RUN_REFS = "refs/sf/runs/"


class Leftovers(msgspec.Struct, frozen=True):
    """What was found; `ended` and `temporary` are put away by the next start too, the rest by nobody else."""

    ended: tuple[tuple[str, Path], ...] = ()
    """Worktrees of units that were wound up: (unit id, folder)."""
    temporary: tuple[Path, ...] = ()
    """Folders and files that a killed process was filling."""
    unknown: tuple[Path, ...] = ()
    """What lies among the worktrees and belongs to no unit."""
    refs: tuple[str, ...] = ()
    """Branches of no unit, and snapshots of no run, in sf's own repository."""
    active: tuple[Path, ...] = ()
    """Artifacts of units that were wound up and not reverted since, or of no unit."""

    def told(self) -> list[str]:
        """What nobody but `sf clean` puts away, in words."""
        groups = (("thing(s) among the worktrees", self.unknown), ("ref(s)", self.refs))
        return [f"{len(found)} {word} of no unit: {found[0]}" for word, found in groups if found]


async def find(project: Project, read: Tx, owned: OwnedRepository | None) -> Leftovers:
    """Look at everything below sf's home and `.sf/active`; nothing is changed."""
    known = units.listed(read, archived=True, most=1_000_000)
    due = {unit.id for unit in known if not unit.terminal} | {unit.id for unit in units.to_wind_up(read)}
    # A unit that was called off and whose run has not ended yet is neither open nor to be wound up.
    due |= {unit.id for unit in known if unit.claim_holder or unit.archived_at is None}
    ended, unknown, temporary = _worktrees(project, known, due)
    temporary += _half_made(project)
    return Leftovers(
        ended=tuple(ended),
        temporary=tuple(temporary),
        unknown=tuple(unknown),
        refs=tuple(await _refs(read, owned, known)) if owned is not None else (),
        active=tuple(_active(project, due | {unit.id for unit in known if unit.reverted_at is not None})),
    )


def _worktrees(
    project: Project, known: list[Unit], due: set[str]
) -> tuple[list[tuple[str, Path]], list[Path], list[Path]]:
    names = {folder_name(unit.id): unit.id for unit in known}
    ended, unknown, temporary = [], [], []
    for path in _entries(project.worktrees):
        if path.name.startswith((".", "merge-")):
            temporary.append(path)
        elif path.name not in names:
            unknown.append(path)
        elif names[path.name] not in due:
            ended.append((names[path.name], path))
    return ended, unknown, temporary


def _half_made(project: Project) -> list[Path]:
    """A repository that was being built beside its place, and indexes of proofs that were cut short."""
    half = project.repository.parent.glob(f".{project.repository.name}.*")
    return sorted([*half, *(project.repository / "worktrees").glob("merge-*.index*")])


def _active(project: Project, needed: set[str]) -> list[Path]:
    kept = {folder_name(unit_id) for unit_id in needed}
    return [path for path in _entries(project.dot / "active") if path.name not in kept]


def folder_owners(project: Project, read: Tx) -> list[Unit]:
    """The units that have a folder in `.sf/active`."""
    found = (units.find(read, path.name.replace("_", "/")) for path in _entries(project.dot / "active"))
    return [unit for unit in found if unit is not None]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder))
    except OSError:
        return []


async def _refs(read: Tx, owned: OwnedRepository, known: list[Unit]) -> list[str]:
    branches = {f"refs/heads/{unit.branch or branch_name(unit.id, unit.title)}" for unit in known}
    lost = [name for name in await owned.refs("refs/heads/") if name not in branches]
    for name in await owned.refs(RUN_REFS):
        run_id = name.removeprefix(RUN_REFS)
        if runs.get(read, run_id) is None:
            lost.append(name)
    return sorted(lost)
