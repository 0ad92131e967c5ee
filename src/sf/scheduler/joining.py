"""The unit's branch joined with the integration branch: the merge, and what is laid out when it conflicts."""

from __future__ import annotations

import msgspec

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.units import Merging
from sf.harness.agent import Agent
from sf.store import leases, units
from sf.store.tx import Tx
from sf.workspaces.owned import MergeResult
from sf.workspaces.replay import Replay


async def join(agent: Agent, head: str, tip: str) -> tuple[list[str], MergeResult]:
    """The merge, and the parents that its commit gets.

    When the integration branch was rewritten since the work began on it, or took it in, only the work itself
    is replayed: a true merge would bring back what was dropped, or take away again what has come back.
    """
    desk, unit, owned = agent.desk, agent.unit, agent.desk.workshop.owned
    is_replay, merged = await Replay(owned, _base(agent)).joined(head, tip)
    if not is_replay:
        return [head, tip], merged
    told = f"{desk.workshop.integration_branch(unit)} was rewritten: only the unit's own work is merged"
    desk.log.warning(told, unit_id=unit.id, unit_type=unit.type, head=head, tip=tip)
    return [head], merged


def _base(agent: Agent) -> str | None:
    return agent.desk.workshop.owner(agent.unit).base_commit


async def to_take_in(agent: Agent, merging: Merging, tip: str) -> list[str]:
    """The parents that the commit of a laid-out merge gets besides the tip: none where it was committed.

    Also a commit that the tip has in its history: it was left behind by the branch, and has come back.
    """
    base = _base(agent)
    joints = await agent.desk.workshop.owned.joints(base, tip) if base is not None else []
    last = joints[-1].taken if joints else base
    return [] if last == merging.parent else [merging.parent]


async def lay_out(agent: Agent, head: str, merged: MergeResult) -> o.Conflict:
    """Put a conflict into the worktree, for the agent to resolve."""
    desk, unit = agent.desk, agent.unit
    beside = tuple(item.other for item in merged.beside)
    await bring_in(agent, Merging(head, merged.label, beside), str(merged.laid_out))
    desk.announce(events.MERGE_CONFLICT, unit.id, detail=merged.detail[:500])
    branch = desk.workshop.integration_branch(unit)
    told = (
        f"merging into {branch} conflicts. The worktree now holds the merge with conflict markers; "
        f"resolve every one so that both sides' intent survives.\n{merged.detail}"
    )
    for item in merged.beside:
        told += (
            f"\n{item.path} has no markers: the worktree has one side of it, the other lies at {item.other}. "
            f"Leave what is right at {item.path}, then delete {item.other}."
        )
    return o.Conflict(told)


async def bring_in(agent: Agent, merging: Merging, tree: str) -> None:
    """Lay a merge with the integration branch out in the worktree, and remember that it is there."""
    leases.require_lease(agent.desk.database.read, agent.lease)
    await agent.place.worktree.checkout_tree(tree)
    laid_out = msgspec.structs.replace(merging, tree=tree, laid_out_by=agent.lease.run_id)
    await set_merging(agent, laid_out)


async def set_merging(agent: Agent, merging: Merging | None) -> None:
    """Remember what is laid out, or that nothing is any more."""
    owner, now = agent.desk.workshop.owner(agent.unit), agent.desk.clock.now()

    def write(tx: Tx) -> None:
        leases.require_lease(tx, agent.lease)
        units.set_merging(tx, owner.id, merging, now)

    await agent.desk.database.write(write)
