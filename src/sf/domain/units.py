"""A unit of work, its status, and the reasons for which it may stand still."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec

from sf.domain.clock import Instant
from sf.domain.ids import UnitType
from sf.domain.phases import Phase

Verdict = Literal["success", "abandoned"]


class Status(StrEnum):
    """Where a unit stands within its phase."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"


class HoldKind(StrEnum):
    """Why a unit is parked. Each has a way out, named by `way_out`."""

    UAT = "uat"
    ESCALATED = "escalated"
    BLOCKED = "blocked"
    MERGE_CONFLICT = "merge_conflict"
    NO_EVIDENCE = "no_evidence"
    CHECKOUT_DIRTY = "checkout_dirty"
    CRASH_LOOP = "crash_loop"
    RUN_LIMIT = "run_limit"
    BUDGET = "budget"


WAY_OUT: dict[HoldKind, str] = {
    HoldKind.UAT: 'sf uat-approve {id}   or   sf uat-reject {id} "reason"',
    HoldKind.ESCALATED: 'sf reply {id} "your answer"',
    HoldKind.BLOCKED: 'sf reply {id} "your answer"',
    HoldKind.MERGE_CONFLICT: "resolve the markers in its worktree (sf why {id}), then sf merge-resolve {id}",
    HoldKind.NO_EVIDENCE: "add a gate to [harness.gates], then sf merge-resolve {id}",
    HoldKind.CHECKOUT_DIRTY: "{cure}, then sf auto (a running one looks by itself)",
    HoldKind.CRASH_LOOP: "sf force-clear {blocker}",
    HoldKind.RUN_LIMIT: "sf force-clear {blocker}",
    HoldKind.BUDGET: 'sf reply {id} "dollars more", or raise [budget] (sf looks by itself)',
}

CURE = "cure"
"""The key of a question's data that says what clears the cause of its hold away."""


def way_out(kind: HoldKind, unit_id: str, blocker_id: str, data: dict[str, Any]) -> str:
    """How a person lets a unit go on, by the data of the question that its hold put."""
    cure = data.get(CURE, "put the checkout right")
    return WAY_OUT[kind].format(id=unit_id, blocker=blocker_id, cure=cure)


RECHECKED = frozenset({HoldKind.CHECKOUT_DIRTY, HoldKind.NO_EVIDENCE, HoldKind.BUDGET})
"""Holds whose condition sf looks at again by itself, without a model call."""

BLOCKER_EVENT: dict[HoldKind, str] = {
    HoldKind.UAT: "UATPending",
    HoldKind.ESCALATED: "Escalated",
    HoldKind.BLOCKED: "Question",
    HoldKind.MERGE_CONFLICT: "MergeConflict",
    HoldKind.NO_EVIDENCE: "NoEvidence",
    HoldKind.CHECKOUT_DIRTY: "CheckoutDirty",
    HoldKind.CRASH_LOOP: "CrashLoop",
    HoldKind.RUN_LIMIT: "RunLimit",
    HoldKind.BUDGET: "BudgetReached",
}

BRANCH = "branch"
"""The key of a hold's data that names the branch for want of which a unit is held."""
PATHS = "paths"
"""The key of a hold's data that names, quoted, what must go from the user's checkout before a merge.

Without it only another try can tell whether the cause is still there.
"""

GATE_BLOCKED = "GateBlocked"
"""The event of the blocker that a refusing gate puts up; it waits for an agent, not for a person."""

RESOLVES = "resolves"
"""The key of a fix task's metadata that names the merge laid out for it."""
PUT_AWAY = "put_away"
"""In a unit's metadata: whether its worktree was, when a hook could not be told of its end."""
HEARD = "told_of_its_end"
"""In a unit's metadata: the hooks that have heard of its end, when another could not be told yet."""


class Merging(msgspec.Struct, frozen=True):
    """A merge that is laid out in a worktree and waits to be resolved or mended."""

    parent: str
    """The integration commit that was taken in; the commit to come gets it as a parent."""
    label: str = ""
    """What follows `<<<<<<< ` in its markers; empty when it had no conflict."""
    beside: tuple[str, ...] = ()
    """Files with the other side of what markers cannot show; gone when that is resolved."""
    tree: str = ""
    """What was laid out; where the worktree holds something else, somebody has worked on it."""
    laid_out_by: str = ""
    """The run that did it."""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `units`. Instances are what the row said when it was read."""

    id: str
    session_id: str
    type: UnitType
    workflow: str
    workflow_hash: str
    phase: Phase
    status: Status
    title: str
    created_at: Instant
    updated_at: Instant
    parent_id: str | None = None
    attempt: int = 0
    run_allowance: int = 100
    plan_version: int = 1
    made_under: int = 1
    priority: int | None = None
    description: str = ""
    metadata: dict[str, Any] = {}
    plan: dict[str, Any] | None = None
    open_blockers: int = 0
    open_children: int = 0
    parent_ready: bool = True
    lane_open: bool = True
    due_at: Instant | None = None
    hold_kind: HoldKind | None = None
    hold_detail: str = ""
    reassess_reason: str | None = None
    verdict: Verdict | None = None
    claim_holder: str | None = None
    claim_until: Instant | None = None
    worker_host: str | None = None
    station: str | None = None
    """The project folder whose autopilot has its work, where the store is shared by several."""
    workspace: str | None = None
    branch: str | None = None
    base_commit: str | None = None
    merging: Merging | None = None
    archived_at: Instant | None = None
    reverted_at: Instant | None = None

    @property
    def terminal(self) -> bool:
        """Complete, whatever the verdict, or canceled. Parked is not terminal."""
        return self.phase is Phase.COMPLETE or self.status is Status.CANCELED

    @property
    def succeeded(self) -> bool:
        """Complete with success, and not reverted since."""
        return self.completed and self.reverted_at is None

    @property
    def completed(self) -> bool:
        """Complete with success, whatever became of it later."""
        return self.phase is Phase.COMPLETE and self.verdict == "success"

    @property
    def held_by(self) -> str:
        """The event of the blocker that holds it; empty when nothing does."""
        return BLOCKER_EVENT[self.hold_kind] if self.hold_kind is not None else ""

    @property
    def in_slice(self) -> bool:
        """A task that shares the worktree of a slice."""
        return self.type == "task" and self.parent_id is not None
