"""The unit's branch joined with the integration branch: the merge, and what is laid out when it conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.units import Merging
from sf.harness.agent import Agent
from sf.store import leases, units
from sf.store.tx import Tx
from sf.workspaces.owned import MergeResult, OwnedRepository


async def join(agent: Agent, head: str, tip: str) -> tuple[list[str], MergeResult]:
    """The merge, and the parents that its commit gets.

    When the integration branch was rewritten since the work began on it, or took it in, only the work itself
    is replayed: a true merge would bring back what was dropped, or take away again what has come back.
    """
    desk, unit, owned = agent.desk, agent.unit, agent.desk.workshop.owned
    begun_on = await _begun_on(agent, tip)
    if await _is_one_line(owned, [*begun_on, head]):
        return [head, tip], await owned.merge_trees(head, tip)
    told = f"{desk.workshop.integration_branch(unit)} was rewritten: only the unit's own work is merged"
    desk.log.warning(told, unit_id=unit.id, unit_type=unit.type, begun_on=", ".join(begun_on))
    if await _is_one_line(owned, begun_on):
        replayed = await _replay(owned, begun_on[0], head, tip)
        if replayed is not None:
            return [head], replayed
    return [head], await owned.merge_from(begun_on[-1], head, tip)


async def _is_one_line(owned: OwnedRepository, commits: Sequence[str]) -> bool:
    """Whether each of these commits has the one before it."""
    return all([await owned.is_ancestor(older, newer) for older, newer in pairwise(commits)])


async def _replay(owned: OwnedRepository, base: str, head: str, tip: str) -> MergeResult | None:
    """The work between `base` and `tip` on another head, stretch by stretch; None where one has a conflict.

    Of a merge that was taken in that is what was made of it beyond the merge itself. At once, and beside the
    last that was taken in, whatever was in that one too would not count as the unit's.
    """
    onto, since = head, base
    for joint in await owned.joints(base, tip):
        own = await owned.merge_from(since, onto, joint.first)
        plain = await owned.merge_trees(joint.first, joint.taken)
        if own.tree is None or plain.tree is None:
            return None
        mended = await owned.merge_from(plain.tree, own.tree, joint.id)
        if mended.tree is None:
            return None
        onto, since = mended.tree, joint.id
    last = await owned.merge_from(since, onto, tip)
    return last if last.tree is not None else None


async def _begun_on(agent: Agent, tip: str) -> list[str]:
    """The integration commits that a unit's branch was made from and has taken in since, in their order."""
    owned, base = agent.desk.workshop.owned, agent.desk.workshop.owner(agent.unit).base_commit
    return [] if base is None else [base, *(joint.taken for joint in await owned.joints(base, tip))]


async def to_take_in(agent: Agent, merging: Merging, tip: str) -> list[str]:
    """The parents that the commit of a laid-out merge gets besides the tip: none where it was committed.

    Also a commit that the tip has in its history: it was left behind by the branch, and has come back.
    """
    begun_on = await _begun_on(agent, tip)
    return [] if begun_on[-1:] == [merging.parent] else [merging.parent]


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
