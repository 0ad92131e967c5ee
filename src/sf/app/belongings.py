"""Checks of what a project has on disk: hooks, attributes, branches, sf's own repository, leftovers."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Iterable

from sf.app.checks import Check
from sf.app.stores import place_of
from sf.app.trust import load_config, load_trusted
from sf.config.schema import Config
from sf.errors import InvalidConfig
from sf.harness.hooks import script_path, unrunnable
from sf.paths import Project
from sf.scheduler import leftovers, lock
from sf.store import sessions, units
from sf.store.connection import open_reader
from sf.store.tx import Tx
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository


async def _user(project: Project) -> UserRepository:
    return await UserRepository.open(project.root, project.facade, Git())


async def _owned(project: Project) -> OwnedRepository | None:
    """sf's own repository, if it is there; a check makes none."""
    if not (project.repository / "HEAD").exists():
        return None
    return OwnedRepository.as_it_is(project.repository, await _user(project), Git())


def hooks(project: Project) -> Check:
    """Every configured hook can be run."""
    commands = dict.fromkeys(command for _, command in load_config(project).harness.hooks.commands())
    problems = _problems(project, commands)
    if problems:
        return Check("hooks", "fail", "; ".join(problems))
    return Check("hooks", "pass", f"{len(commands)} runnable" if commands else "none configured")


def require_told(project: Project, config: Config) -> None:
    """Raise InvalidConfig when a hook cannot be run that is told of each unit's end once, never again."""
    problems = _problems(project, config.harness.hooks.post_unit)
    if problems:
        told = f"post_unit is told of a unit's end once, and cannot be: {'; '.join(problems)}"
        raise InvalidConfig(told, problems=tuple(problems), hint="mend it, or take it out; sf doctor")


def _problems(project: Project, commands: Iterable[str]) -> list[str]:
    return [wrong for command in commands if (wrong := _unrunnable(project, command))]


def _unrunnable(project: Project, command: str) -> str:
    words = shlex.split(command)
    if "/" not in words[0]:
        return "" if shutil.which(words[0]) else f"hook {command!r}: there is no command {words[0]}"
    path = script_path(project.root, words[0])
    if not path.is_file():
        return f"hook {command!r}: there is no such file ({path})"
    if not os.access(path, os.X_OK):
        return f"hook {command!r}: has no run bit (chmod +x {path})"
    wrong = unrunnable(path)
    return f"hook {command!r}: {wrong}" if wrong else ""


def attributes(project: Project) -> Check:
    """The repository asks for no filters, which sf does not run."""
    found = asyncio.run(_filters(project))
    if found:
        detail = f"filters (such as LFS) are not supported, and their files are taken as they lie: {found[0]}"
        return Check("attributes", "warn", detail)
    return Check("attributes", "pass", "no filters")


async def _filters(project: Project) -> list[str]:
    return await (await _user(project)).filtered()


def landing(project: Project) -> Check:
    """No merge was interrupted half-way into the user's checkout."""
    left = asyncio.run(_landing(project))
    if not left:
        return Check("landing", "pass", "none under way")
    if lock.is_held(project.lock):
        return Check("landing", "pass", f"under way: {left}")
    return Check("landing", "fail", f"interrupted: {left}; sf auto ends it")


async def _landing(project: Project) -> str:
    return (await _user(project)).unfinished_landing()


def branches(project: Project) -> Check:
    """Every branch that something is to be merged into exists."""
    return asyncio.run(_branches(project, open_reader(place_of(project))))


async def _branches(project: Project, read: Tx) -> Check:
    user = await _user(project)
    session = sessions.current(read)
    configured = (await load_trusted(project, user)).harness.integration_branch
    wanted = {configured: "new work"} if configured else {}
    for unit in units.listed(read, most=1_000_000):
        branch = unit.metadata.get("integration_branch") or (session and session["integration_branch"])
        if not unit.terminal and branch:
            wanted.setdefault(str(branch), unit.id)
    gone = [
        f"{name!r}, which {who} is to be merged into"
        for name, who in wanted.items()
        if await user.branch_commit(name) is None
    ]
    if gone:
        hint = "bring it back (git branch …), or abandon what was to be merged there"
        return Check("branches", "fail", f"there is no branch {'; '.join(gone)} → {hint}")
    return Check("branches", "pass", ", ".join(sorted(wanted)) or "none needed yet")


def work(project: Project) -> Check:
    """The commits of every open unit are in sf's own repository."""
    return asyncio.run(_work(project, open_reader(place_of(project))))


async def _work(project: Project, read: Tx) -> Check:
    here = (None, "", project.key)
    begun = [
        unit
        for unit in units.listed(read, most=1_000_000)
        if unit.branch and not unit.terminal and unit.station in here
    ]
    owned = await _owned(project)
    if owned is None:
        if begun:
            names = ", ".join(unit.id for unit in begun[:5])
            return Check("work", "fail", f"{project.repository} is gone, and with it the work of {names}")
        return Check("work", "pass", "no repository of sf's own yet")
    present = await owned.refs("refs/heads/")
    # Looked at again: an autopilot may have ended one, and removed its branch, since the rows were read.
    lost = [
        unit
        for unit in begun
        if f"refs/heads/{unit.branch}" not in present and not units.get(read, unit.id).terminal
    ]
    if lost:
        names = ", ".join(f"{unit.branch} of {unit.id}" for unit in lost[:5])
        return Check("work", "fail", f"not in {project.repository}: {names}")
    return Check("work", "pass", f"{len(begun)} branch(es) of open units")


def remains(project: Project) -> Check:
    """Nothing lies about that no unit needs."""
    if lock.is_held(project.lock):
        return Check("leftovers", "pass", "not looked at while the autopilot works")
    found = asyncio.run(_remains(project, open_reader(place_of(project))))
    if found.told():
        return Check("leftovers", "warn", "; ".join(found.told()) + " → sf clean parks what it holds")
    later = len(found.ended) + len(found.temporary) + len(found.active)
    told = f"{later} that the next sf auto or sf clean puts away" if later else "none"
    return Check("leftovers", "pass", told)


async def _remains(project: Project, read: Tx) -> leftovers.Leftovers:
    return await leftovers.find(project, read, await _owned(project))
