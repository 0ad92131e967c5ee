"""Runs: one execution of work for a unit under one claim, and the states an attempt passes through."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from sf.domain.clock import Instant
from sf.domain.phases import Phase


class AttemptState(StrEnum):
    """The eleven states of an attempt. Canceled is not failed: it is never retried."""

    PREPARING_WORKSPACE = "preparing_workspace"
    BUILDING_PROMPT = "building_prompt"
    LAUNCHING_AGENT = "launching_agent"
    INITIALIZING_SESSION = "initializing_session"
    STREAMING_TURN = "streaming_turn"
    FINISHING = "finishing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    CANCELED = "canceled"


class RunOutcome(StrEnum):
    """How a run ended, as its row says."""

    SUCCESS = "success"
    FAILURE = "failure"
    ABANDONED = "abandoned"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"
    UNIT_TIMEOUT = "unit_timeout"
    TURN_TIMEOUT = "turn_timeout"
    STALLED = "stalled"


class TurnKind(StrEnum):
    """The first turn carries the task; later ones only guidance."""

    FIRST = "first"
    CONTINUATION = "continuation"


class Lease(msgspec.Struct, frozen=True):
    """What a run may write under: the unit, its fencing token, and who holds the claim."""

    unit_id: str
    run_id: str
    attempt: int
    holder: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `runs`."""

    id: str
    unit_id: str
    attempt: int
    phase: Phase
    plan_version: int
    started_at: Instant
    ended_at: Instant | None = None
    state: AttemptState = AttemptState.PREPARING_WORKSPACE
    outcome: RunOutcome | None = None
    error_code: str | None = None
    detail: str = ""
    model: str | None = None
    tree: str | None = None
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost_micro_usd: int = 0


_BY_CODE = {
    "turn_timeout": (RunOutcome.TURN_TIMEOUT, AttemptState.TIMED_OUT),
    "unit_timeout": (RunOutcome.UNIT_TIMEOUT, AttemptState.TIMED_OUT),
    "gate_timeout": (RunOutcome.FAILURE, AttemptState.TIMED_OUT),
    "stalled": (RunOutcome.STALLED, AttemptState.STALLED),
}


def ending_of(error_code: str) -> tuple[RunOutcome, AttemptState]:
    """How a run that failed with this code is recorded."""
    return _BY_CODE.get(error_code, (RunOutcome.FAILURE, AttemptState.FAILED))
