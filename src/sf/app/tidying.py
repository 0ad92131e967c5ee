"""`sf clean`: shows what would be tidied away, or does it, under the project's lock."""

from __future__ import annotations

import asyncio

import msgspec

from sf.app import clones, stores
from sf.app.logs import log_of
from sf.app.trust import load_trusted
from sf.domain.clock import SystemClock
from sf.errors import SfError
from sf.observe import disk
from sf.observe.log import Log
from sf.paths import Project
from sf.scheduler import cleaning, lock
from sf.store.connection import open_reader
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository


class Tidied(msgspec.Struct, frozen=True):
    """One step: what was done or would be, to what, how big it is, and what came of it."""

    what: str
    subject: str
    size: int
    note: str = ""
    failed: bool = False


def clean(project: Project, *, dry_run: bool = False) -> list[Tidied]:
    """Tidy up; with `dry_run` only look. Raises ProjectLocked while an autopilot runs."""
    with lock.hold(project, "sf clean") as held:
        return asyncio.run(_clean(project, held.descriptor, dry_run=dry_run))


async def _clean(project: Project, descriptor: int, *, dry_run: bool) -> list[Tidied]:
    git = Git(held=(descriptor,))
    user = await UserRepository.open(project.root, project.facade, git)
    config = await load_trusted(project, user)
    there = (project.repository / "HEAD").exists()
    owned = await OwnedRepository.open(project.repository, user, git) if there else None
    place = stores.chosen(project, config)
    await clones.require(project, place, user)
    clock = SystemClock()
    if owned is not None:
        owned.clear_locks()
    premises = cleaning.Premises(
        project=project,
        read=open_reader(place),
        place=place,
        user=user,
        owned=owned,
        now=clock.now(),
        keep_archive=float(config.housekeeping.keep_archive),
    )
    due = await cleaning.steps(premises)
    if dry_run:
        return [Tidied(step.what, step.subject, step.size) for step in due]
    log = log_of(project, config)
    done = [await _carry_out(step, log) for step in due]
    quota = int(config.housekeeping.max_worktrees_gb * disk.GIB)
    disk.keep(project, disk.measure(project, clock.now(), quota))
    return done


async def _carry_out(step: cleaning.Step, log: Log) -> Tidied:
    """Do one step; one that fails leaves its subject as it is and stops no other."""
    try:
        note, failed = await step.act(), False
    except (SfError, OSError) as error:
        note, failed = error.line() if isinstance(error, SfError) else str(error), True
    log.info(
        "cleaning failed" if failed else "cleaned", what=step.what, subject=step.subject, note=note or None
    )
    return Tidied(step.what, step.subject, step.size, note, failed)
