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
        if not joints:
            return True, await self._owned.merge_from(self._base, head, tip)
        return True, await self._by_stretches(self._base, joints, head, tip)

    async def _are_one_line(self, commits: Sequence[str]) -> bool:
        """Whether each of these commits has the one before it."""
        return all([await self._owned.is_ancestor(older, newer) for older, newer in pairwise(commits)])

    async def _by_stretches(self, base: str, joints: Sequence[Joint], head: str, tip: str) -> MergeResult:
        """The work from `base` to `tip` on another head, stretch by stretch.

        Of a merge that was taken in, that is what was made of it beyond what had been laid out. Where a
        stretch conflicts, its paths are merged at once; and with them all that are not everywhere, for what
        is in conflict may have been moved there, or from there.
        """
        walk = _Walk(self._owned, head)
        since = base
        for joint in joints:
            await walk.along(since, joint.first)
            _, laid_out = await self.joined(joint.taken, joint.first)
            walk.leave_out(laid_out)
            await walk.along(laid_out.tree or str(laid_out.laid_out), joint.id)
            since = joint.id
        await walk.along(since, tip)
        if not walk.left_out:
            return MergeResult(walk.tree)
        owned, begun_on = self._owned, await self._without_own(base, joints, tip)
        passed = [commit for joint in joints for commit in (joint.first, joint.taken, joint.id)]
        paths = walk.left_out | await self._not_everywhere([base, *passed, begun_on, head, walk.tree, tip])
        theirs = await owned.with_paths(walk.tree, paths, tip)
        return await owned.merge_from(await owned.with_paths(head, paths, begun_on), head, theirs)

    async def _not_everywhere(self, trees: Sequence[str]) -> set[str]:
        """The paths that some of these commits or trees have, and others have not."""
        found = [set(await self._owned.files(tree)) for tree in trees]
        return found[0].union(*found) - found[0].intersection(*found)

    async def _without_own(self, base: str, joints: Sequence[Joint], tip: str) -> str:
        """The commit that was taken in last, without what the unit had done just the same.

        Beside the commit as it is, that would not count as the unit's, and go where the commit went. A file
        that the unit has taken away again stays in it, or that would not count as the unit's.
        """
        tree = base
        for joint in joints:
            undone = await self._owned.merge_from(joint.first, tree, joint.taken)
            tree = undone.tree or await self._owned.with_paths(
                str(undone.laid_out), undone.paths, joint.taken
            )
        here, without, left = [set(await self._owned.files(each)) for each in (joints[-1].taken, tree, tip)]
        return await self._owned.with_paths(tree, here - without - left, joints[-1].taken)


class _Walk:
    """A tree on its way from a head along a unit's work; the paths of conflicts stay what the head has."""

    def __init__(self, owned: OwnedRepository, head: str) -> None:
        self._owned = owned
        self._head = head
        self.tree = head
        self.left_out: frozenset[str] = frozenset()

    async def along(self, begin: str, end: str) -> None:
        """Take in the work from one commit or tree to another."""
        merged = await self._owned.merge_from(begin, self.tree, end)
        self.leave_out(merged)
        self.tree = merged.tree or str(merged.laid_out)
        if self.left_out:
            self.tree = await self._owned.with_paths(self.tree, self.left_out, self._head)

    def leave_out(self, merged: MergeResult) -> None:
        """Leave out what is in conflict in a merge."""
        self.left_out |= merged.paths
