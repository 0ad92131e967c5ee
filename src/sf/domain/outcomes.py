"""How a run can end, before anyone decides what follows from it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sf.domain.plans import Plan
from sf.domain.spending import Scope
from sf.domain.units import HoldKind


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """The base of the closed set below."""


class Done(Outcome, frozen=True):
    """The phase's product is there: code written, gates passed, review passed, merged."""

    note: str = ""


class Planned(Outcome, frozen=True):
    """A plan was accepted."""

    plan: Plan


class GateFailed(Outcome, frozen=True):
    """A gate refused the tree. `final` is exit code 2: no retry."""

    gate: str
    output: str
    limit: int | None = None
    final: bool = False
    code: str = "gate_failed"


class ChangesWanted(Outcome, frozen=True):
    """The review's synthesis asks for changes, or there is nothing to land."""

    findings: str
    reason: str = "review wants changes"


class Conflict(Outcome, frozen=True):
    """The branch does not merge; the conflict is laid out in the worktree."""

    detail: str


class Failed(Outcome, frozen=True):
    """An abnormal end. It is charged as a try."""

    code: str
    message: str


class Interrupted(Outcome, frozen=True):
    """Stopped from outside with nothing charged."""

    code: Literal["paused", "shutdown"]


class Crashed(Outcome, frozen=True):
    """sf itself died during the run; found at the next start."""


class Waiting(Outcome, frozen=True):
    """To be tried again later, for nobody failed: a quota is shut, a branch moves, the network is away."""

    seconds: float | None
    """None where nobody named a time: the pauses grow from one to the next."""
    message: str
    code: str = "rate_limited"
    unanswered: bool = False
    """The run had no answer and nothing was billed for it: all its requests were refused."""
    times: int = 1
    """How many runs of the unit have ended so in a row, with this one."""


class Unconfigured(Outcome, frozen=True):
    """The run could not be made: a key, a model, a gate or a sandbox is missing. Nothing is charged."""

    code: str
    message: str


class CalledOff(Outcome, frozen=True):
    """Canceled: by the operator or by the supervisor."""

    code: str


class AskedHuman(Outcome, frozen=True):
    """The agent cannot go on without an answer."""

    question: str


class GaveUp(Outcome, frozen=True):
    """The agent says that the task cannot be done."""

    reason: str


class WentStale(Outcome, frozen=True):
    """The agent's turns changed nothing, even after it was told to take another way."""

    detail: str


class Overspent(Outcome, frozen=True):
    """A spending scope has no room for the next request; nothing is charged."""

    scope: Scope
    key: str
    detail: str
    wanted: int
    terms: tuple[int, ...] = ()
    """By which prices and limits it was refused: cheaper ones let the unit try again."""


class Reassessed(Outcome, frozen=True):
    """The answer of the reassess phase."""

    verdict: Literal["replan", "abandon", "escalate"]
    text: str


class Held(Outcome, frozen=True):
    """The run found a condition that someone else must change."""

    kind: HoldKind
    detail: str
    data: dict[str, Any] = {}


AnyOutcome = (
    Done
    | Planned
    | GateFailed
    | ChangesWanted
    | Conflict
    | Failed
    | Interrupted
    | Crashed
    | Waiting
    | Unconfigured
    | CalledOff
    | AskedHuman
    | GaveUp
    | WentStale
    | Overspent
    | Reassessed
    | Held
)
