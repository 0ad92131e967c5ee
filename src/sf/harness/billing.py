"""What a run's requests cost: reserved before each, settled as soon as its answer is there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sf.config.schema import Tier
from sf.domain.clock import Instant
from sf.domain.dialogue import Usage
from sf.domain.phases import Phase
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.errors import ModelUnavailable, SfError, SpendingReached
from sf.harness.desk import Desk
from sf.routing import route
from sf.store import runs, spending
from sf.store.runs import TurnRecord
from sf.store.tx import Tx

_INPUT = 50_000
"""Tokens of input by which terms are compared."""


class Billing:
    """The money of one run (harness.turn.Payments)."""

    def __init__(self, desk: Desk, unit: Unit, lease: Lease) -> None:
        self._desk = desk
        self._unit = unit
        self._lease = lease
        self._payer = spending.payer(desk.database.read, unit)
        self._terms: tuple[int, ...] = ()

    def begin(self) -> None:
        """A conversation begins: its requests are priced as configured now, whatever changes meanwhile."""
        self._terms = terms(self._desk, self._unit.phase)

    async def reserve(self, model: str, ceiling: int | None) -> str:
        """Reserve a request's ceiling in every scope; what is free needs no reservation."""
        caps = self._desk.rules.caps
        if ceiling is None and caps.any:
            provider, _, name = model.partition(":")
            raise ModelUnavailable(
                f"there is no price for {model}, so [budget] cannot be kept",
                hint=f"set providers.{provider}.prices.{name}",
            )
        if not ceiling:
            return ""
        now = self._desk.clock.now()

        def write(tx: Tx) -> str:
            spend_id = spending.reserve(
                tx, self._lease, self._payer, model=model, estimate=ceiling, caps=caps, now=now
            )
            runs.asks(tx, self._lease.run_id, model)
            return spend_id

        with _on_terms(self._terms):
            return await self._desk.database.write(write)

    async def answered(self, spend_id: str, usage: Usage) -> None:
        """Settle a reservation at what its answer used."""
        now = self._desk.clock.now()
        await self._desk.database.write(lambda tx: spending.settle(tx, spend_id, "answered", now, usage))

    async def unbilled(self, spend_id: str) -> None:
        """Let a reservation go for which nothing was billed."""
        now = self._desk.clock.now()
        await self._desk.database.write(lambda tx: spending.settle(tx, spend_id, "refused", now))

    def enter(self, tx: Tx, record: TurnRecord, now: Instant) -> int:
        """Settle or enter the request of a turn, in the turn's own transaction; what it cost."""
        if record.spend_id:
            return spending.settle(tx, record.spend_id, "answered", now, record.usage)
        spending.record(tx, self._lease, self._payer, model=record.model, usage=record.usage, now=now)
        return record.usage.cost_micro_usd

    async def promise(self, requests: int, characters: int) -> None:
        """Reserve a fan-out as a whole before it starts. Raises SpendingReached where there is no room."""
        config, caps = self._desk.config, self._desk.rules.caps
        name = route(config, self._unit.phase).model
        each = self._desk.catalog.cost_of(name, characters // 4, config.harness.max_output_tokens)
        if not (each and caps.any):
            return
        amount, now = requests * each, self._desk.clock.now()
        with _on_terms(terms(self._desk, self._unit.phase)):
            await self._desk.database.write(
                lambda tx: spending.promise(tx, self._lease, self._payer, amount=amount, caps=caps, now=now)
            )


@contextlib.contextmanager
def _on_terms(given: tuple[int, ...]) -> Iterator[None]:
    """A refusal says by which terms it was made."""
    try:
        yield
    except SpendingReached as refused:
        refused.terms = given
        raise


def terms(desk: Desk, phase: Phase) -> tuple[int, ...]:
    """What a request of a fixed size costs at most with each model of a phase, by the configuration of now.

    Empty where that cannot be known.
    """
    config = desk.config
    tiers: tuple[Tier | None, ...] = (None, "fast") if phase is Phase.REVIEW else (None,)
    try:
        costs = [
            desk.catalog.cost_of(route(config, phase, tier).model, _INPUT, config.harness.max_output_tokens)
            for tier in tiers
        ]
    except SfError:
        return ()
    return () if None in costs else tuple(cost or 0 for cost in costs)
