"""The merge phase: commit a task on its slice's branch, or land a branch on the integration branch.

Evidence is of exactly the tree that lands: gates run on the merged tree, in a fresh checkout where nothing
but that tree is, before the branch moves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.reverting import landing_subject, naming_none, work_subject
from sf.domain.units import CURE, PATHS, HoldKind, Merging, Status, Unit
from sf.domain.utf8 import escaped, quoted
from sf.errors import NoProduct
from sf.harness import judging
from sf.harness.agent import Agent
from sf.harness.attempt import tell_undone
from sf.harness.desk import Desk, Obstacle
from sf.harness.notice import hook_variables
from sf.review import gates, places
from sf.scheduler import joining, landed
from sf.store import leases, records, sessions, units
from sf.unbroken import to_the_end
from sf.workspaces.refusals import BranchMoved, CheckoutBusy
from sf.workspaces.worktree import Worktree, checkout_folder, remove_folder

_RACES = 5
_SETTLING = 60.0
"""Seconds after which a branch that kept moving is tried again."""
_MOST_PATHS = 100
"""How many of the paths in the way a question keeps."""
_LOST = o.ChangesWanted(
    "Nothing of this unit's work is in its worktree or on its branch; it must be done again.",
    reason="its work is gone",
)
_NO_PROOF = "no gate proves what would be merged: none is configured or all skipped"


async def merge(agent: Agent) -> o.AnyOutcome:
    """The merge phase of any unit."""
    if agent.unit.in_slice:
        return await _commit_task(agent)
    return await _land(agent)


async def _commit_task(agent: Agent) -> o.AnyOutcome:
    """Commit exactly the tree that was judged and proven, whatever the folder holds by then."""
    worktree, unit, desk = agent.place.worktree, agent.unit, agent.desk
    unresolved = await judging.conflict_left(agent)
    if unresolved:
        raise NoProduct(unresolved)
    tree = await worktree.snapshot()
    # Keeping one side of a conflict is a resolution too.
    if agent.place.merging is None and not await desk.workshop.owned.diff_stat(agent.place.base, tree):
        return _LOST
    await judging.require_lawful(agent, await worktree.head(), tree, by_areas=True)
    scripts = desk.rules.gates(unit)
    if scripts and not await _proven(agent, tree, scripts, clean=False):
        outcome = await gates.prove(agent, scripts, tree, worktree, clean=False)
        if isinstance(outcome, o.GateFailed):
            return outcome
    # Nothing to commit: an earlier run did, and died before it was settled. The lane was the unit's since.
    commit = await _commit(agent, tree, work_subject(unit.title)) or await worktree.head()
    if commit not in _recorded(agent):
        await _keep(agent, tree, commit, f"committed on {worktree.branch}")
    return o.Done("committed")


def _message(unit: Unit, subject: str) -> str:
    body = f"\n\n{naming_none(unit.description.strip()[:2000])}" if unit.description else ""
    return f"{subject}{body}\n\nSf-Unit: {unit.id}\nSf-Attempt: {unit.attempt}\n"


async def _proven(agent: Agent, tree: str, scripts: tuple[str, ...], *, clean: bool) -> bool:
    found = await places.located(agent.desk, agent.desk.workshop.integration_branch(agent.unit), scripts)
    try:
        wanted = [(gates.gate_name(script), gates.digest(found[script])) for script in scripts]
    except OSError:
        # It may have gone with its branch; whoever proves the tree looks for it again.
        return False
    return records.is_proven(agent.desk.database.read, agent.unit.id, tree, wanted, clean=clean)


def _recorded(agent: Agent) -> list[str]:
    """The commits that earlier runs recorded as merged, and died before they were settled."""
    found = records.evidence(agent.desk.database.read, agent.unit.id)
    return [row["commit_id"] for row in found if row["kind"] == "merge"]


async def _keep(agent: Agent, tree: str, commit: str, summary: str) -> None:
    now = agent.desk.clock.now()
    await agent.desk.database.write(
        lambda tx: records.found(tx, agent.lease, "merge", summary, now, tree=tree, commit=commit)
    )


async def _land(agent: Agent) -> o.AnyOutcome:
    """Merge the unit's branch into the integration branch; tried again when someone else was faster."""
    desk, unit, owned = agent.desk, agent.unit, agent.desk.workshop.owned
    unresolved = await judging.conflict_left(agent)
    if unresolved:
        return o.Held(HoldKind.MERGE_CONFLICT, f"{unresolved} Worktree: {agent.place.folder}")
    tree = await _as_reviewed(agent)
    await judging.require_lawful(agent, await agent.place.worktree.head(), tree, by_areas=False)
    tip = await _commit_pending(agent, tree)
    if tip == agent.place.base:
        return _LOST
    for _ in range(_RACES):
        head = await desk.workshop.integration_head(unit)
        if await owned.is_ancestor(tip, head):
            return await _already(agent, await landed.on_integration(desk.workshop, unit, head) or tip)
        if (before := await landed.noted(desk.workshop, unit, tip, head)) is not None:
            await _tell_rewritten(agent, before, head)
            return await _already(agent, before)
        parents, merged = await joining.join(agent, head, tip)
        if merged.tree is None:
            return await joining.lay_out(agent, head, merged)
        # On a branch that was rewritten, what landed is no descendant of the unit's own.
        earlier = await landed.on_integration(desk.workshop, unit, head) if len(parents) == 1 else None
        if earlier and merged.tree == await owned.tree_of(head):
            return await _already(agent, earlier)
        await judging.require_lawful(agent, head, merged.tree, by_areas=False)
        refused = await _prove_merged(agent, merged.tree, parents)
        if refused is not None:
            return refused
        subject = landing_subject(unit.id, unit.title)
        commit = await owned.commit_tree(merged.tree, parents, _message(unit, subject))
        await landed.note(owned, unit, tip, commit)
        outcome = await _move_branch(agent, head, commit)
        if outcome is not None:
            await _record_landing(agent, outcome, merged.tree, commit)
            return outcome
    wait = min(_SETTLING, float(desk.config.harness.max_retry_backoff))
    told = f"{desk.workshop.integration_branch(unit)} moved {_RACES} times while {unit.id} was being merged"
    return o.Waiting(wait, told, BranchMoved.code)


async def _already(agent: Agent, commit: str) -> o.Done:
    """An earlier run landed the unit by this commit; on record it is once, by whichever commit came first."""
    if not _recorded(agent):
        tree = await agent.desk.workshop.owned.tree_of(commit)
        await _keep(agent, tree, commit, "already in the integration branch")
    return o.Done("already merged")


async def _tell_rewritten(agent: Agent, commit: str, head: str) -> None:
    """Say that a landing is gone from the branch, and counts: what the user took away stays away."""
    desk, unit = agent.desk, agent.unit
    if await desk.workshop.owned.is_ancestor(commit, head):
        return
    branch = desk.workshop.integration_branch(unit)
    told = f"it had landed by {commit[:12]}, and {branch} was rewritten since: it counts as merged"
    detail = f"{told}, and sf rescue list has what it was"
    desk.announce(events.WARNING, unit.id, detail=detail, log=True)


async def _move_branch(agent: Agent, head: str, commit: str) -> o.AnyOutcome | None:
    """The compare-and-swap of the integration branch; None when it has moved meanwhile."""
    desk, unit = agent.desk, agent.unit
    leases.require_lease(desk.database.read, agent.lease)
    if units.get(desk.database.read, unit.id).status is Status.CANCELED:
        return o.CalledOff("canceled_by_operator")
    desk.announce(events.MERGE_READY, unit.id, commit=commit)
    branch = desk.workshop.integration_branch(unit)
    try:
        # What has landed has landed: nobody stops half-way.
        await to_the_end(desk.workshop.user.land(branch, head, commit, desk.workshop.owned))
    except BranchMoved:
        return None
    except CheckoutBusy as busy:
        _remember_obstacle(desk, unit)
        return _in_the_way(busy)
    return o.Done("merged")


async def _record_landing(agent: Agent, outcome: o.AnyOutcome, tree: str, commit: str) -> None:
    if isinstance(outcome, o.Done):
        branch = agent.desk.workshop.integration_branch(agent.unit)
        await _keep(agent, tree, commit, f"merged into {branch}")


def _in_the_way(busy: CheckoutBusy) -> o.Held:
    """The hold for what the user's checkout refused; its question keeps, over starts, what to look for."""
    data: dict[str, Any] = {}
    if busy.hint:
        # A name that is not UTF-8 would not go into the question's row.
        data[CURE] = escaped(busy.hint)
    if busy.paths:
        # Changes to what is tracked are seen as such: committed or put aside, the files may stay.
        data[PATHS] = [] if busy.tracked else [quoted(path) for path in busy.paths[:_MOST_PATHS]]
    return o.Held(HoldKind.CHECKOUT_DIRTY, busy.message, data)


def _remember_obstacle(desk: Desk, unit: Unit) -> None:
    """Look again later and later: some obstacles cannot be seen without trying the merge."""
    before = desk.obstacles.get(unit.id)
    looked = before.looked + 1 if before else 1
    wait = min(2_000 * 2 ** min(looked - 1, 10), 300_000)
    desk.obstacles[unit.id] = Obstacle(looked, desk.clock.now() + wait)


async def _as_reviewed(agent: Agent) -> str:
    """The tree to land: exactly the one that passed the review, whatever the folder holds by now.

    A conflict that was laid out since is another matter: what resolves it is judged by itself.
    """
    worktree, unit, desk = agent.place.worktree, agent.unit, agent.desk
    tree = await worktree.snapshot()
    reviewed = records.reviewed_tree(desk.database.read, unit.id)
    if agent.place.merging or reviewed in (None, tree):
        return tree
    tell_undone(desk, unit, "since its review", await worktree.park(tree) or worktree.ref)
    await worktree.checkout_tree(str(reviewed))
    return str(reviewed)


async def _commit_pending(agent: Agent, tree: str) -> str:
    """Commit what is still uncommitted; the branch's tip."""
    unit = agent.unit
    asked = "" if unit.type == "task" else ": what gates and review asked for"
    subject = work_subject(f"{unit.title}{asked}")
    commit = await _commit(agent, tree, subject)
    return commit or await agent.place.worktree.head()


async def _commit(agent: Agent, tree: str, subject: str) -> str | None:
    """Commit a tree on the branch; a merge that was laid out gets the integration commit as second parent.

    Keeping one side is a resolution too, so an equal tree is committed then.
    """
    desk, unit, merging = agent.desk, agent.unit, agent.place.merging
    tip = await agent.place.worktree.head()
    also = await joining.to_take_in(agent, merging, tip) if merging else []
    leases.require_lease(desk.database.read, agent.lease)
    commit = await agent.place.worktree.commit(_message(unit, subject), tree=tree, also=also)
    if merging:
        await joining.set_merging(agent, None)
    return commit


async def _prove_merged(agent: Agent, tree: str, parents: list[str]) -> o.AnyOutcome | None:
    """Gates on the tree that would land, unless it is the tree already proven."""
    desk, unit = agent.desk, agent.unit
    scripts = desk.rules.merge_gates(unit)
    needs_evidence = sessions.pinned(desk.database.read, unit.workflow_hash).needs_evidence
    if not scripts:
        return _unproven(scripts) if needs_evidence else None
    if await _proven(agent, tree, scripts, clean=True):
        return None
    folder = desk.project.worktrees / f"merge-{agent.lease.run_id}"
    proposed = await desk.workshop.owned.commit_tree(tree, parents, f"sf: proposed merge of {unit.id}")
    await checkout_folder(desk.workshop.owned, folder, proposed)
    fresh = Worktree(desk.workshop.owned, folder, agent.place.worktree.branch, disposable=True)
    try:
        await _set_up(agent, folder)
        outcome = await gates.prove(agent, scripts, tree, fresh, clean=True)
    finally:
        await remove_folder(desk.workshop.owned, folder)
    if isinstance(outcome, o.GateFailed):
        await joining.bring_in(agent, Merging(parents[0]), tree)
        return outcome
    proven = records.has_passed(desk.database.read, unit.id, tree)
    return None if proven or not needs_evidence else _unproven(scripts)


def _unproven(scripts: tuple[str, ...]) -> o.Held:
    return o.Held(HoldKind.NO_EVIDENCE, _NO_PROOF, {"gates": list(scripts)})


async def _set_up(agent: Agent, folder: Path) -> None:
    """The after_create hook where a merge is proven: in the sandbox, for what it runs is the agent's work.

    What it cannot do there, such as fetching, is told; whether it was needed, the gates decide.
    """
    desk, unit = agent.desk, agent.unit
    variables = hook_variables(desk, unit, agent.lease.run_id, str(folder))
    for failed, output in await gates.set_up(desk, folder, variables):
        told = f"{failed} in the sandbox of the merge's proof"
        desk.log.warning(told, unit_id=unit.id, unit_type=unit.type, output=output[-500:])
        desk.announce(events.WARNING, unit.id, detail=told)
