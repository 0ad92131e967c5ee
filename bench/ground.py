"""A real project to measure on: a git repository, a configuration, a database, and the open desk."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from sf.app import compose
from sf.config.reload import LiveConfig
from sf.domain import outcomes as o
from sf.domain.phases import Phase
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.domain.workflows import parse
from sf.harness.attempt import Finished
from sf.harness.desk import Desk
from sf.harness.settle import Ending
from sf.paths import Project
from sf.scheduler.conduct import Conduct
from sf.scheduler.lock import ProjectLock
from sf.scheduler.loop import Loop
from sf.store import sessions, units
from sf.store.tx import Tx
from sf.workspaces.git import Git, Identity

HOLDER = "bench#1@0"
SHORT = """\
name = "short"
phases = ["execute", "complete"]
needs_evidence = false
"""
LONG = """\
name = "long"
phases = ["execute", "tdd", "complete"]
needs_evidence = false
"""
_CONFIG = """\
[tiers]
fast.models = ["script:bench"]
standard.models = ["script:bench"]
reasoning.models = ["script:bench"]
[memory]
mode = "off"
"""
_PLAYBOOK = '[[scene]]\nphase = "*"\n[[scene.turn]]\ntext = "Done."\n'
_FINISHED = Finished(o.Done(), Ending())


class Ground(msgspec.Struct, frozen=True):
    """An open desk and what a loop on it needs."""

    desk: Desk
    live: LiveConfig

    def loop(self, conduct: Conduct) -> Loop:
        """A loop over this project's units."""
        return Loop(self.desk, self.live, conduct, HOLDER)

    async def plant(self, number: int, prefix: str, *, content: str = SHORT, blocked_by: str = "") -> None:
        """Insert this many tasks, `task/<prefix>1` and up, in one transaction."""
        now = self.desk.clock.now()
        workflow = parse(content, "bench")
        upstream = [blocked_by] if blocked_by else []

        def write(tx: Tx) -> None:
            session_id = sessions.ensure(tx, now, "main")
            digest = sessions.pin(tx, workflow, content, now)
            for index in range(1, number + 1):
                units.insert(
                    tx,
                    unit_id=f"task/{prefix}{index}",
                    unit_type="task",
                    session_id=session_id,
                    workflow=workflow.name,
                    workflow_hash=digest,
                    phase=Phase.EXECUTE,
                    title=f"null unit {index}",
                    now=now,
                    blocked_by=upstream,
                )

        await self.desk.database.write(write)


async def make(root: Path, config: str, playbook: str) -> Project:
    """A repository with one commit, and sf's files beside it."""
    root.mkdir(parents=True)
    (root / "README.md").write_text("# A project\n", encoding="utf-8")
    git, git_dir = Git(), root / ".git"
    await git.run("init", "--quiet", "--initial-branch=main", "--template=", git_dir=git_dir, work_tree=root)
    await git.run("add", "README.md", git_dir=git_dir, work_tree=root)
    identity = Identity("bench", "bench@localhost")
    await git.run("commit", "--quiet", "-m", "start", git_dir=git_dir, work_tree=root, identity=identity)
    project = Project(root=root, home=root.with_name(f"{root.name}-home"))
    playbooks = project.dot / "playbooks"
    playbooks.mkdir(parents=True)
    (playbooks / "bench.toml").write_text(playbook, encoding="utf-8")
    project.config.write_text(_CONFIG + config, encoding="utf-8")
    return project


@contextlib.asynccontextmanager
async def opened(root: Path, config: str = "", playbook: str = _PLAYBOOK) -> AsyncIterator[Ground]:
    """A new project, open; every model is the scripted one."""
    project = await make(root, config, playbook)
    with ProjectLock(project.lock, "bench") as held:
        async with compose.open_desk(project, lambda event: None, held.descriptor) as (desk, live):
            yield Ground(desk, live)


async def done_at_once(unit: Unit, lease: Lease) -> Finished:
    """The null worker: every run has succeeded as soon as it starts."""
    return _FINISHED


@contextlib.asynccontextmanager
async def running(loop: Loop) -> AsyncIterator[None]:
    """The loop at work in the background until the block ends."""
    task = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        loop.stop()
        await task


class Busy:
    """A worker that keeps the units `kept` running until it is stopped, and is done with others at once."""

    def __init__(self, kept: Callable[[Unit], bool]) -> None:
        self._kept = kept
        self.started: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def __call__(self, unit: Unit, lease: Lease) -> Finished:
        """Carry out one run."""
        self.started.put_nowait((unit.id, time.monotonic_ns()))
        if self._kept(unit):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return Finished(o.Interrupted("shutdown"), Ending())
        return _FINISHED
