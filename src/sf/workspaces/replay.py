"""A unit's branch on a branch that may have been rewritten since: a merge, or the unit's own work alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sf.workspaces.owned import Joint, MergeResult, OwnedRepository


class Replay:
    """Joins a branch that began on `base`, and has taken in integration commits since, with any head."""

    def __init__(self, owned: OwnedRepository, base: str | None) -> None:
        self._owned = owned
        self._base = base
        self._known: dict[tuple[str, str], tuple[bool, MergeResult]] = {}

    async def joined(self, head: str, tip: str) -> tuple[bool, MergeResult]:
        """Whether only the work itself is put on the head, and what comes of it.

        It is a true merge while the base, what was taken in and the head are one line.
        """
        if (head, tip) not in self._known:
            self._known[head, tip] = await self._join(head, tip)
        return self._known[head, tip]

    async def _join(self, head: str, tip: str) -> tuple[bool, MergeResult]:
        if self._base is None:
            return False, await self._owned.merge_trees(head, tip)
        joints = await self._owned.joints(self._base, tip)
        begun_on = [self._base, *(joint.taken for joint in joints)]
        if await self._are_one_line([*begun_on, head]):
            return False, await self._owned.merge_trees(head, tip)
        by_stretches = await self._by_stretches(self._base, joints, head, tip)
        return True, by_stretches or await self._owned.merge_from(begun_on[-1], head, tip)

    async def _are_one_line(self, commits: Sequence[str]) -> bool:
        """Whether each of these commits has the one before it."""
        return all([await self._owned.is_ancestor(older, newer) for older, newer in pairwise(commits)])

    async def _by_stretches(
        self, base: str, joints: Sequence[Joint], head: str, tip: str
    ) -> MergeResult | None:
        """The work from `base` to `tip` on another head, stretch by stretch; None where one has a conflict.

        Of a merge that was taken in, that is what was made of it beyond what had been laid out. At once, and
        beside the last that was taken in, whatever was in that one too would not count as the unit's.
        """
        onto, since = head, base
        for joint in joints:
            own = await self._owned.merge_from(since, onto, joint.first)
            _, laid_out = await self.joined(joint.taken, joint.first)
            if own.tree is None or laid_out.tree is None:
                return None
            mended = await self._owned.merge_from(laid_out.tree, own.tree, joint.id)
            if mended.tree is None:
                return None
            onto, since = mended.tree, joint.id
        last = await self._owned.merge_from(since, onto, tip)
        return last if last.tree is not None else None
