"""Judging results: whatever a unit changed is held against its plan's areas before it can be committed.

A run is judged when it ends, however it ends, and again from the unit's whole base, so that what a failed or
killed run left behind is judged too. What lands is judged once more, as the diff that would land.
"""

from __future__ import annotations

from collections.abc import Sequence

from sf.errors import OutsideAreas
from sf.harness.agent import Agent
from sf.policy import areas
from sf.policy.areas import Violation
from sf.workspaces.changes import FileChange


async def take_back(agent: Agent) -> list[Violation]:
    """Return every path that the plan does not allow to what it was; what they were."""
    found, origin = await _in_worktree(agent)
    if found:
        await agent.place.worktree.restore_paths([item.path for item in found], origin)
        agent.desk.log.warning(
            "changes taken back", unit_id=agent.unit.id, unit_type=agent.unit.type, paths=_named(found)
        )
    return found


def refused(found: Sequence[Violation]) -> OutsideAreas:
    """The error that tells the agent what was taken back."""
    return OutsideAreas(f"changes outside the plan's areas were taken back: {_named(found)}")


async def require_lawful(agent: Agent, base: str, tree: str) -> None:
    """Raise OutsideAreas when the diff that is about to be committed or landed breaks the plan.

    The offending paths are first brought back in the worktree, so that the next try can pass.
    """
    changes = await agent.desk.workshop.owned.diff_stat(base, tree)
    found = _judge(agent, changes, resolving=False)
    if found:
        await agent.place.worktree.restore_paths([item.path for item in found], base)
        raise refused(found)


async def _in_worktree(agent: Agent) -> tuple[list[Violation], str]:
    """What breaks the plan in the worktree, and the commit to which it must return."""
    origins = await _origins(agent)
    worktree = agent.place.worktree
    changes = await worktree.changes(origins[0])
    for origin in origins[1:]:
        also = {change.path for change in await worktree.changes(origin)}
        changes = [change for change in changes if change.path in also]
    return _judge(agent, changes, resolving=agent.unit.merge_parent is not None), origins[-1]


async def _origins(agent: Agent) -> list[str]:
    """The commits that the worktree's content may rightly come from; only what differs from all is judged."""
    unit, workshop = agent.unit, agent.desk.workshop
    if unit.in_slice:
        return [agent.place.base]
    tip = await agent.place.worktree.head()
    shared = await workshop.owned.merge_base(tip, await workshop.integration_head())
    return [shared or agent.place.base, *([unit.merge_parent] if unit.merge_parent else [])]


def _judge(agent: Agent, changes: Sequence[FileChange], *, resolving: bool) -> list[Violation]:
    """`resolving` a conflict may touch whatever the other side changed, but nothing protected."""
    allowed, forbidden = agent.areas()
    return areas.violations(
        [
            areas.Change(
                path=change.path, status=change.status, old_mode=change.old_mode, new_mode=change.new_mode
            )
            for change in changes
        ],
        allowed=() if resolving else allowed,
        forbidden=forbidden,
        protected=areas.PROTECTED,
    )


def _named(found: Sequence[Violation]) -> str:
    return "; ".join(f"{item.path}: {item.reason}" for item in found)


async def conflict_left(agent: Agent) -> str:
    """What says that a conflict laid out in the worktree is not resolved; empty when it is."""
    if agent.unit.merge_parent is None:
        return ""
    diff = await agent.place.worktree.diff(agent.unit.merge_parent)
    marked = any(line.startswith(("+<<<<<<< ", "+>>>>>>> ")) for line in diff.splitlines())
    return "conflict markers (<<<<<<<, >>>>>>>) are still in the files." if marked else ""
