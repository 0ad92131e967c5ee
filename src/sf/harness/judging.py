"""Judging results: whatever a unit changed is held against its plan's areas before it can be committed.

A run is judged when it ends, however it ends, and from the unit's base, so that what a failed or killed run
left behind is judged too. What is committed and what lands is judged once more, as the diff that it is.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from sf.errors import OutsideAreas
from sf.harness.agent import Agent
from sf.harness.bounds import area_sets
from sf.harness.desk import Desk
from sf.harness.hooks import script_path
from sf.policy import areas
from sf.policy.areas import Violation
from sf.workspaces.changes import FileChange


async def take_back(agent: Agent) -> list[Violation]:
    """Return every path that the plan does not allow to what it was; what they were."""
    found, origin = await _in_worktree(agent)
    if found:
        await agent.place.worktree.restore_paths([item.path for item in found], origin)
    below = await agent.place.worktree.clear_submodules()
    found += [Violation(path, "gitlink", _FOREIGN) for path in below]
    if found:
        agent.desk.log.warning(
            "changes taken back", unit_id=agent.unit.id, unit_type=agent.unit.type, paths=_named(found)
        )
    return found


def refused(found: Sequence[Violation]) -> OutsideAreas:
    """The error that tells the agent what was taken back."""
    return OutsideAreas(f"changes outside the plan's areas were taken back: {_named(found)}")


async def require_lawful(agent: Agent, base: str, tree: str, *, by_areas: bool) -> None:
    """Raise OutsideAreas when the diff that is about to be committed or landed is not lawful.

    A task's commit is judged by its areas. What lands was judged so, commit by commit; there only what is
    never allowed counts. The offending paths are first brought back, so that the next try can pass.
    """
    changes = await _own(agent, base, tree)
    found = _judge(agent, changes, by_areas=by_areas and agent.place.merging is None)
    if found:
        await agent.place.worktree.restore_paths([item.path for item in found], base)
        raise refused(found)


async def _in_worktree(agent: Agent) -> tuple[list[Violation], str]:
    """What breaks the plan in the worktree, and the commit to which it must return."""
    worktree, unit, merging = agent.place.worktree, agent.unit, agent.place.merging
    origin = agent.place.base if unit.type == "task" else await worktree.head()
    changes = await _own(agent, origin, await worktree.snapshot())
    return _judge(agent, changes, by_areas=merging is None), merging.parent if merging else origin


async def _own(agent: Agent, base: str, tree: str) -> list[FileChange]:
    """What the unit itself changed: of a merge that is laid out, only what differs from both sides."""
    owned = agent.desk.workshop.owned
    changes = await owned.diff_stat(base, tree)
    if agent.place.merging is None:
        return changes
    also = {change.path for change in await owned.diff_stat(agent.place.merging.parent, tree)}
    return [change for change in changes if change.path in also]


def _judge(agent: Agent, changes: Sequence[FileChange], *, by_areas: bool) -> list[Violation]:
    """What is lawful for none of the unit's area sets; without `by_areas`, only what is never allowed."""
    listed = [
        areas.Change(path=item.path, status=item.status, old_mode=item.old_mode, new_mode=item.new_mode)
        for item in changes
    ]
    protected = (*areas.PROTECTED, *_scripts(agent.desk))
    verdicts = [
        areas.violations(listed, allowed=each.allowed, forbidden=each.forbidden, protected=protected)
        for each in area_sets(agent.desk.database.read, agent.unit)
    ]
    if not by_areas:
        verdicts = [[item for item in found if item.rule not in _BY_AREAS] for found in verdicts]
    unlawful = set.intersection(*({item.path for item in found} for found in verdicts))
    return [item for item in verdicts[0] if item.path in unlawful]


def _scripts(desk: Desk) -> set[str]:
    """The gates and hooks that lie in the repository: what proves an agent's work is not the agent's."""
    gates, hooks, root = desk.config.harness.gates, desk.config.harness.hooks, desk.project.root
    named = [*gates.post_task, *gates.post_slice, *gates.post_milestone]
    for _, command in hooks.commands():
        # Any word: `sh tools/setup.sh` runs a file of the repository too.
        named += [word for word in shlex.split(command) if _is_file(root / word)]
    paths = [script_path(root, name) for name in named]
    real = [path.resolve() for path in paths]
    return {str(path.relative_to(root)) for path in (*paths, *real) if path.is_relative_to(root)}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # A word may be a whole script (`sh -c "…"`), longer than a name can be.
        return False


_FOREIGN = "it lies in a submodule, which is another repository: it cannot be part of this work"
_BY_AREAS = ("outside", "forbidden")


def _named(found: Sequence[Violation]) -> str:
    return "; ".join(f"{item.path}: {item.reason}" for item in found)


async def conflict_left(agent: Agent) -> str:
    """What says that a conflict laid out in the worktree is not resolved; empty when it is.

    Only the markers of this very merge count: files may rightly contain others.
    """
    merging = agent.place.merging
    if merging is None or not merging.label:
        return ""
    beside = [name for name in merging.beside if os.path.lexists(agent.place.folder / name)]
    if beside:
        return f"not resolved and deleted yet: {', '.join(beside)}."
    changed = await agent.place.worktree.changes(merging.parent)
    marked = await agent.desk.workshop.owned.have_markers(changed, merging.label)
    return "conflict markers (<<<<<<<, >>>>>>>) are still in the files." if marked else ""
