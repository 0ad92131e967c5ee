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


async def join(agent: Agent, head: str, tip: str) -> tuple[list[str], MergeResult]:
    """The merge, and the parents that its commit gets.

    When the integration branch was rewritten and no longer has the commit that the work began on, only the
    work itself is replayed: a true merge would bring back what was dropped.
    """
    owned, base = agent.desk.workshop.owned, agent.unit.base_commit
    if base is None or await owned.is_ancestor(base, head):
        return [head, tip], await owned.merge_trees(head, tip)
    if await owned.is_ancestor(head, tip):
        # A conflict with the rewritten branch was resolved: the tip holds both sides.
        return [head], MergeResult(await owned.tree_of(tip))
    return [head], await owned.merge_from(base, head, tip)


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
