"""Who of the units that were parked for want of money may go on."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from sf.domain import outcomes as o
from sf.domain.attention import Patience, Question
from sf.domain.clock import Instant
from sf.domain.dialogue import Usage
from sf.domain.spending import Caps
from sf.domain.units import HoldKind
from sf.harness import lifecycle
from sf.harness.settle import Ending
from sf.scheduler import replies, upkeep
from sf.scheduler.allotment import Allotment
from sf.store import attention, blockers, glance, runs, spending
from sf.store.tx import Tx
from tests.support.ground import GATED, Ground
from tests.support.samples import milestone_plan, piece, task

M = "milestone/m1"
TASKS = [f"task/m1/s{number}/t1" for number in (1, 2, 3)]


def _planned(ground: Ground) -> None:
    """Three slices under one account, each with a task that could run."""
    ground.plant()
    slices = [piece(name, task(name)) for name in ("one", "two", "three")]
    ground.run(M, o.Done(), o.Planned(milestone_plan(*slices)))


def _parked(ground: Ground, unit_id: str, wanted: int) -> Question:
    """A unit that had no room for its next request."""
    ground.run(unit_id, o.Overspent("milestone", M, "no room", wanted))
    return attention.of_unit(ground.read, unit_id)[0]


def test_as_many_are_let_go_as_there_is_room_for(ground: Ground) -> None:
    """Each was let go for the same room, and all but one were refused again."""
    _planned(ground)
    asked = [_parked(ground, name, 400) for name in TASKS]
    too_little = Allotment(ground.read, Caps(milestone=300), ground.now)
    assert not too_little.reaches(asked[0])
    allotment, found = Allotment(ground.read, Caps(milestone=1000), ground.now), []
    for question in asked:
        found.append(allotment.reaches(question))
        if found[-1]:
            allotment.take(question)
    assert found == [True, True, False]


def test_room_is_left_for_what_runs_in_the_account_that_refused(ground: Ground) -> None:
    """A run between two requests holds nothing just now, and would be cut off by who takes what it needs."""
    _planned(ground)
    asked = _parked(ground, TASKS[0], 600)
    assert Allotment(ground.read, Caps(milestone=1000), ground.now).reaches(asked)
    assert ground.claim(TASKS[1]) is not None
    assert not Allotment(ground.read, Caps(milestone=1000), ground.now).reaches(asked)
    assert Allotment(ground.read, Caps(milestone=1200), ground.now).reaches(asked)
    for session in (700, 500):
        caps = Caps(milestone=1200, session=session)
        assert Allotment(ground.read, caps, ground.now).reaches(asked), "that is the purse's"


def test_what_runs_elsewhere_keeps_nobody_parked(ground: Ground) -> None:
    """A run of another folder that was killed is on record as running until that folder comes back."""
    _planned(ground)
    asked = _parked(ground, TASKS[0], 600)
    assert ground.claim(ground.plant(adhoc=True)) is not None
    caps = Caps(milestone=1000, session=1000)
    assert Allotment(ground.read, caps, ground.now).reaches(asked)


@pytest.mark.parametrize(("cap", "answered"), [(1000, 1), (1200, 0)])
def test_whose_time_is_up_gets_the_default_and_not_the_room_of_a_run_beside_it(
    ground: Ground, cap: int, answered: int
) -> None:
    """It took what a run between two requests had left for a moment, and so in turns, each for nothing."""
    rules = replace(GATED, caps=Caps(milestone=cap), patience={"budget": Patience("20", 1000)})
    ground.rules = rules
    _planned(ground)
    _parked(ground, TASKS[0], 600)
    assert ground.claim(TASKS[1]) is not None
    ground.clock.advance(seconds=2)
    assert len(ground.write(lambda tx: replies.answer_due(tx, rules, ground.now))) == answered
    assert ground.unit(TASKS[0]).hold_kind is None


def test_a_default_that_is_too_little_adds_up_until_it_is_enough(ground: Ground) -> None:
    """The unit was let go each time, for a run that could not end."""
    rules = replace(GATED, caps=Caps(milestone=100), patience={"budget": Patience("0.0002", 1000)})
    ground.rules = rules
    _planned(ground)
    asked = _parked(ground, TASKS[0], 600)
    for more in (200, 400):
        ground.clock.advance(seconds=2)
        assert ground.write(lambda tx: replies.answer_due(tx, rules, ground.now)) == [asked.id]
        [question] = attention.waiting(ground.read)
        assert (question.id, question.due_at) == (asked.id, ground.now + 1000)
        assert (
            f"may spend ${(100 + more) / 1e6:.4f}" in question.question == ground.unit(TASKS[0]).hold_detail
        )
    ground.clock.advance(seconds=2)
    assert ground.write(lambda tx: replies.answer_due(tx, rules, ground.now)) == [asked.id]
    assert ground.unit(TASKS[0]).hold_kind is None and not attention.waiting(ground.read)


def test_a_default_goes_to_what_refused_and_the_next_run_asks_for_what_else_has_no_room(
    ground: Ground,
) -> None:
    """The milestone was given it at every deadline, without end, while the unit's own cap kept it parked."""
    caps = Caps(unit=100, milestone=100)
    ground.rules = rules = replace(GATED, caps=caps, patience={"budget": Patience("0.0006", 1000)})
    _planned(ground)
    _parked(ground, TASKS[0], 600)
    ground.clock.advance(seconds=2)
    assert len(ground.write(lambda tx: replies.answer_due(tx, rules, ground.now))) == 1
    assert ground.unit(TASKS[0]).hold_kind is None
    assert spending.account(ground.read, "milestone", M).allowance == 600


def test_nobody_is_abandoned_by_default_whose_money_is_there(ground: Ground) -> None:
    ground.rules = replace(GATED, patience={"budget": Patience("abandon", 1000)})
    _planned(ground)
    _parked(ground, TASKS[0], 600)
    ground.clock.advance(seconds=2)
    assert not ground.write(lambda tx: replies.answer_due(tx, ground.rules, ground.now))
    assert (ground.unit(TASKS[0]).hold_kind, ground.unit(TASKS[0]).terminal) == (None, False)


def test_nobody_is_abandoned_by_default_because_others_are_at_the_money(ground: Ground) -> None:
    """A unit was given up beside a run that held nothing, and of two that were due the second."""
    caps, patience = Caps(milestone=1000), {"budget": Patience("abandon", 1000)}
    ground.rules = rules = replace(GATED, caps=caps, patience=patience)
    _planned(ground)
    for name in TASKS[:2]:
        _parked(ground, name, 600)
    ground.clock.advance(seconds=2)
    assert not ground.write(lambda tx: replies.answer_due(tx, rules, ground.now))
    held = [ground.unit(name).hold_kind for name in TASKS[:2]]
    assert held == [None, HoldKind.BUDGET]
    [question] = attention.waiting(ground.read)
    assert question.due_at == ground.now + 1000, "it is asked on, not over and over"


def test_a_default_that_is_too_little_for_the_session_adds_up(ground: Ground) -> None:
    """The question was closed whatever the amount: a hundred runs without one turn."""
    caps, patience = Caps(session=100), {"session_budget": Patience("0.0003", 1000)}
    ground.rules = rules = replace(GATED, caps=caps, patience=patience)
    _planned(ground)
    asking = ground.unit(TASKS[0])
    ground.write(lambda tx: replies.ask_for_session(tx, asking, 600, rules, ground.now))
    ground.clock.advance(seconds=2)
    assert len(ground.write(lambda tx: replies.answer_due(tx, rules, ground.now))) == 1
    [question] = attention.waiting(ground.read)
    assert question.due_at == ground.now + 1000 and "may spend $0.0004" in question.question
    ground.clock.advance(seconds=2)
    assert ground.write(lambda tx: replies.answer_due(tx, rules, ground.now)) == [question.id]
    assert not attention.waiting(ground.read) and not list(blockers.open_blockers(ground.read))


def test_a_folder_that_is_gone_does_not_raise_the_sessions_money_for_ever(ground: Ground) -> None:
    """Its question was answered by the default of another, which had room, hour after hour."""
    patience = {"session_budget": Patience("5", 1000)}
    poor, rich = (replace(GATED, caps=Caps(session=cap), patience=patience) for cap in (100, 10_000_000))
    _planned(ground)
    asking = ground.unit(TASKS[0])
    ground.write(lambda tx: replies.ask_for_session(tx, asking, 600, poor, ground.now, "gone"))
    lease = ground.claim(TASKS[1])
    assert lease is not None
    usage = Usage(input_tokens=1, output_tokens=1, cost_micro_usd=9_000_000, priced=True)
    by = spending.payer(ground.read, ground.unit(TASKS[1]))
    ground.write(lambda tx: spending.record(tx, lease, by, model="m", usage=usage, now=ground.now))
    for _ in range(3):
        ground.clock.advance(seconds=2)
        ground.write(lambda tx: replies.answer_due(tx, rich, ground.now, "here"))
    assert spending.account(ground.read, "session", asking.session_id).allowance == 5_000_000
    assert not attention.waiting(ground.read)


def test_what_an_ended_unit_wanted_of_the_session_is_wanted_no_more(ground: Ground) -> None:
    caps, patience = Caps(session=100), {"session_budget": Patience("0.0003", 1000)}
    ground.rules = rules = replace(GATED, caps=caps, patience=patience)
    _planned(ground)
    for name, wanted in zip(TASKS[:2], (90_000, 300), strict=True):
        unit = ground.unit(name)
        ground.write(lambda tx, u=unit, w=wanted: replies.ask_for_session(tx, u, w, rules, ground.now))  # type: ignore[misc]
    [question] = attention.waiting(ground.read)
    assert replies.wanted_by(ground.read, question) == 90_000
    ground.write(lambda tx: lifecycle.cancel(tx, ground.unit(TASKS[0]), "not needed", rules, ground.now))
    assert replies.wanted_by(ground.read, question) == 300
    ground.clock.advance(seconds=2)
    assert ground.write(lambda tx: replies.answer_due(tx, rules, ground.now)) == [question.id]
    assert not attention.waiting(ground.read)


def test_a_run_that_nobody_renews_any_more_is_left_no_room(ground: Ground) -> None:
    """Beside a killed folder's run a unit whose money was there was asked on for ever."""
    caps = Caps(milestone=1000)
    ground.rules = replace(GATED, caps=caps)
    _planned(ground)
    assert TASKS[1] in ground.ready()
    assert ground.claim(TASKS[1]) is not None
    asked = _parked(ground, TASKS[0], 600)
    assert not Allotment(ground.read, caps, ground.now).reaches(asked)
    ground.clock.advance(seconds=3600)
    assert Allotment(ground.read, caps, ground.now).reaches(asked)


def test_a_run_that_begins_anew_needs_what_the_one_before_it_spent(ground: Ground) -> None:
    """With room for the next step alone it was refused before that step, over and over, for money."""
    _planned(ground)
    assert TASKS[0] in ground.ready()
    lease = ground.claim(TASKS[0])
    assert lease is not None

    def spend(tx: Tx) -> None:
        payer = spending.payer(tx, ground.unit(TASKS[0]))
        usage = Usage(input_tokens=1, output_tokens=1, cost_micro_usd=30, priced=True)
        spending.record(tx, lease, payer, model="m", usage=usage, now=ground.now)

    ground.write(spend)
    ground.settle(lease, o.Overspent("milestone", M, "no room", 600))
    [question] = attention.of_unit(ground.read, TASKS[0])
    assert question.data["wanted"] == 630


def test_a_clock_that_was_set_back_moves_no_deadline_of_another_folder(ground: Ground) -> None:
    caps, patience = Caps(milestone=100), {"budget": Patience("abandon", 600_000)}
    ground.rules = rules = replace(GATED, caps=caps, patience=patience)
    _planned(ground)
    asked = _parked(ground, TASKS[0], 600)
    ground.write(lambda tx: tx.run("UPDATE units SET station = 'there'"))
    behind = Instant(ground.now - 900_000)
    ground.write(lambda tx: upkeep.draw_in(tx, "here", rules, behind))
    assert attention.of_unit(ground.read, TASKS[0])[0].due_at == asked.due_at
    ground.write(lambda tx: upkeep.draw_in(tx, "there", rules, behind))
    assert attention.of_unit(ground.read, TASKS[0])[0].due_at != asked.due_at


def test_what_another_folders_unit_asks_is_left_to_that_folder(ground: Ground) -> None:
    """Whoever was first gave each of its units the default, as much again every time, and waited for it."""
    rules = replace(GATED, caps=Caps(milestone=100), patience={"budget": Patience("20", 1000)})
    ground.rules = rules
    _planned(ground)
    for name in TASKS:
        _parked(ground, name, 600)
    ground.write(lambda tx: tx.run("UPDATE units SET station = 'there'"))
    ground.clock.advance(seconds=2)
    due = {
        place: glance.look(ground.read, "me", ground.now, place).question_due for place in ("here", "there")
    }
    assert due["here"] is None and due["there"] is not None
    answered = [
        len(ground.write(partial(replies.answer_due, rules=rules, now=ground.now, station=place)))
        for place in ("here", "there")
    ]
    assert answered == [0, 1]
    assert spending.account(ground.read, "milestone", M).allowance == 20_000_000


def test_a_run_whose_tree_could_not_be_kept_is_not_judged_by_an_older_one(ground: Ground) -> None:
    """What the gate had refused was committed for what it had passed."""
    _planned(ground)
    for tree in ("refused", None):
        assert TASKS[0] in ground.ready()
        lease = ground.claim(TASKS[0])
        assert lease is not None
        ground.settle(lease, o.Failed("stalled", "again"), Ending(tree=tree))
        ground.clock.advance(seconds=3600)
    assert runs.last_tree(ground.read, TASKS[0]) is None
