"""Whether the session may still spend: when it may not, nothing new begins until there is room again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sf.domain import outcomes as o
from sf.domain.attention import Question
from sf.harness.desk import Desk
from sf.scheduler import replies
from sf.store import spending
from sf.store.glance import Glance


class Purse:
    """The session's money, as the loop must know it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._being_told = 0
        self._unseen = False
        """Whether something was asked since the last look: what the tick saw may be older."""
        self._short: Question | None = None
        """What was asked last; kept, though withdrawn, while anything runs."""
        self.empty = ""
        """Why nothing more may be spent; nothing when it may."""
        self.waits = False
        """Whether the question for more has a default, which is given at its time."""

    @contextlib.contextmanager
    def telling(self, outcome: o.AnyOutcome) -> Iterator[o.Overspent | None]:
        """While the end of a run is written: for what the session had no room, if it had none.

        Nothing is dispatched from before the unit is ready again until the question has been seen.
        """
        if not isinstance(outcome, o.Overspent) or outcome.scope != "session":
            yield None
            return
        self.empty = outcome.detail
        self._being_told += 1
        self._unseen = True
        try:
            yield outcome
        finally:
            self._being_told -= 1

    async def begin(self) -> None:
        """Withdraw what an earlier start here asked: who needed it may be gone or cheaper now, or asks again.

        One that gets a default in time stays, with its deadline: else who starts often would never get it.
        """
        asked, now = replies.asked_for_session(self._desk.database.read), self._desk.clock.now()
        if asked is not None and asked.due_at is None and replies.askers(asked) <= {self._desk.station}:
            await self._desk.database.write(lambda tx: replies.withdraw_asked(tx, now))

    async def look(self, seen: Glance, *, running: int) -> bool:
        """See whether what was asked for is there now, and withdraw the question if so; whether it was.

        A run that is between two requests will reserve again: what was refused gets in only when there is
        room for every run beside it, or when none is left.
        """
        if self._being_told:
            return False
        desk, read = self._desk, self._desk.database.read
        asked = replies.asked_for_session(read) if seen.questions or self._unseen else None
        self._unseen = False
        # Another folder's may be for steps that are dearer than any here.
        ours = asked if asked is not None and replies.asks_for(asked, desk.station) else None
        self._short = ours or (self._short if running else None)
        self.empty, self.waits = "", ours is not None and ours.due_at is not None
        if self._short is None:
            return False
        account = spending.account(read, "session", self._short.session_id)
        room, wanted = account.room(desk.rules.caps), replies.wanted_by(read, self._short)
        if room is not None and (room < wanted or room + account.reserved < wanted * (1 + running)):
            self.empty = self._short.question
        if asked is None or not replies.has_room(read, asked, desk.rules, desk.station):
            return False
        rules, now, station = desk.rules, desk.clock.now(), desk.station
        return await desk.database.write(lambda tx: replies.withdraw_for_session(tx, rules, now, station))
