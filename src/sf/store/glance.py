"""What a tick must know before it does anything, in one statement that finds little when little is open."""

from __future__ import annotations

import msgspec

from sf.domain.clock import Instant
from sf.store import sql
from sf.store.tx import Tx

_Q = sql.load("glance")


class Glance(msgspec.Struct, frozen=True):
    """What is open at one moment."""

    intents: int
    session: str | None
    """The session's status, if there is a session."""
    expired: int
    """Running units of other holders whose claim has ended, with a run that can be."""
    claim_due: Instant | None
    """When the next claim of another holder ends, unless it is renewed."""
    unit_due: Instant | None
    questions: int
    question_due: Instant | None
    """When the next question is answered by its default."""
    called_off: int
    """Units that this holder still runs although they were called off."""
    to_put_away: int
    """Units that have ended and whose worktree is still to be seen to, or could not be put away."""

    @property
    def next_due(self) -> Instant | None:
        """When the next unit, another's claim, or the default answer to the next question is due."""
        found = (self.claim_due, self.unit_due, self.question_due)
        return min((due for due in found if due is not None), default=None)

    def is_calm(self, now: Instant) -> bool:
        """Whether there is nothing to do in a session that goes on but to begin what is ready."""
        occasions = self.intents + self.expired + self.questions + self.called_off + self.to_put_away
        is_due = self.next_due is not None and self.next_due <= now
        return not occasions and not is_due and self.session == "running"


def look(tx: Tx, holder: str, now: Instant, station: str = "") -> Glance:
    """What is open now, as this holder at this station must see it."""
    row = tx.one(_Q["look"], holder=holder, now=now, station=station)
    assert row is not None
    return Glance(*row)
