"""What the rules about rows look at: the columns that they speak of, of every row at one moment."""

from __future__ import annotations

import msgspec

from sf.domain.ids import UnitType
from sf.domain.phases import Phase
from sf.domain.spending import Scope
from sf.domain.units import HoldKind, Status


class UnitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of one unit that a rule speaks of."""

    id: str
    type: UnitType
    phase: Phase
    status: Status
    parent_id: str | None = None
    attempt: int = 0
    phase_rank: int = 0
    open_blockers: int = 0
    open_children: int = 0
    parent_ready: bool = True
    lane_open: bool = True
    lane_owner: str | None = None
    due_at: int | None = None
    hold_kind: HoldKind | None = None
    verdict: str | None = None
    claim_holder: str | None = None
    claim_until: int | None = None
    archived_at: int | None = None

    @property
    def terminal(self) -> bool:
        """Complete, or canceled."""
        return self.phase is Phase.COMPLETE or self.status is Status.CANCELED

    @property
    def closed(self) -> bool:
        """Terminal, and whoever waited for it has been told."""
        return self.archived_at is not None


class LiveRun(msgspec.Struct, frozen=True):
    """A run that has not ended."""

    id: str
    unit_id: str
    attempt: int


class OpenBlocker(msgspec.Struct, frozen=True):
    """A blocker about a unit that nobody has resolved."""

    id: str
    unit_id: str
    event: str


class OpenQuestion(msgspec.Struct, frozen=True):
    """A question about a unit that nobody has answered."""

    id: str
    unit_id: str
    kind: str


class Balance(msgspec.Struct, frozen=True):
    """What a scope has spent and reserved."""

    spent: int = 0
    reserved: int = 0


class Books(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the rules look at, read in one transaction."""

    units: dict[str, UnitFacts]
    now: int = 0
    upstream: tuple[tuple[str, str], ...] = ()
    """(unit, the unit that it waits for)"""
    live: tuple[LiveRun, ...] = ()
    blockers: tuple[OpenBlocker, ...] = ()
    questions: tuple[OpenQuestion, ...] = ()
    accounts: dict[tuple[Scope, str], Balance] = {}
    entries: dict[tuple[Scope, str], Balance] = {}
    """What the spend rows add up to, by scope."""
    reserving: tuple[str, ...] = ()
    """The runs that have open reservations."""
