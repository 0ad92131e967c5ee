"""The unit's branch joined with the integration branch: the merge, and what is laid out when it conflicts."""

from __future__ import annotations

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.phases import Phase
from sf.domain.runs import RunOutcome
from sf.domain.units import Merging
from sf.harness.agent import Agent
from sf.store import leases, runs, units
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
    return _told(desk.workshop.integration_branch(unit), merged)


async def untold(agent: Agent) -> o.Conflict | None:
    """The conflict that the run before laid out and did not live to tell; None when it was told."""
    desk, unit, merging = agent.desk, agent.unit, agent.place.merging
    made = runs.of_unit(desk.database.read, unit.id)
    last = next((run for run in made if run.attempt == agent.lease.attempt - 1), None)
    if merging is None or last is None or (last.phase, last.outcome) != (Phase.MERGE, RunOutcome.INTERRUPTED):
        return None
    _, merged = await join(agent, merging.parent, await agent.place.worktree.head())
    return _told(desk.workshop.integration_branch(unit), merged) if merged.tree is None else None


def _told(branch: str, merged: MergeResult) -> o.Conflict:
    """A conflict that is laid out, as the agent reads of it."""
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
    await set_merging(agent, merging)


async def set_merging(agent: Agent, merging: Merging | None) -> None:
    """Remember what is laid out, or that nothing is any more."""
    owner, now = agent.desk.workshop.owner(agent.unit), agent.desk.clock.now()

    def write(tx: Tx) -> None:
        leases.require_lease(tx, agent.lease)
        units.set_merging(tx, owner.id, merging, now)

    await agent.desk.database.write(write)
