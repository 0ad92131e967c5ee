"""Questions to a person: what may be answered to each, and what happens when nobody does."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sf.domain.clock import Instant
from sf.domain.spending import micro_usd
from sf.domain.units import HoldKind

ABANDON = "abandon"
LOOKED_AGAIN = "recheck"
"""What closes a question whose unit is let go only to see whether its cause is still there."""

SESSION_BUDGET = "session_budget"
"""The kind of the one question that is not about a unit."""

Kind = Literal[
    "uat",
    "escalated",
    "blocked",
    "merge_conflict",
    "no_evidence",
    "checkout_dirty",
    "crash_loop",
    "run_limit",
    "budget",
    "session_budget",
]

ANSWERS: dict[str, str] = {
    HoldKind.UAT: '"approve", or "reject: why"',
    HoldKind.ESCALATED: "your answer, in words; the unit is planned anew with it",
    HoldKind.BLOCKED: "your answer, in words; the unit goes on with it",
    HoldKind.MERGE_CONFLICT: '"retry", once the worktree is resolved',
    HoldKind.NO_EVIDENCE: '"retry", once a gate is configured',
    HoldKind.CHECKOUT_DIRTY: '"retry"; sf also looks by itself',
    HoldKind.CRASH_LOOP: '"again"',
    HoldKind.RUN_LIMIT: '"again", for a hundred more runs',
    HoldKind.BUDGET: 'how many dollars more it may spend, such as "5"',
    SESSION_BUDGET: 'how many dollars more the session may spend, such as "20"',
}
"""What `sf reply` takes for each kind. Every question about a unit also takes "abandon"."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `attention`: something that waits for a person."""

    id: str
    kind: str
    question: str
    created_at: Instant
    session_id: str
    unit_id: str | None = None
    blocker_id: str | None = None
    data: dict[str, Any] = {}
    default_answer: str | None = None
    due_at: Instant | None = None
    closed_at: Instant | None = None
    answer: str | None = None
    answered_by: str | None = None


class Patience(msgspec.Struct, frozen=True):
    """What happens to a kind of question that nobody answers."""

    default: str
    deadline_ms: int


def back_pressure(questions: int, most: int) -> str:
    """Why nothing new is begun when so many questions wait; empty when it may be."""
    if questions <= most:
        return ""
    return f"{questions} questions wait, and nothing new begins above {most}: answer some (sf attention)"


def money(answer: str) -> float | None:
    """The dollars that an answer names: `5`, `+5`, `$5.50`; None when it names none above zero."""
    try:
        amount = float(answer.strip().lstrip("+").lstrip("$"))
    except ValueError:
        return None
    return amount if 0 < amount < 1e6 and micro_usd(amount) else None


def takes(kind: str, answer: str) -> bool:
    """Whether an answer means anything to a question of this kind."""
    if answer.strip().lower() == ABANDON:
        return kind != SESSION_BUDGET
    match kind:
        case HoldKind.UAT:
            return acceptance(answer) is not None
        case HoldKind.BUDGET | "session_budget":
            return money(answer) is not None
        case HoldKind.ESCALATED | HoldKind.BLOCKED:
            return bool(answer.strip())
        case HoldKind.CRASH_LOOP | HoldKind.RUN_LIMIT:
            return answer.strip().lower() == "again"
        case _:
            return answer.strip().lower() == "retry"


def may_be_default(kind: str, answer: str) -> bool:
    """Whether an answer may be given without a person: the limit of runs bounds every loop, so not to it."""
    return kind != HoldKind.RUN_LIMIT or answer.strip().lower() == ABANDON


def acceptance(answer: str) -> tuple[bool, str] | None:
    """Whether an answer accepts or rejects, and why it rejects; None when it does neither.

    A yes with a condition is no yes: what merges cannot be asked back.
    """
    word, _, rest = answer.strip().partition(":")
    if word.strip().lower() in ("approve", "accept", "yes"):
        return (True, "") if not rest.strip() else None
    if word.strip().lower() == "reject" and rest.strip():
        return False, rest.strip()
    return None
