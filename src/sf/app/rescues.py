"""`sf rescue`: work that is not on the branch, found again. Nothing here deletes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

import msgspec

from sf.app.stores import place_of
from sf.app.trust import load_config
from sf.domain.units import Unit
from sf.errors import UnknownRescue
from sf.paths import Project
from sf.store import runs, sessions, units
from sf.store.connection import open_reader
from sf.store.tx import Tx
from sf.workspaces import parked
from sf.workspaces.git import Git
from sf.workspaces.owned import Commit, FileChange, OwnedRepository
from sf.workspaces.repository import UserRepository

T = TypeVar("T")


class Rescue(msgspec.Struct, frozen=True):
    """One piece of work that sf keeps; `at` in UNIX seconds."""

    id: str
    ref: str
    commit: str
    unit_id: str
    title: str
    at: int
    subject: str
    files: int
    landed: bool
    """Whether the integration branch reaches it already."""


class Kept(msgspec.Struct, frozen=True):
    """Everything that is not on the branch."""

    parked: list[Rescue]
    set_aside: list[str]
    """The folders with what was in a worktree and no commit can hold, such as a repository inside it."""
    due: list[str] = []
    """Units that ended without success, whose work an autopilot has yet to park."""


class Shown(msgspec.Struct, frozen=True):
    """A piece of work with its commits, newest first, and its changed files."""

    rescue: Rescue
    commits: list[Commit]
    changes: list[FileChange]


class Restored(msgspec.Struct, frozen=True):
    """The branch that was made."""

    branch: str
    commit: str
    subject: str


class _Shelf(msgspec.Struct, frozen=True):
    read: Tx
    user: UserRepository
    owned: OwnedRepository
    by_stem: dict[str, Unit]


def listed(project: Project, *, runs: bool = False) -> Kept:
    """Everything kept; with `runs`, also the snapshots with changes of units that did not succeed."""
    nothing: list[Rescue] = []
    found = _at_shelf(project, nothing, lambda shelf: _listed(shelf, with_runs=runs))
    aside = sorted(project.aside.iterdir()) if project.aside.is_dir() else []
    return Kept(found, [str(folder) for folder in aside], _due(project))


def _due(project: Project) -> list[str]:
    """The units whose own worktree is still to be wound up."""
    ended = units.to_wind_up(open_reader(place_of(project)))
    return [unit.id for unit in ended if unit.branch and unit.base_commit and not unit.succeeded]


def shown(project: Project, wanted: str) -> Shown:
    """One piece of work, by its id or the beginning of it. Raises UnknownRescue."""

    async def work(shelf: _Shelf) -> Shown:
        item, unit = await _find(shelf, wanted)
        return Shown(
            await _rescue(shelf, item, unit),
            await parked.commits(shelf.owned, item),
            await parked.changes(shelf.owned, item),
        )

    return _at_shelf(project, None, work) or _unknown(wanted)


def restore(project: Project, wanted: str, branch: str | None = None) -> Restored:
    """Make a branch of a piece of work in the user's repository; the checkout stays. Raises UnknownRescue."""

    async def work(shelf: _Shelf) -> Restored:
        item, _ = await _find(shelf, wanted)
        kind = "rescue" if item.ref.startswith(parked.RESCUES) else "run"
        name = branch or f"{kind}-{item.name}"
        # What the user's repository lacks is sent along, and it may lack more than it did.
        await shelf.owned.follow_grafts()
        await shelf.user.keep_branch(name, item.commit.id, shelf.owned, only_new=True)
        return Restored(name, item.commit.id, item.commit.subject)

    return _at_shelf(project, None, work) or _unknown(wanted)


def _unknown(wanted: str) -> NoReturn:
    raise UnknownRescue(f"nothing is parked as {wanted!r}", hint="sf rescue list --runs shows what is there")


def _at_shelf(project: Project, nothing: T, work: Callable[[_Shelf], Awaitable[T]]) -> T:
    """Work with sf's own repository; `nothing` when there is none yet."""
    load_config(project)
    if not project.repository.exists():
        return nothing
    read = open_reader(place_of(project))
    every = units.listed(read, archived=True, most=1_000_000)
    by_stem = {parked.stem(unit.branch): unit for unit in every if unit.branch}
    return asyncio.run(_opened(project, read, by_stem, work))


async def _opened(
    project: Project, read: Tx, by_stem: dict[str, Unit], work: Callable[[_Shelf], Awaitable[T]]
) -> T:
    git = Git()
    user = await UserRepository.open(project.root, project.facade, git)
    owned = OwnedRepository.as_it_is(project.repository, user, git)
    return await work(_Shelf(read, user, owned, by_stem))


async def _listed(shelf: _Shelf, *, with_runs: bool) -> list[Rescue]:
    found = []
    for name in await parked.names(shelf.owned, parked.RESCUES):
        unit = shelf.by_stem.get(parked.stem_of(name))
        item = await parked.look(shelf.owned, parked.RESCUES, name, await _origin(shelf, unit))
        if item is not None:
            found.append(await _rescue(shelf, item, unit))
    for name in await parked.names(shelf.owned, parked.RUNS) if with_runs else []:
        unit = _unit_of_run(shelf.read, name)
        item = await parked.look(shelf.owned, parked.RUNS, name, None)
        if item is not None and not (unit and unit.completed):
            snapshot = await _rescue(shelf, item, unit)
            found += [snapshot] if snapshot.files else []
    return found


async def _find(shelf: _Shelf, wanted: str) -> tuple[parked.Parked, Unit | None]:
    """A parked ref by the beginning of its name, else a run's snapshot by the beginning of its id."""
    short = wanted.removeprefix(parked.RESCUES).removeprefix(parked.RUNS)
    for prefix in (parked.RESCUES, parked.RUNS):
        present = await parked.names(shelf.owned, prefix)
        begins = [name for name in present if name == short] or [
            name for name in present if short and name.startswith(short)
        ]
        if len(begins) > 1:
            raise UnknownRescue(f"several begin with {wanted!r}: {', '.join(begins[:5])}")
        if begins:
            return await _looked(shelf, prefix, begins[0])
    return _unknown(wanted)


async def _looked(shelf: _Shelf, prefix: str, name: str) -> tuple[parked.Parked, Unit | None]:
    is_run = prefix == parked.RUNS
    unit = _unit_of_run(shelf.read, name) if is_run else shelf.by_stem.get(parked.stem_of(name))
    item = await parked.look(shelf.owned, prefix, name, None if is_run else await _origin(shelf, unit))
    return (item, unit) if item is not None else _unknown(name)


async def _rescue(shelf: _Shelf, item: parked.Parked, unit: Unit | None) -> Rescue:
    branch = _branch(shelf.read, unit)
    return Rescue(
        id=item.name,
        ref=item.ref,
        commit=item.commit.id,
        unit_id=unit.id if unit else "",
        title=unit.title if unit else "",
        at=item.commit.committed_at,
        subject=item.commit.subject,
        files=len(await parked.changes(shelf.owned, item)),
        landed=bool(branch) and await shelf.user.contains(branch, item.commit.id),
    )


def _unit_of_run(read: Tx, run_id: str) -> Unit | None:
    run = runs.get(read, run_id)
    return units.find(read, run.unit_id) if run else None


def _branch(read: Tx, unit: Unit | None) -> str:
    session = sessions.current(read)
    planned = unit.metadata.get("integration_branch") if unit else None
    return str(planned or (session["integration_branch"] if session else "") or "")


async def _origin(shelf: _Shelf, unit: Unit | None) -> str | None:
    """What a unit's work is measured against: the integration head if it is here, else where it began."""
    branch = _branch(shelf.read, unit)
    head = await shelf.user.branch_commit(branch) if branch else None
    if head is not None and await shelf.owned.holds(head):
        return head
    return unit.base_commit if unit else None
