"""The merge phase: commit a task on its slice's branch, or land a branch on the integration branch.

Evidence is of exactly the tree that lands: gates run on the merged tree before the branch moves.
"""

from __future__ import annotations

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.units import HoldKind, Unit
from sf.errors import WorkspaceFailed
from sf.harness.agent import Agent
from sf.review import gates
from sf.store import records, sessions, units
from sf.store.tx import Tx
from sf.workspaces.refusals import BranchMoved, CheckoutBusy
from sf.workspaces.worktree import checkout_folder, remove_folder

_RACES = 5
_UNPROVEN = o.Held(
    HoldKind.NO_EVIDENCE, "no gate proves what would be merged: none is configured or all skipped"
)


async def merge(agent: Agent) -> o.AnyOutcome:
    """The merge phase of any unit."""
    if agent.unit.in_slice:
        return await _commit_task(agent)
    return await _land(agent)


async def _commit_task(agent: Agent) -> o.AnyOutcome:
    worktree, unit, desk = agent.place.worktree, agent.unit, agent.desk
    tree = await worktree.snapshot()
    scripts = desk.rules.gates(unit)
    if scripts and not _proven(agent, tree, scripts):
        outcome = await gates.prove(agent, scripts, tree, agent.place.folder)
        if isinstance(outcome, o.GateFailed):
            return outcome
    commit = await worktree.commit(_message(unit, f"{unit.title}"))
    await worktree.refresh_agent_git()
    await _keep(agent, tree, commit, f"committed on {unit.branch or 'the slice branch'}")
    return o.Done("committed" if commit else "nothing to commit")


def _message(unit: Unit, subject: str) -> str:
    body = f"\n\n{unit.description.strip()[:2000]}" if unit.description else ""
    return f"{subject}{body}\n\nSf-Unit: {unit.id}\nSf-Attempt: {unit.attempt}\n"


def _proven(agent: Agent, tree: str, scripts: tuple[str, ...]) -> bool:
    names = [gates.gate_name(script) for script in scripts]
    return records.is_proven(agent.desk.database.read, agent.unit.id, tree, names)


async def _keep(agent: Agent, tree: str, commit: str | None, summary: str) -> None:
    now = agent.desk.clock.now()

    def write(tx: Tx) -> None:
        units.require_lease(tx, agent.lease)
        records.add_evidence(
            tx, agent.unit.id, agent.lease.run_id, "merge", summary, now, tree=tree, commit=commit
        )

    await agent.desk.database.write(write)


async def _land(agent: Agent) -> o.AnyOutcome:
    """Merge the unit's branch into the integration branch; tried again when someone else was faster."""
    desk, unit = agent.desk, agent.unit
    tip = await _commit_pending(agent)
    for _ in range(_RACES):
        head = await desk.workshop.integration_head()
        if await desk.workshop.owned.is_ancestor(tip, head):
            await _keep(
                agent, await desk.workshop.owned.tree_of(head), head, "already in the integration branch"
            )
            return o.Done("already merged")
        merged = await desk.workshop.owned.merge_trees(head, tip)
        if merged.tree is None:
            return await _conflict(agent, head, str(merged.conflicted_tree), merged.detail)
        refused = await _prove_merged(agent, merged.tree, head, tip)
        if refused is not None:
            return refused
        title = f"Merge {unit.id}: {unit.title}"
        commit = await desk.workshop.owned.commit_tree(merged.tree, [head, tip], _message(unit, title))
        units.require_lease(desk.database.read, agent.lease)
        desk.announce(events.MERGE_READY, unit.id, commit=commit)
        try:
            await desk.workshop.user.land(
                desk.workshop.integration_branch(), head, commit, desk.workshop.owned
            )
        except BranchMoved:
            continue
        except CheckoutBusy as busy:
            desk.in_the_way[unit.id] = tuple(busy.paths)
            detail = f"your checkout is in the way of merging {unit.id}: " + ", ".join(busy.paths[:10])
            return o.Held(HoldKind.CHECKOUT_DIRTY, detail)
        await _keep(agent, merged.tree, commit, f"merged into {desk.workshop.integration_branch()}")
        return o.Done("merged")
    raise WorkspaceFailed(f"the integration branch moved {_RACES} times while {unit.id} was being merged")


async def _commit_pending(agent: Agent) -> str:
    """Commit what is still uncommitted; a resolved conflict gets the integration commit as second parent."""
    worktree, unit, owned = agent.place.worktree, agent.unit, agent.desk.workshop.owned
    tip = await worktree.head()
    tree = await worktree.snapshot()
    parents = [tip]
    if unit.merge_parent and not await owned.is_ancestor(unit.merge_parent, tip):
        parents.append(unit.merge_parent)
    if len(parents) == 1 and tree == await owned.tree_of(tip):
        return tip
    subject = unit.title if unit.type == "task" else f"{unit.title}: what gates and review asked for"
    commit = await owned.commit_tree(tree, parents, _message(unit, subject))
    await owned.set_ref(worktree.ref, commit, tip)
    await worktree.refresh_agent_git()
    now = agent.desk.clock.now()
    await agent.desk.database.write(lambda tx: units.set_merge_parent(tx, unit.id, None, now))
    return commit


async def _prove_merged(agent: Agent, tree: str, head: str, tip: str) -> o.AnyOutcome | None:
    """Gates on the tree that would land, unless it is the tree already proven."""
    desk, unit = agent.desk, agent.unit
    scripts = desk.rules.merge_gates(unit)
    needs_evidence = sessions.pinned(desk.database.read, unit.workflow_hash).needs_evidence
    if not scripts:
        return _UNPROVEN if needs_evidence else None
    if _proven(agent, tree, scripts):
        return None
    folder = desk.project.worktrees / f"merge-{agent.lease.run_id}"
    proposed = await desk.workshop.owned.commit_tree(tree, [head, tip], f"sf: proposed merge of {unit.id}")
    await checkout_folder(desk.workshop.owned, folder, proposed)
    try:
        outcome = await gates.prove(agent, scripts, tree, folder)
    finally:
        await remove_folder(desk.workshop.owned, folder)
    if isinstance(outcome, o.GateFailed):
        await _bring_in(agent, head, tree)
        return outcome
    proven = records.has_passed(desk.database.read, unit.id, tree)
    return None if proven or not needs_evidence else _UNPROVEN


async def _conflict(agent: Agent, head: str, conflicted_tree: str, detail: str) -> o.Conflict:
    desk, unit = agent.desk, agent.unit
    await _bring_in(agent, head, conflicted_tree)
    desk.announce(events.MERGE_CONFLICT, unit.id, detail=detail[:500])
    branch = desk.workshop.integration_branch()
    return o.Conflict(
        f"merging into {branch} conflicts. The worktree now holds the merge with conflict markers; "
        f"resolve every one so that both sides' intent survives.\n{detail}"
    )


async def _bring_in(agent: Agent, head: str, tree: str) -> None:
    """Lay the integration branch's state out in the worktree, and remember the commit it came from."""
    now = agent.desk.clock.now()
    await agent.place.worktree.checkout_tree(tree)
    await agent.desk.database.write(lambda tx: units.set_merge_parent(tx, agent.unit.id, head, now))
