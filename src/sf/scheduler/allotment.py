"""Who of the units that were parked for want of money may go on: as many as the room reaches for."""

from __future__ import annotations

from collections import Counter

from sf.domain.attention import Question
from sf.domain.clock import Instant
from sf.domain.spending import Account, Caps
from sf.store import leases, spending
from sf.store.tx import Tx


class Allotment:
    """One look at the accounts, in which units are let go one after the other."""

    def __init__(self, tx: Tx, caps: Caps, now: Instant) -> None:
        self._tx = tx
        self._caps = caps
        self._now = now
        self._taken: Counter[tuple[str, str]] = Counter()

    def reaches(self, asked: Question) -> bool:
        """Whether there is room for what a unit asked for, and for everyone else in what refused it.

        A run that is between two requests holds nothing just now, nor does who was let go a moment ago: they
        would cut each other off in turns, until the money is gone and nothing is done.
        """
        refusing, wanted = self._refusing(asked), int(asked.data["wanted"])
        room = refusing.room(self._caps)
        beside = self._beside(refusing, wanted)
        return room is None or (room >= wanted and room + refusing.reserved >= wanted + beside)

    def has_room(self, asked: Question) -> bool:
        """Whether there is room for what was asked for in what refused it, whoever else may want it.

        Where another account has none, the next run meets that, and asks in its name.
        """
        room = self._refusing(asked).room(self._caps)
        return room is None or room >= int(asked.data["wanted"])

    def _refusing(self, asked: Question) -> Account:
        return spending.account(self._tx, asked.data["scope"], asked.data["key"])

    def take(self, asked: Question) -> None:
        """Count what a unit that is let go will want next."""
        self._taken[asked.data["scope"], asked.data["key"]] += int(asked.data["wanted"])

    def _beside(self, account: Account, wanted: int) -> int:
        """What is to be left for others: as much for every run as for the one that asks."""
        # A folder that was killed spends nothing any more, whatever its rows say.
        live = (unit for unit in leases.running(self._tx) if (unit.claim_until or 0) >= self._now)
        payers = (spending.payer(self._tx, unit).keys() for unit in live)
        running = sum(keys.get(account.scope) == account.key for keys in payers)
        return running * wanted + self._taken[account.scope, account.key]
