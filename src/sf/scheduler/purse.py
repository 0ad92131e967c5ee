"""Whether the session may still spend: when it may not, nothing new begins until a person allows more."""

from __future__ import annotations

from sf.domain import outcomes as o
from sf.domain.attention import SESSION_BUDGET
from sf.domain.units import Unit
from sf.harness.desk import Desk
from sf.scheduler import replies
from sf.store import attention, spending
from sf.store.glance import Glance


class Purse:
    """The session's money, as the loop must know it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.empty = ""
        """Why nothing more may be spent; nothing when it may."""

    async def ask(self, unit: Unit, outcome: o.Overspent) -> None:
        """A request had no room in the session: put the question up. Running work ends by itself."""
        self.empty = detail = outcome.detail
        rules, now = self._desk.rules, self._desk.clock.now()
        await self._desk.database.write(
            lambda tx: replies.ask_for_session(tx, unit.session_id, detail, outcome.wanted, rules, now)
        )

    def look(self, seen: Glance) -> None:
        """Whether an open question about the session's money still stands."""
        read = self._desk.database.read
        waiting = attention.waiting(read) if seen.questions else []
        asked = [item for item in waiting if item.kind == SESSION_BUDGET]
        self.empty = ""
        if asked:
            room = spending.account(read, "session", asked[0].session_id).room(self._desk.rules.caps)
            wanted = int(asked[0].data.get("wanted", 1))
            self.empty = asked[0].question if room is not None and room < wanted else ""
