"""Spending: what a request may cost at most, where that is counted, and when a scope has no room for it.

Money is whole micro-dollars. A request is reserved at its ceiling before it is made and settled afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Scope = Literal["unit", "milestone", "session"]
SCOPES: tuple[Scope, ...] = ("unit", "milestone", "session")
Settled = Literal["answered", "refused", "cut", "crashed"]
"""How a reservation ended: with an answer, refused by the provider (free), cut off, or left by a crash.

What was cut off or left counts at its estimate, because the provider has billed it. So does an answer that
came without its usage: it is entered as cut off.
"""


class Caps(msgspec.Struct, frozen=True):
    """The most that each scope may spend, in micro-dollars; 0 is no limit."""

    unit: int = 0
    milestone: int = 0
    session: int = 0

    def of(self, scope: Scope) -> int:
        """The cap of one scope."""
        return {"unit": self.unit, "milestone": self.milestone, "session": self.session}[scope]

    @property
    def any(self) -> bool:
        """Whether anything is capped at all."""
        return bool(self.unit or self.milestone or self.session)


class Account(msgspec.Struct, frozen=True):
    """What one scope has spent, has reserved, and was allowed by a person beyond its cap."""

    scope: Scope
    key: str
    spent: int = 0
    reserved: int = 0
    allowance: int = 0

    def room(self, caps: Caps) -> int | None:
        """What may still be reserved; None when there is no cap."""
        cap = caps.of(self.scope)
        return None if not cap else cap + self.allowance - self.spent - self.reserved


class Breach(msgspec.Struct, frozen=True):
    """A scope that has no room for a request."""

    account: Account
    cap: int
    wanted: int

    def told(self) -> str:
        """The breach in one sentence."""
        account = self.account
        reserved = f", {dollars(account.reserved)} reserved" if account.reserved else ""
        return (
            f"the {account.scope} {account.key} may spend {dollars(self.cap + account.allowance)}; "
            f"it has spent {dollars(account.spent)}{reserved}, "
            f"and what comes next may cost up to {dollars(self.wanted)}"
        )


def breach(accounts: Iterable[Account], caps: Caps, wanted: int) -> Breach | None:
    """The widest scope that has no room: when the session is out of money, no smaller one matters."""
    found = {account.scope: account for account in accounts}
    for scope in reversed(SCOPES):
        account = found[scope]
        room = account.room(caps)
        if room is not None and wanted > room:
            return Breach(account, caps.of(scope), wanted)
    return None


def dollars(micro_usd: int) -> str:
    """An amount for people."""
    return f"${micro_usd / 1_000_000:.2f}" if micro_usd % 10_000 == 0 else f"${micro_usd / 1_000_000:.4f}"


def micro_usd(amount: float) -> int:
    """Whole micro-dollars of an amount in dollars."""
    return round(amount * 1_000_000)
