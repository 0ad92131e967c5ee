"""A unit as the model of the state machine knows it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Piece:
    """A unit as the model knows it."""

    id: str
    type: str
    phase: str
    parent: Piece | None = None
    needs: list[Piece] = field(default_factory=list)
    children: list[Piece] = field(default_factory=list)
    planned: bool = False
    """It came with a complete plan of its own."""
    made_under: int = 1
    status: str = "pending"
    attempt: int = 0
    allowance: int = 100
    plan_version: int = 1
    holder: str | None = None
    until: int = 0
    due: int | None = None
    hold: str | None = None
    verdict: str | None = None
    ended: bool = False
    unreached: int = 0
    """Runs in a row that could not reach the provider."""
    lane: Piece | None = None
    """Of a slice: the task that owns its worktree."""

    @property
    def canceled(self) -> bool:
        return self.status == "canceled"

    @property
    def terminal(self) -> bool:
        return self.canceled or self.phase == "complete"

    @property
    def in_slice(self) -> bool:
        return self.type == "task" and self.parent is not None

    @property
    def open_children(self) -> int:
        return sum(not child.ended for child in self.children)

    @property
    def open_blockers(self) -> int:
        return sum(not need.ended for need in self.needs)

    @property
    def parent_ready(self) -> bool:
        return self.parent is None or self.parent.phase == "execute"

    @property
    def lane_open(self) -> bool:
        return not self.in_slice or self.parent is None or self.parent.lane in (None, self)

    def standings(self, now: int) -> list[str]:
        """Every reason for which it may stand where it does; the first one that holds is told."""
        reasons = {
            "running": self.status == "running",
            "held": self.hold is not None,
            "blocked": self.open_blockers > 0,
            "children": self.open_children > 0,
            "container": not self.parent_ready,
            "lane": not self.lane_open,
            "retry": self.due is not None,
        }
        return [name for name, holds in reasons.items() if holds] or ["ready"]
