"""Whether a run still changes its tree. Looked at once in so many turns: a scan of the folder costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

Pace = Literal["going", "pivot", "stale"]


class Progress:
    """The trees that a run has left behind; only one that was never there before is progress."""

    def __init__(self, tree: Callable[[], Awaitable[str]], every: int) -> None:
        self.every = every
        self._tree = tree
        self._seen: set[str] = set()
        self._turned = False

    async def begin(self) -> None:
        """Remember the tree that the run starts from."""
        if self.every:
            self._seen.add(await self._tree())

    async def after(self, turns: int) -> Pace:
        """Where the run stands after so many turns: the first stretch without progress asks for a pivot."""
        if not self.every or turns % self.every:
            return "going"
        tree = await self._tree()
        if tree not in self._seen:
            self._seen.add(tree)
            return "going"
        if self._turned:
            return "stale"
        self._turned = True
        return "pivot"
