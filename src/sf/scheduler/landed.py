"""What a unit's merge has put on a branch already, whether or not its run lived to record it."""

from __future__ import annotations

import contextlib

from sf.domain.ids import folder_name
from sf.domain.phases import Phase
from sf.domain.reverting import landing_subject, work_subject
from sf.domain.units import Unit
from sf.errors import BranchGone
from sf.harness.workshop import Workshop
from sf.workspaces.owned import OwnedRepository


async def on_integration(workshop: Workshop, unit: Unit, head: str) -> str | None:
    """The commit by which the unit landed: it brought the unit's branch in, whatever it says by now.

    Where the integration branch was rewritten, the one that bears the unit's name.
    """
    tip = await workshop.owned.ref(f"refs/heads/{unit.branch}") if unit.branch else None
    if tip is not None and tip != unit.base_commit:
        joined = await workshop.owned.joined_by(tip, head)
        if joined is not None:
            return joined
    return await _bearing(workshop, unit, head, landing_subject(unit.id, unit.title))


async def note(owned: OwnedRepository, unit: Unit, tip: str, commit: str) -> None:
    """Keep the commit by which a tip is about to land: nothing else tells, once the branch is rewritten."""
    await owned.set_ref(f"{_notes(unit)}{tip}", commit)


async def noted(workshop: Workshop, unit: Unit, tip: str, head: str) -> str | None:
    """That commit, if the integration branch has or had it: whatever became of it, the tip has landed once.

    What it had is told by its log, which git writes as it moves the branch; where none is kept, by nobody.
    """
    commit = await workshop.owned.ref(f"{_notes(unit)}{tip}")
    if commit is None or await workshop.owned.is_ancestor(commit, head):
        return commit
    return commit if workshop.user.has_left(workshop.integration_branch(unit), commit) else None


async def forget(owned: OwnedRepository, unit: Unit) -> None:
    """Drop the notes: what is on record as landed is not landed again."""
    for name, commit in (await owned.refs(_notes(unit))).items():
        await owned.delete_ref(name, commit)


def _notes(unit: Unit) -> str:
    return f"refs/sf/landing/{folder_name(unit.id)}/"


async def by_killed_merge(workshop: Workshop, unit: Unit) -> str | None:
    """The commit of a merge that was cut off after it had moved its branch, or the slice's."""
    if unit.phase is not Phase.MERGE or unit.base_commit is None:
        return None
    if not unit.in_slice:
        with contextlib.suppress(BranchGone):
            head = await workshop.integration_head(unit)
            return await on_integration(workshop, unit, head) or await _still_there(workshop, unit, head)
        return None
    branch = workshop.owner(unit).branch
    tip = await workshop.owned.ref(f"refs/heads/{branch}") if branch else None
    return await _bearing(workshop, unit, tip, work_subject(unit.title)) if tip else None


async def _still_there(workshop: Workshop, unit: Unit, head: str) -> str | None:
    """The commit that landed, where the branch was rewritten without it and has all that it changed."""
    tip = await workshop.owned.ref(f"refs/heads/{unit.branch}") if unit.branch else None
    commit = await noted(workshop, unit, tip, head) if tip else None
    if commit is None:
        return None
    before, *_ = await workshop.owned.parents(commit)
    again = await workshop.owned.merge_from(before, head, commit)
    return commit if again.tree == await workshop.owned.tree_of(head) else None


async def _bearing(workshop: Workshop, unit: Unit, head: str, subject: str) -> str | None:
    """The newest commit with a subject since the unit began."""
    # As git shows a subject: without the space at its ends, and lines joined.
    wanted = subject.split()
    since = await workshop.owned.log(unit.base_commit, head)
    return next((commit.id for commit in since if commit.subject.split() == wanted), None)
