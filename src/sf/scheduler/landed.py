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


async def note_replay(owned: OwnedRepository, unit: Unit, tip: str, commit: str) -> None:
    """Keep the commit by which a tip is about to land that it will not have for a parent."""
    await owned.set_ref(f"{_replays(unit)}{tip}", commit)


async def replayed(owned: OwnedRepository, unit: Unit, tip: str, head: str) -> str | None:
    """That commit, if the integration branch has it: whatever became of it since, the tip has landed once."""
    commit = await owned.ref(f"{_replays(unit)}{tip}")
    return commit if commit is not None and await owned.is_ancestor(commit, head) else None


async def forget_replays(owned: OwnedRepository, unit: Unit) -> None:
    """Drop the notes: what is on record as landed is not landed again."""
    for name, commit in (await owned.refs(_replays(unit))).items():
        await owned.delete_ref(name, commit)


def _replays(unit: Unit) -> str:
    return f"refs/sf/replay/{folder_name(unit.id)}/"


async def by_killed_merge(workshop: Workshop, unit: Unit) -> str | None:
    """The commit of a merge that was cut off after it had moved its branch, or the slice's."""
    if unit.phase is not Phase.MERGE or unit.base_commit is None:
        return None
    if not unit.in_slice:
        with contextlib.suppress(BranchGone):
            return await on_integration(workshop, unit, await workshop.integration_head(unit))
        return None
    branch = workshop.owner(unit).branch
    tip = await workshop.owned.ref(f"refs/heads/{branch}") if branch else None
    return await _bearing(workshop, unit, tip, work_subject(unit.title)) if tip else None


async def _bearing(workshop: Workshop, unit: Unit, head: str, subject: str) -> str | None:
    """The newest commit with a subject since the unit began."""
    # As git shows a subject: without the space at its ends, and lines joined.
    wanted = subject.split()
    since = await workshop.owned.log(unit.base_commit, head)
    return next((commit.id for commit in since if commit.subject.split() == wanted), None)
