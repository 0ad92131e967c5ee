"""Whether the session may spend, as the loop must know it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from sf.domain import outcomes as o
from sf.domain.spending import Caps
from sf.scheduler import replies
from sf.scheduler.purse import Purse
from sf.store import glance
from tests.support.ground import GATED, Ground


async def test_a_look_from_before_the_question_lets_nothing_begin(ground: Ground) -> None:
    """A tick looked, and waited for something, before the run that had no money was settled."""
    rules = replace(GATED, caps=Caps(session=1))
    ground.plant(adhoc=True)
    lease = ground.claim("task/a1")
    assert lease is not None
    database = SimpleNamespace(read=ground.read)
    desk: Any = SimpleNamespace(database=database, rules=rules, clock=ground.clock, station="")
    purse, session = Purse(desk), ground.unit("task/a1").session_id
    seen = glance.look(ground.read, "me", ground.now)
    with purse.telling(outcome := o.Overspent("session", session, "no money", 2)):
        ground.settle(lease, outcome)
        ground.write(lambda tx: replies.ask_for_session(tx, ground.unit("task/a1"), 2, rules, ground.now))
    await purse.look(seen, running=0)
    assert ground.ready() == ["task/a1"] and purse.empty
