"""Which commits on the integration branch are a unit's: what is on record against what the branch has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import msgspec

from sf.domain.clock import rfc3339
from sf.domain.reverting import Authored, Choice, Ghost, Step, choose, is_kin, landing_subject, work_subject
from sf.domain.units import Status, Unit
from sf.errors import WrongState
from sf.harness.workshop import Workshop
from sf.store import records, relations, units
from sf.store.tx import Tx
from sf.workspaces.history import History
from sf.workspaces.reversal import only_joins

_ONLY_RECORDED = "every commit of it was reverted before, part by part: only the record changes"


class Survey(msgspec.Struct, frozen=True):
    """What reverting a unit means, commit by commit, newest first."""

    unit_id: str
    title: str
    branch: str
    head: str
    steps: list[Step]
    ghosts: list[Ghost]
    warnings: list[str]


class _Found(msgspec.Struct, frozen=True):
    commits: list[Authored]
    recorded: frozenset[str]
    by_subject: frozenset[str]
    ghosts: list[Ghost]
    unmerged: int
    """Commits on record of work that has not reached the branch yet."""


async def survey_unit(workshop: Workshop, read: Tx, unit_id: str) -> Survey:
    """Find the commits of a unit. Raises WrongState where it cannot be reverted, and says why."""
    unit = units.get(read, unit_id)
    family = [unit, *relations.below(read, unit.id)]
    if unit.station not in (None, workshop.project.key):
        raise WrongState(f"{unit.id} was worked on in another folder: {unit.station}", hint="revert it there")
    _require_revertible(read, unit, family)
    history = History(workshop.owned, await workshop.integration_head(unit))
    branch = workshop.integration_branch(unit)
    found = await _find(history, workshop, read, unit, family)
    brought = {
        commit.id: await history.brought_in(commit) for commit in found.commits if len(commit.parents) > 1
    }
    if not await _is_rewritten(history, workshop, read, unit, family):
        found = _without_foreign(found, brought, await _landed_above(history, read, unit))
    undone = frozenset(item.id for item in family if item.reverted_at is not None)
    choice = choose(found.commits, brought, unit.id, undone, found.by_subject)
    await _require_separable(workshop, unit, choice)
    only_recorded = not choice.steps and choice.undone > 0 and unit.terminal
    if not choice.steps and not only_recorded:
        raise _nothing(unit, branch, choice, found)
    _require_whole(branch, found.ghosts)
    warnings = [_ONLY_RECORDED] if only_recorded else _warnings(branch, choice.steps, found.ghosts)
    return Survey(
        unit_id=unit.id,
        title=unit.title,
        branch=branch,
        head=history.head,
        steps=list(choice.steps),
        ghosts=found.ghosts,
        warnings=[*warnings, *(_left_out(family, undone) if choice.undone else []), *_built_on(read, family)],
    )


def _built_on(read: Tx, family: Sequence[Unit]) -> list[str]:
    """What is open and was to build on what goes away: it goes on without."""
    own = {item.id for item in family}
    return [
        f"{dependent.id} ({dependent.title}) builds on {item.id} and is open: it is told, and goes on without"
        for item in family
        for dependent in (units.get(read, name) for name in relations.downstream(read, item.id))
        if not dependent.terminal and dependent.id not in own
    ]


def _left_out(family: Sequence[Unit], undone: Set[str]) -> list[str]:
    """A person may have brought back what was reverted before: that is a commit of theirs, and stays."""
    names = [item.id for item in family if item.id in undone and item.parent_id not in undone]
    return [
        f"{name} was reverted before and is left out: if you brought it back since, undo that by git"
        for name in names
    ]


def _require_revertible(read: Tx, unit: Unit, family: Sequence[Unit]) -> None:
    if unit.reverted_at is not None:
        raise WrongState(
            f"{unit.id} was reverted already, at {rfc3339(unit.reverted_at)}", hint=f"sf why {unit.id}"
        )
    running = [
        item.id
        for item in (*family, *_above(read, unit))
        if item.status is Status.RUNNING or item.claim_holder
    ]
    if running:
        raise WrongState(
            f"{', '.join(running[:5])} is running, or was when sf ended",
            hint="sf pause, or sf auto to bring it in order, or sf abandon; then again",
        )


async def _find(history: History, workshop: Workshop, read: Tx, unit: Unit, family: Sequence[Unit]) -> _Found:
    """By name first; a commit on record that is gone is looked for by name, then by its subject."""
    commits = await history.naming(unit.id)
    present = {commit.id for commit in commits}
    by_subject: list[Authored] = []
    ghosts: list[Ghost] = []
    unmerged = 0
    on_record = frozenset(name for member in family for name in _recorded(read, member))
    for member in family:
        if member.reverted_at is not None:
            continue
        for recorded in _recorded(read, member):
            if recorded in present or await history.reaches(recorded):
                continue
            if not workshop.owner(member).completed:
                unmerged += 1
                continue
            ghost, instead = await _trace(history, member, recorded, commits)
            ghosts.append(ghost)
            by_subject += instead
    if by_subject:
        commits = await history.in_order(
            list({commit.id: commit for commit in (*commits, *by_subject)}.values())
        )
    return _Found(commits, on_record, frozenset(commit.id for commit in by_subject), ghosts, unmerged)


async def _is_rewritten(
    history: History, workshop: Workshop, read: Tx, unit: Unit, family: Sequence[Unit]
) -> bool:
    """Whether commits on record are gone from the branch: only names are left to go by then."""
    for member in (*family, *_above(read, unit)):
        if workshop.owner(member).completed:
            for recorded in _recorded(read, member):
                if not await history.reaches(recorded):
                    return True
    return False


def _above(read: Tx, unit: Unit) -> list[Unit]:
    found: list[Unit] = []
    parent_id = unit.parent_id
    while parent_id is not None:
        found.append(units.get(read, parent_id))
        parent_id = found[-1].parent_id
    return found


async def _landed_above(history: History, read: Tx, unit: Unit) -> set[str]:
    """What came in by the merges on record of the units above: a slice may have landed with its milestone."""
    found: set[str] = set()
    for name in (name for above in _above(read, unit) for name in _recorded(read, above)):
        merge = await history.find(name)
        if merge is not None and len(merge.parents) > 1:
            found |= {commit.id for commit in await history.brought_in(merge)}
    return found


def _without_foreign(found: _Found, brought: Mapping[str, Sequence[Authored]], above: Set[str]) -> _Found:
    """Leave out what bears the unit's name and is another project's: every clone counts its units from one.

    A unit's own are on record, or came in by a merge that is.
    """
    own = {*found.recorded, *above}
    for merge, others in brought.items():
        if merge in own:
            own |= {commit.id for commit in others}
    return msgspec.structs.replace(found, commits=[commit for commit in found.commits if commit.id in own])


def _recorded(read: Tx, unit: Unit) -> list[str]:
    rows = records.evidence(read, unit.id)
    found = (row["commit_id"] for row in rows if row["kind"] == "merge" and row["commit_id"])
    return list(dict.fromkeys(found))


async def _trace(
    history: History, unit: Unit, recorded: str, named: Sequence[Authored]
) -> tuple[Ghost, list[Authored]]:
    """What stands on the branch for a commit that is gone.

    A commit that names the unit; else those that name what is below it, where a merge was dropped, or above
    it, where a branch became one commit; else the only one with its subject.
    """
    made = work_subject(unit.title) if unit.in_slice else landing_subject(unit.id, unit.title)
    subject = await history.subject_of(recorded) or made
    ghost = Ghost(unit.id, recorded, subject)
    same = [commit.id for commit in named if unit.id in commit.units]
    kin = [commit.id for commit in named if any(is_kin(name, unit.id) for name in commit.units)]
    if same or kin:
        return msgspec.structs.replace(ghost, found=tuple(same or kin), how="name"), []
    alike = await history.with_subject(subject, unit.base_commit)
    if len(alike) != 1:
        return ghost, []
    return msgspec.structs.replace(ghost, found=(alike[0].id,), how="subject"), alike


async def _require_separable(workshop: Workshop, unit: Unit, choice: Choice) -> None:
    """Refuse where a commit is not the unit's alone: to revert it would take the work of others away."""
    for commit in choice.shared:
        others = ", ".join(sorted(commit.units - {unit.id}))
        raise WrongState(
            f"{commit.id[:10]} ({commit.subject}) holds the work of {unit.id} together with {others}",
            hint=f"revert what holds them all, or by hand: git revert {commit.id[:10]}",
        )
    for commit in choice.joining:
        if not await only_joins(workshop.owned, commit):
            whole = f"sf revert {unit.parent_id}" if unit.parent_id else "by hand: git revert"
            raise WrongState(
                f"{commit.id[:10]} ({commit.subject}) resolved a merge with the work of others in one commit",
                hint=f"revert what holds both as a whole: {whole}" if unit.parent_id else whole,
            )


def _require_whole(branch: str, ghosts: Sequence[Ghost]) -> None:
    """Refuse where a part cannot be found: half of a unit undone would be on record as all of it."""
    lost = [ghost for ghost in ghosts if not ghost.found]
    if lost:
        raise WrongState(
            f"{_named(lost)} of {lost[0].unit_id} is gone from {branch}; no commit has its name or subject",
            hint="sf revert each part that is still there under its name, and undo the rest by hand",
        )


def _named(ghosts: Sequence[Ghost]) -> str:
    return ", ".join(f"{ghost.commit[:10]} ({ghost.subject})" for ghost in ghosts[:3])


def _nothing(unit: Unit, branch: str, choice: Choice, found: _Found) -> WrongState:
    if choice.undone:
        return WrongState(f"every commit of {unit.id} on {branch} was reverted already")
    if found.ghosts:
        return WrongState(
            f"the commits of {unit.id} are gone from {branch}, and none has their name or subject: "
            f"{_named(found.ghosts)}",
            hint=f"git log {branch} shows what became of them",
        )
    if not unit.terminal or found.unmerged:
        return WrongState(
            f"nothing of {unit.id} has been merged into {branch} yet",
            hint=f'sf abandon {unit.id} "reason" calls it off' if not unit.terminal else f"sf why {unit.id}",
        )
    return WrongState(f"{unit.id} has no commit on {branch}", hint=f"sf why {unit.id}")


def _warnings(branch: str, steps: Sequence[Step], ghosts: Sequence[Ghost]) -> list[str]:
    found = [
        f"{step.commit[:10]} is a merge: it is reverted with the {step.brought} commit(s) that it brought in"
        for step in steps
        if step.is_merge
    ]
    found += [
        f"{step.commit[:10]} names no unit and was found by its subject alone: look at it"
        for step in steps
        if step.by_subject
    ]
    found += [
        f"{ghost.commit[:10]}, on record for {ghost.unit_id}, is not on {branch} any more; "
        f"{', '.join(name[:10] for name in ghost.found)} stands for it"
        for ghost in ghosts
    ]
    return found
