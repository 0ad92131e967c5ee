"""The merge phase: commit a task on its slice's branch, or land a branch on the integration branch.

Evidence is of exactly the tree that lands: gates run on the merged tree, in a fresh checkout where nothing
but that tree is, before the branch moves.
"""

from __future__ import annotations

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.units import HoldKind, Status, Unit
from sf.errors import WorkspaceFailed
from sf.harness import judging
from sf.harness.agent import Agent
from sf.harness.attempt import run_hook
from sf.harness.desk import Desk, Obstacle
from sf.review import gates
from sf.store import records, sessions, units
from sf.store.tx import Tx
from sf.workspaces.refusals import BranchMoved, CheckoutBusy
from sf.workspaces.worktree import Worktree, checkout_folder, remove_folder

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
    """Commit exactly the tree that was judged and proven, whatever the folder holds by then."""
    worktree, unit, desk = agent.place.worktree, agent.unit, agent.desk
    tree = await worktree.snapshot()
    await judging.require_lawful(agent, await worktree.head(), tree)
    scripts = desk.rules.gates(unit)
    if scripts and not _proven(agent, tree, scripts, clean=False):
        outcome = await gates.prove(agent, scripts, tree, worktree, clean=False)
        if isinstance(outcome, o.GateFailed):
            return outcome
    commit = await worktree.commit(_message(unit, unit.title), tree=tree)
    await _keep(agent, tree, commit, f"committed on {worktree.branch}")
    return o.Done("committed" if commit else "nothing to commit")


def _message(unit: Unit, subject: str) -> str:
    body = f"\n\n{unit.description.strip()[:2000]}" if unit.description else ""
    return f"{subject}{body}\n\nSf-Unit: {unit.id}\nSf-Attempt: {unit.attempt}\n"


def _proven(agent: Agent, tree: str, scripts: tuple[str, ...], *, clean: bool) -> bool:
    names = [gates.gate_name(script) for script in scripts]
    return records.is_proven(agent.desk.database.read, agent.unit.id, tree, names, clean=clean)


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
    unresolved = await judging.conflict_left(agent)
    if unresolved:
        return o.Held(HoldKind.MERGE_CONFLICT, f"{unresolved} Worktree: {agent.place.folder}")
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
        await judging.require_lawful(agent, head, merged.tree)
        refused = await _prove_merged(agent, merged.tree, head, tip)
        if refused is not None:
            return refused
        title = f"Merge {unit.id}: {unit.title}"
        commit = await desk.workshop.owned.commit_tree(merged.tree, [head, tip], _message(unit, title))
        outcome = await _move_branch(agent, head, commit)
        if outcome is not None:
            await _record_landing(agent, outcome, merged.tree, commit)
            return outcome
    raise WorkspaceFailed(f"the integration branch moved {_RACES} times while {unit.id} was being merged")


async def _move_branch(agent: Agent, head: str, commit: str) -> o.AnyOutcome | None:
    """The compare-and-swap of the integration branch; None when it has moved meanwhile."""
    desk, unit = agent.desk, agent.unit
    units.require_lease(desk.database.read, agent.lease)
    if units.get(desk.database.read, unit.id).status is Status.CANCELED:
        return o.CalledOff("canceled_by_operator")
    desk.announce(events.MERGE_READY, unit.id, commit=commit)
    try:
        await desk.workshop.user.land(desk.workshop.integration_branch(), head, commit, desk.workshop.owned)
    except BranchMoved:
        return None
    except CheckoutBusy as busy:
        _remember_obstacle(desk, unit, tuple(busy.paths))
        named = f": {', '.join(busy.paths[:10])}" if busy.paths else ""
        return o.Held(HoldKind.CHECKOUT_DIRTY, f"{busy.message}{named}")
    return o.Done("merged")


async def _record_landing(agent: Agent, outcome: o.AnyOutcome, tree: str, commit: str) -> None:
    if isinstance(outcome, o.Done):
        branch = agent.desk.workshop.integration_branch()
        await _keep(agent, tree, commit, f"merged into {branch}")


def _remember_obstacle(desk: Desk, unit: Unit, paths: tuple[str, ...]) -> None:
    """Look again later and later: some obstacles cannot be seen without trying the merge."""
    before = desk.obstacles.get(unit.id)
    looked = before.looked + 1 if before else 1
    wait = min(2_000 * 2 ** min(looked - 1, 10), 300_000)
    desk.obstacles[unit.id] = Obstacle(paths, looked, desk.clock.now() + wait)


async def _commit_pending(agent: Agent) -> str:
    """Commit what is still uncommitted; a resolved conflict gets the integration commit as second parent."""
    worktree, unit, owned = agent.place.worktree, agent.unit, agent.desk.workshop.owned
    tip = await worktree.head()
    tree = await worktree.snapshot()
    also: list[str] = []
    unchanged = tree == await owned.tree_of(tip)
    if unit.merge_parent and not unchanged and not await owned.is_ancestor(unit.merge_parent, tip):
        also = [unit.merge_parent]
    subject = unit.title if unit.type == "task" else f"{unit.title}: what gates and review asked for"
    commit = await worktree.commit(_message(unit, subject), tree=tree, also=also)
    now = agent.desk.clock.now()
    await agent.desk.database.write(lambda tx: units.set_merge_parent(tx, unit.id, None, now))
    return commit or tip


async def _prove_merged(agent: Agent, tree: str, head: str, tip: str) -> o.AnyOutcome | None:
    """Gates on the tree that would land, unless it is the tree already proven."""
    desk, unit = agent.desk, agent.unit
    scripts = desk.rules.merge_gates(unit)
    needs_evidence = sessions.pinned(desk.database.read, unit.workflow_hash).needs_evidence
    if not scripts:
        return _UNPROVEN if needs_evidence else None
    if _proven(agent, tree, scripts, clean=True):
        return None
    folder = desk.project.worktrees / f"merge-{agent.lease.run_id}"
    proposed = await desk.workshop.owned.commit_tree(tree, [head, tip], f"sf: proposed merge of {unit.id}")
    await checkout_folder(desk.workshop.owned, folder, proposed)
    fresh = Worktree(desk.workshop.owned, folder, agent.place.worktree.branch)
    try:
        await run_hook(desk, "after_create", unit, agent.lease, folder)
        outcome = await gates.prove(agent, scripts, tree, fresh, clean=True)
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
