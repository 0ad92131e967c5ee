"""Who of the units that were parked for want of money may go on: as many as the room reaches for."""

from __future__ import annotations

from collections import Counter

from sf.domain.attention import Question
from sf.domain.spending import Account, Caps, breach
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
        would cut each other off in turns, until the money is gone and nothing is done. The session's own
        money is the purse's.
        """
        keys = spending.payer(self._tx, unit).keys()
        accounts = {scope: spending.account(self._tx, scope, key) for scope, key in keys.items()}
        wanted = int(asked.data["wanted"])
        if breach(accounts.values(), self._caps, wanted) is not None:
            return False
        refusing = accounts[asked.data["scope"]]
        room = refusing.room(self._caps)
        return room is None or room + refusing.reserved >= wanted + self._beside(refusing, wanted)

    def take(self, asked: Question) -> None:
        """Count what a unit that is let go will want next."""
        self._taken[asked.data["scope"], asked.data["key"]] += int(asked.data["wanted"])

    def _beside(self, account: Account, wanted: int) -> int:
        """What is to be left for others: as much for every run as for the one that asks."""
        payers = (spending.payer(self._tx, unit).keys() for unit in leases.running(self._tx))
        running = sum(keys.get(account.scope) == account.key for keys in payers)
        return running * wanted + self._taken[account.scope, account.key]
