"""Who of the units that were parked for want of money may go on: as many as the room reaches for."""

from __future__ import annotations

from collections import Counter

from sf.domain.attention import Question
from sf.domain.spending import Account, Caps
from sf.domain.units import Unit
from sf.store import leases, spending
from sf.store.tx import Tx


class Allotment:
    """One look at the accounts, in which units are let go one after the other."""

    def __init__(self, tx: Tx, caps: Caps) -> None:
        self._tx = tx
        self._caps = caps
        self._taken: Counter[tuple[str, str]] = Counter()

    def reaches(self, unit: Unit, asked: Question) -> bool:
        """Whether there is room for what a unit asked for, and for everyone else in what refused it.

        A run that is between two requests holds nothing just now, nor does who was let go a moment ago: they
        would cut each other off in turns, until the money is gone and nothing is done.
        """
        if not self.has_room(unit, asked):
            return False
        wanted = int(asked.data["wanted"])
        refusing = spending.account(self._tx, asked.data["scope"], asked.data["key"])
        room = refusing.room(self._caps)
        return room is None or room + refusing.reserved >= wanted + self._beside(refusing, wanted)

    def has_room(self, unit: Unit, asked: Question) -> bool:
        """Whether there is room for what a unit asked for, whoever else may want it.

        The session's own money is the purse's, which asks for it: a unit is not kept from doing so.
        """
        keys = spending.payer(self._tx, unit).keys()
        rooms = [
            spending.account(self._tx, scope, key).room(self._caps)
            for scope, key in keys.items()
            if scope != "session"
        ]
        return all(room is None or room >= int(asked.data["wanted"]) for room in rooms)

    def take(self, asked: Question) -> None:
        """Count what a unit that is let go will want next."""
        self._taken[asked.data["scope"], asked.data["key"]] += int(asked.data["wanted"])

    def _beside(self, account: Account, wanted: int) -> int:
        """What is to be left for others: as much for every run as for the one that asks."""
        payers = (spending.payer(self._tx, unit).keys() for unit in leases.running(self._tx))
        running = sum(keys.get(account.scope) == account.key for keys in payers)
        return running * wanted + self._taken[account.scope, account.key]
