"""`sf revert`: what would be undone is looked up and shown, then done as commits on the user's branch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from sf.app import reversals, stores, witnesses
from sf.app.intake import rules_of
from sf.app.logs import log_of
from sf.app.reconciling import Survey, survey_unit
from sf.app.reversals import Found, Reversal
from sf.app.trust import load_config
from sf.config.schema import Config
from sf.domain.clock import SystemClock
from sf.domain.events import Event
from sf.domain.ids import full_id
from sf.domain.queue import standing
from sf.domain.reverting import revert_message
from sf.domain.units import Unit
from sf.errors import WrongState
from sf.harness.reversion import Reverted
from sf.harness.workshop import Workshop
from sf.paths import Project, identify
from sf.scheduler import lock
from sf.store import units
from sf.store.connection import open_reader
from sf.store.database import Database
from sf.store.place import Place
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.refusals import BranchMoved
from sf.workspaces.repository import UserRepository
from sf.workspaces.reversal import reverse

__all__ = ["Candidate", "Survey", "Undone", "candidates", "carry_out", "survey"]

T = TypeVar("T")
_SHOWN = 3


class Candidate(msgspec.Struct, frozen=True):
    """A unit that a person may want to revert."""

    unit_id: str
    title: str
    standing: str


class Undone(msgspec.Struct, frozen=True):
    """What a revert did."""

    unit_id: str
    branch: str
    old: str
    new: str
    reverted: list[Reverted]
    marked: list[str]
    """Units that are no longer done."""
    restored: list[str]
    """Folders that came back from the archive."""
    next: str


class _Bench(msgspec.Struct, frozen=True):
    """What a revert works with, the project's lock held."""

    project: Project
    config: Config
    database: Database
    workshop: Workshop


def candidates(project: Project) -> list[Candidate]:
    """The last three units in progress and the last three that were completed."""
    tx = open_reader(stores.place_of(project))
    now = SystemClock().now()
    recent = units.recent(tx, since=0, most=500)
    begun = [unit for unit in recent if not unit.terminal and unit.attempt > 0]
    ended = [unit for unit in recent if unit.succeeded]
    ended.sort(key=lambda unit: unit.archived_at or 0, reverse=True)
    chosen = [*begun[:_SHOWN], *ended[:_SHOWN]]
    return [Candidate(unit.id, unit.title, standing(unit, now)) for unit in chosen]


def survey(project: Project, unit_id: str) -> Survey:
    """Look up what reverting a unit means; nothing changes. Raises WrongState, ProjectLocked and others."""

    async def look(bench: _Bench) -> Survey:
        return await survey_unit(bench.workshop, bench.database.read, full_id(unit_id))

    return _locked(project, look)


def carry_out(project: Project, agreed: Survey) -> Undone:
    """Do what a survey showed; RevertConflict, CheckoutBusy and BranchMoved leave everything as it was."""

    async def work(bench: _Bench) -> Undone:
        found = await survey_unit(bench.workshop, bench.database.read, agreed.unit_id)
        if found != agreed:
            raise BranchMoved(
                f"{agreed.branch} or {agreed.unit_id} has changed since the list was made",
                actual=found.head,
                hint=f"look again: sf revert {agreed.unit_id}",
            )
        return await _undo(bench, agreed)

    return _locked(project, work)


async def _undo(bench: _Bench, agreed: Survey) -> Undone:
    """Noted first, then the branch, rows last: what dies between is recorded by whoever comes next."""
    owned, user = bench.workshop.owned, bench.workshop.user
    unit = units.get(bench.database.read, agreed.unit_id)
    made = await reverse(owned, agreed.head, agreed.steps, lambda step: revert_message(step, agreed.unit_id))
    reverted = [Reverted(item.step.commit, item.step.subject, item.commit) for item in made.made]
    tree = await owned.tree_of(made.tip)
    reversals.note(
        bench.project,
        Reversal(unit.id, unit.created_at, agreed.branch, agreed.head, made.tip, tree, reverted),
    )
    try:
        await user.land(agreed.branch, agreed.head, made.tip, owned)
    except BaseException:
        if not await user.contains(agreed.branch, made.tip):
            reversals.drop(bench.project, unit)
        raise
    recorded = next((each for each in await _recorded(bench) if each.unit_id == unit.id), None)
    log_of(bench.project, bench.config).info(
        "reverted", unit_id=unit.id, unit_type=unit.type, old=agreed.head, new=made.tip
    )
    return Undone(
        unit_id=unit.id,
        branch=agreed.branch,
        old=agreed.head,
        new=made.tip,
        reverted=reverted,
        marked=recorded.marked if recorded else [],
        restored=recorded.restored if recorded else [],
        next=_way_on(bench.project, unit),
    )


async def _recorded(bench: _Bench) -> list[Found]:
    rules, now = rules_of(bench.config), SystemClock().now()
    return await reversals.finish(bench.project, bench.database, bench.workshop, rules, now)


def _way_on(project: Project, unit: Unit) -> str:
    if not unit.terminal:
        return f'{unit.id} is still open: sf auto goes on with it, sf abandon {unit.id} "reason" ends it'
    title = str(unit.metadata.get("plan_file", ""))
    if unit.type == "milestone" and title and _plan_names(project, title):
        return "sf plan reload plans it again, as .sf/plan.md still names it"
    return 'sf plan "…" states a goal again'


def _plan_names(project: Project, title: str) -> bool:
    try:
        lines = project.plan_file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.startswith("## ") and line[3:].strip() == title for line in lines)


def _locked(project: Project, work: Callable[[_Bench], Awaitable[T]]) -> T:
    """Work with the project's lock, and on a server with its seat, held."""
    config = load_config(project)
    place = stores.chosen(project, config)
    # A repository of sf's own that is gone is made anew: what was merged is in the user's.
    if not project.repository.exists() and not units.recent(open_reader(place), since=0, most=1):
        raise WrongState("sf has not merged anything in this project", hint="sf history lists what has ended")
    with lock.hold(project, "sf revert") as held, _seat(place):
        return asyncio.run(_at_bench(project, config, place, held.descriptor, work))


@contextlib.contextmanager
def _seat(place: Place) -> Iterator[None]:
    if isinstance(place, Path):
        yield
        return
    from sf.scheduler.notices import seat

    with seat(place):
        yield


async def _at_bench(
    project: Project,
    config: Config,
    place: Place,
    descriptor: int,
    work: Callable[[_Bench], Awaitable[T]],
) -> T:
    async with _bench(project, config, place, descriptor) as bench:
        return await work(bench)


@contextlib.asynccontextmanager
async def _bench(project: Project, config: Config, place: Place, descriptor: int) -> AsyncIterator[_Bench]:
    git = Git(held=(descriptor,))
    identify(project)
    user = await UserRepository.open(project.root, project.facade, git)
    owned = await OwnedRepository.open(project.repository, user, git)
    # As a starting autopilot does: the lock is held, so what is left is a dead one's.
    owned.clear_locks()
    landing = await user.recover_landing()
    if landing:
        log_of(project, config).warning(landing)
    announced: list[Event] = []
    database = Database(place, announced.append)
    try:
        mode = config.harness.worktree_mode
        workshop = Workshop(project, database, user, owned, SystemClock(), mode)
        bench = _Bench(project, config, database, workshop)
        for cut_off in await _recorded(bench):
            log_of(project, config).warning(cut_off.told, unit_id=cut_off.unit_id)
        yield bench
    finally:
        database.close()
        witnesses.write_down(project, config, announced)
