"""One way to act: every tool call is judged here, step by step; the first refusal wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from sf import containment
from sf.domain.phases import WRITING, Phase
from sf.errors import SymlinkEscape
from sf.policy import areas, shell

Verdict = Literal["allow", "block", "ask", "escalate"]


class Action(msgspec.Struct, frozen=True):
    """What a tool call would do."""

    tool: str
    needs: Literal["read", "write", "exec", "submit"]
    paths: tuple[str, ...] = ()
    command: str | None = None


class Circumstances(msgspec.Struct, frozen=True):
    """Who asks, where, and under which plan."""

    unit_id: str
    phase: Phase
    root: Path
    reading: tuple[Path, ...] = ()
    allowed_areas: tuple[str, ...] = ()
    forbidden_areas: tuple[str, ...] = ()
    sandboxed: bool = True
    """Commands are contained, or the operator switched that off by name."""


class Decision(msgspec.Struct, frozen=True):
    """The judgement, with the step that made it and a reason the agent can act on."""

    verdict: Verdict
    step: str
    reason: str = ""
    risk: float = 0.0


Step = Callable[[Action, Circumstances], Decision | None]


def decide(action: Action, circumstances: Circumstances, steps: Sequence[Step] | None = None) -> Decision:
    """Judge an action."""
    for step in STEPS if steps is None else steps:
        decision = step(action, circumstances)
        if decision is not None:
            return decision
    return Decision("allow", "default", risk=_RISK[action.needs])


_RISK = {"read": 0.0, "submit": 0.0, "write": 0.3, "exec": 0.5}


def denylist(action: Action, circumstances: Circumstances) -> Decision | None:
    """Commands that are never run, whoever asks."""
    if action.command is None:
        return None
    verdict = shell.judge(action.command)
    return None if verdict.allowed else Decision("block", "denylist", verdict.reason, 1.0)


def phase_allows(action: Action, circumstances: Circumstances) -> Decision | None:
    """Nothing is written or run outside the writing phases."""
    if action.needs in ("read", "submit") or circumstances.phase in WRITING:
        return None
    return Decision(
        "block",
        "phase",
        f"{action.tool} is not possible in {circumstances.phase}: this phase only reads",
        0.5,
    )


def contained(action: Action, circumstances: Circumstances) -> Decision | None:
    """Paths stay inside the worktree; reading also reaches the unit's own folder."""
    roots = [circumstances.root]
    if action.needs == "read":
        roots += circumstances.reading
    for path in action.paths:
        if not any(_inside(root, path) for root in roots):
            return Decision("block", "containment", f"{path!r} is outside the worktree", 1.0)
    return None


def _inside(root: Path, path: str) -> bool:
    try:
        containment.resolve_inside(root, path)
    except SymlinkEscape:
        return False
    return True


def in_areas(action: Action, circumstances: Circumstances) -> Decision | None:
    """Writes stay within the plan's areas and off protected paths."""
    if action.needs != "write":
        return None
    changes = [
        areas.Change(
            path=containment.relative_inside(circumstances.root, path),
            status="M",
            old_mode="100644",
            new_mode="100644",
        )
        for path in action.paths
    ]
    found = areas.violations(
        changes,
        allowed=circumstances.allowed_areas,
        forbidden=circumstances.forbidden_areas,
        protected=areas.PROTECTED,
    )
    if not found:
        return None
    return Decision("block", "areas", "; ".join(f"{item.path}: {item.reason}" for item in found), 0.7)


def sandbox_ready(action: Action, circumstances: Circumstances) -> Decision | None:
    """A command needs its sandbox."""
    if action.needs != "exec" or circumstances.sandboxed:
        return None
    return Decision("block", "sandbox", "no sandbox is available for commands on this machine", 1.0)


STEPS: tuple[Step, ...] = (denylist, phase_allows, contained, in_areas, sandbox_ready)
