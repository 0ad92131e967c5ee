"""Commits that undo others, made on top of a branch without any checkout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from sf.domain.reverting import Authored, Step
from sf.workspaces.changes import EMPTY_TREE
from sf.workspaces.history import History
from sf.workspaces.owned import MergeResult, OwnedRepository
from sf.workspaces.refusals import RevertConflict

_SHOWN = 5


class Made(msgspec.Struct, frozen=True):
    """A step and the commit that reverts it; None where its change was no longer there."""

    step: Step
    commit: str | None


class Reversal(msgspec.Struct, frozen=True):
    """The branch as it would be, and how it came to be; `tip` is the head when nothing is left to undo."""

    tip: str
    made: tuple[Made, ...]


async def reverse(
    owned: OwnedRepository, head: str, steps: Sequence[Step], message: Callable[[Step], str]
) -> Reversal:
    """Write one commit for each step, in order, on top of `head`; no ref moves. Raises RevertConflict."""
    tip, made = head, []
    for step in steps:
        merged = await owned.merge_from(step.commit, tip, step.back_to or EMPTY_TREE)
        if merged.tree is None:
            raise await _refusal(owned, head, step, merged)
        commit = None
        if merged.tree != await owned.tree_of(tip):
            commit = tip = await owned.commit_tree(merged.tree, [tip], message(step))
        made.append(Made(step, commit))
    return Reversal(tip, tuple(made))


async def only_joins(owned: OwnedRepository, merge: Authored) -> bool:
    """Return whether a merge is exactly what git makes of its two parents, with nothing of its own."""
    if len(merge.parents) != 2:
        return False
    merged = await owned.merge_trees(*merge.parents)
    return merged.tree is not None and merged.tree == await owned.tree_of(merge.id)


async def _refusal(owned: OwnedRepository, head: str, step: Step, merged: MergeResult) -> RevertConflict:
    paths = tuple(sorted({item.path for item in merged.conflicts}))
    later = await History(owned, head).touching(paths, step.commit)
    named = "; ".join(f"{commit.id[:10]} {commit.subject}" for commit in later[:_SHOWN])
    more = f" and {len(later) - _SHOWN} more" if len(later) > _SHOWN else ""
    told = f"{step.commit[:10]} ({step.subject}) cannot be reverted: {', '.join(paths[:_SHOWN])} "
    told += f"changed again in {named}{more}" if named else "changed again since"
    by_hand = f"git revert {'-m 1 ' if step.is_merge else ''}{step.commit[:10]}"
    return RevertConflict(
        f"{told}; nothing was moved",
        paths=paths,
        later=tuple(commit.id for commit in later),
        hint=f"by hand: {by_hand}, then sf revert again to record it",
    )
