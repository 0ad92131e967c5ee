"""What is announced in process, always after the transaction that made it true."""

from __future__ import annotations

from typing import Any

import msgspec

from sf.domain.clock import Instant


class Event(msgspec.Struct, frozen=True):
    """One announcement. `name` is one of the constants below."""

    name: str
    at: Instant
    unit_id: str = ""
    data: dict[str, Any] = {}


PRE_DISPATCH = "PreDispatch"
POST_UNIT = "PostUnit"
PHASE_CHANGE = "PhaseChange"
AUTO_LOOP = "AutoLoop"
WORKTREE_CREATE = "WorktreeCreate"
WORKTREE_DELETE = "WorktreeDelete"
MERGE_READY = "MergeReady"
MERGE_CONFLICT = "MergeConflict"
GATE_BLOCKED = "GateBlocked"
GATE_STARTED = "GateStarted"
GATE_RESULT = "GateResult"
RUN_STARTED = "RunStarted"
RUN_ENDED = "RunEnded"
DELAYED = "Delayed"
TURN_ENDED = "TurnEnded"
TOOL_STARTED = "ToolStarted"
TOOL_CALLED = "ToolCalled"
STATE_CHANGED = "AttemptState"
HELD = "Held"
UNIT_CLOSED = "UnitClosed"
CONFIG_RELOADED = "ConfigReloaded"
STOPPING = "Stopping"
WARNING = "Warning"
