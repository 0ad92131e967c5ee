"""`sf doctor`: is everything there that the autopilot needs, and does the database keep its rules?"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from sf.app import belongings, templates
from sf.app.checks import Check, Verdict
from sf.app.stores import place_of
from sf.app.trust import load_config
from sf.domain.clock import SystemClock
from sf.domain.invariants import faults
from sf.errors import InvalidConfig, SfError
from sf.paths import Project
from sf.scheduler import lock
from sf.store import invariants, units
from sf.store.connection import engine_of, open_reader
from sf.store.place import Place
from sf.workspaces.git import Git
from sf.workspaces.repository import UserRepository

_SHOWN = 10
_VERDICTS: tuple[Verdict, ...] = ("pass", "warn", "fail")


def examine(project: Project) -> list[Check]:
    """Run every check; none stops the others."""
    checks: list[tuple[str, Callable[[Project], Check]]] = [
        ("configuration", _configuration),
        ("workflows", _workflows),
        ("gates", _gates),
        ("hooks", belongings.hooks),
        ("database", _database),
        ("units", _units),
        ("lock", _lock),
        ("git", _git),
        ("attributes", belongings.attributes),
        ("landing", belongings.landing),
        ("branches", belongings.branches),
        ("work", belongings.work),
        ("leftovers", belongings.remains),
        ("sandbox", _sandbox),
        ("models", _models),
        ("memory", _memory),
        ("disk", _disk),
    ]
    return [_guarded(name, check, project) for name, check in checks]


def _guarded(name: str, check: Callable[[Project], Check], project: Project) -> Check:
    try:
        return check(project)
    except InvalidConfig as error:
        return Check(name, "fail", "; ".join(error.problems) or error.message)
    except (SfError, OSError) as error:
        return Check(name, "fail", error.line() if isinstance(error, SfError) else str(error))
    except (
        Exception
    ) as error:  # the boundary of a check: what one stumbles over keeps no other from being made
        return Check(name, "fail", f"the check itself failed: {type(error).__name__}: {error}")


def _configuration(project: Project) -> Check:
    load_config(project)
    return Check("configuration", "pass", "valid")


def _workflows(project: Project) -> Check:
    names = [workflow.name for workflow in templates.check_all(project)]
    if not names:
        return Check("workflows", "fail", f"no template in {project.workflows}; sf init writes them")
    return Check("workflows", "pass", ", ".join(names))


def _gates(project: Project) -> Check:
    from sf.review import places

    scripts = load_config(project).harness.gates
    configured = (*scripts.post_task, *scripts.post_slice, *scripts.post_milestone)
    problems = places.problems(places.in_checkout(project.root, configured))
    if problems:
        return Check("gates", "fail", "; ".join(problems))
    if not scripts.post_slice and not scripts.post_task:
        return Check("gates", "warn", "none configured: work is parked as no_evidence instead of merged")
    return Check("gates", "pass", f"{len(set(configured))} runnable")


def _database(project: Project) -> Check:
    from sf.store import migrate

    place = place_of(project)
    tx = open_reader(place)
    if isinstance(place, Path):
        whole = tx.one("PRAGMA quick_check")
        if whole is None or whole[0] != "ok":
            return Check("database", "fail", f"damaged: {whole[0] if whole else 'unreadable'}")
        return Check("database", "pass", f"schema version {migrate.newest()}")
    _require_writes(place)
    return Check("database", "pass", f"schema version {migrate.newest()} on {place}")


def _require_writes(place: Place) -> None:
    """Raise StoreUnusable when a server takes no writes: it can be read all the same."""
    engine = engine_of(place)
    try:
        engine.connect_writing().close()
    except engine.errors as error:
        raise engine.unusable("write", error) from error


def _units(project: Project) -> Check:
    """The rows keep their invariants: every open unit is in exactly one state that has a way on."""
    tx = open_reader(place_of(project))
    found = faults(invariants.snapshot(tx, SystemClock().now()))
    if not found:
        return Check("units", "pass", f"{units.open_count(tx)} open, each with a reason")
    mendable = sum(fault.repair is not None for fault in found)
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    detail = "; ".join(fault.line() for fault in found[:_SHOWN]) + more
    return Check("units", "fail", f"{detail} → sf doctor fix mends {mendable} of {len(found)}")


def _lock(project: Project) -> Check:
    recorded = lock.read_holder(project.lock)
    if recorded is None:
        return Check("lock", "pass", "free")
    if lock.is_alive(recorded):
        return Check("lock", "pass", f"held by process {recorded.pid} ({recorded.purpose})")
    return Check(
        "lock", "pass", f"left by process {recorded.pid}, which is gone; the next start takes it over"
    )


def _git(project: Project) -> Check:
    async def look() -> Check:
        user = await UserRepository.open(project.root, project.facade, Git())
        head = await user.head()
        if head.commit is None:
            return Check("git", "fail", "the repository has no commit yet")
        if head.branch is None:
            return Check("git", "warn", "HEAD is detached")
        dirty = await user.dirty()
        if dirty:
            return Check("git", "warn", f"{len(dirty)} changed file(s) in your checkout hold merges back")
        return Check("git", "pass", f"on {head.branch}, clean")

    return asyncio.run(look())


def _memory(project: Project) -> Check:
    """A memory that is away is a warning: work goes on without it."""
    from sf.app import memories

    if load_config(project).memory.mode == "off":
        return Check("memory", "pass", "switched off")
    try:
        found = memories.stats(project)
    except SfError as error:
        return Check("memory", "warn", error.line())
    held = f"{sum(each.entries for each in found.banks)} entries in {found.place}, {found.embedder}"
    if found.error:
        return Check("memory", "warn", f"{held}; {found.waiting} lesson(s) wait: {found.error}")
    return Check("memory", "pass", held)


def _sandbox(project: Project) -> Check:
    from sf.policy import sandbox

    settings = load_config(project).sandbox
    chosen = sandbox.choose(settings.profile, prefer=settings.prefer)
    return Check("sandbox", "warn" if settings.profile == "off" else "pass", sandbox.describe(chosen))


def _models(project: Project) -> Check:
    from sf.providers.catalog import load_playbook
    from sf.secrets import resolve

    config = load_config(project)
    tiers = (config.tiers.fast, config.tiers.standard, config.tiers.reasoning)
    for name in dict.fromkeys(tier.models[0] for tier in tiers):
        if name.startswith("script:"):
            load_playbook(project.dot / "playbooks", name.removeprefix("script:"))
    names = {model.partition(":")[0] for tier in tiers for model in tier.models[:1]}
    for provider in sorted(names - {"script"}):
        settings = config.providers.get(provider)
        resolve(
            provider,
            settings.api_key if settings else "",
            has_base_url=bool(settings and settings.base_url),
        )
    return Check("models", "pass", ", ".join(sorted(names)))


def _disk(project: Project) -> Check:
    """The project's disk, and that of sf's home, where worktrees, sf's repository and the memory are."""
    found = [_room(folder) for folder in (project.dot, project.home)]
    worst = max((check.verdict for check in found), key=_VERDICTS.index)
    return Check("disk", worst, "; ".join(check.detail for check in found))


def _room(folder: Path) -> Check:
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    if not os.access(there, os.W_OK):
        return Check("disk", "fail", f"{there} is not writable")
    free = shutil.disk_usage(there).free
    if not free:
        return Check("disk", "fail", f"no room at all in {folder}")
    return Check("disk", "warn" if free < 1 << 30 else "pass", f"{free / (1 << 30):.1f} GiB free in {folder}")
