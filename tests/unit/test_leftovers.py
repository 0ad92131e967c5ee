"""Ends that overlap: called off and crashed, called off twice, parked twice, forced out of turn."""

from __future__ import annotations

import socket

import pytest

from sf.domain import outcomes as o
from sf.domain.phases import Phase
from sf.domain.spending import Caps
from sf.domain.units import HoldKind, Status, Unit
from sf.scheduler import claims, recovery
from sf.store import attention, runs, spending, units
from tests.support.ground import Ground, Refused
from tests.support.samples import milestone_plan, piece, task

M, S, T1, T2 = "milestone/m1", "slice/m1/s1", "task/m1/s1/t1", "task/m1/s1/t2"


def planned(ground: Ground) -> None:
    ground.plant()
    ground.run(M, o.Done(), o.Planned(milestone_plan(piece("s", task("one"), task("two", "one")))))


def test_a_crash_ends_the_run_of_a_unit_that_was_called_off_and_frees_its_money(ground: Ground) -> None:
    planned(ground)
    lease = ground.claim(T1)
    assert lease is not None
    payer = spending.payer(ground.read, ground.unit(T1))
    ground.write(
        lambda tx: spending.reserve(tx, lease, payer, model="m", estimate=70, caps=Caps(), now=ground.now)
    )
    ground.intend("abandon", unit_id=M, reason="enough")
    ground.write(lambda tx: recovery.interrupt_all(tx, "", ground.rules, ground.now))
    assert runs.live(ground.read) == []
    assert [run.outcome for run in runs.of_unit(ground.read, T1)] == ["canceled"]
    paid = spending.account(ground.read, "session", ground.unit(M).session_id)
    assert (paid.spent, paid.reserved) == (70, 0)
    assert units.listed(ground.read) == [], "everything is over"


def test_a_start_leaves_what_another_host_at_the_same_path_has_claimed(ground: Ground) -> None:
    names = [ground.plant(adhoc=True) for _ in range(2)]
    hosts = dict(zip(names, (socket.gethostname(), "elsewhere"), strict=True))

    def take(name: str) -> None:
        unit = ground.unit(name)
        ground.write(
            lambda tx: claims.take(
                tx, unit, holder="h", host=hosts[name], rules=ground.rules, now=ground.now, station="s"
            )
        )

    for name in names:
        take(name)
    ground.write(lambda tx: recovery.interrupt_all(tx, "s", ground.rules, ground.now))
    assert [ground.unit(name).status for name in names] == [Status.INTERRUPTED, Status.RUNNING]
    ground.clock.advance(seconds=61)
    ground.write(lambda tx: recovery.interrupt_all(tx, "s", ground.rules, ground.now))
    assert ground.unit(names[1]).status is Status.INTERRUPTED
    take(names[1])
    ground.write(lambda tx: recovery.interrupt_all(tx, "", ground.rules, ground.now))
    assert ground.unit(names[1]).status is Status.INTERRUPTED, "a file is in one place, whatever it is called"


def test_a_container_called_off_later_still_waits_for_the_run_below_it(ground: Ground) -> None:
    planned(ground)
    lease = ground.claim(T1)
    assert lease is not None
    ground.intend("abandon", unit_id=S, reason="first")
    ground.intend("abandon", unit_id=M, reason="then")
    assert ground.unit(M).archived_at is None, "a run below it is alive"
    ground.settle(lease, o.Done())
    assert [ground.unit(name).archived_at is not None for name in (T1, S, M)] == [True] * 3


def test_an_old_look_does_not_park_a_unit_that_has_moved_on(ground: Ground) -> None:
    name = ground.plant(adhoc=True)
    ground.write(lambda tx: units.allow_runs(tx, name, 0))
    seen = ground.unit(name)
    assert not taken(ground, seen)
    assert not taken(ground, seen)
    assert ground.unit(name).hold_kind is HoldKind.RUN_LIMIT
    assert len(attention.of_unit(ground.read, name)) == len(ground.blockers(name)) == 1, "asked once"
    ground.intend("reply", question_id=name, answer="again")
    assert taken(ground, seen), "more runs were allowed meanwhile"
    assert not taken(ground, seen)


def test_an_old_look_does_not_park_a_unit_that_was_called_off(ground: Ground) -> None:
    name = ground.plant(adhoc=True)
    ground.write(lambda tx: units.allow_runs(tx, name, 0))
    seen = ground.unit(name)
    ground.intend("abandon", unit_id=name, reason="enough")
    assert not taken(ground, seen)
    assert (ground.unit(name).status, attention.of_unit(ground.read, name)) == (Status.CANCELED, [])


def test_a_unit_whose_run_is_called_off_is_archived_as_it_is_told(ground: Ground) -> None:
    """By the supervisor: nobody had canceled it before."""
    name = ground.plant(adhoc=True)
    lease = ground.claim(name)
    assert lease is not None
    settled = ground.settle(lease, o.CalledOff("canceled_by_supervisor"))
    assert (settled.status, settled.archived_at) == (Status.CANCELED, ground.now)


def taken(ground: Ground, seen: Unit) -> bool:
    """Whether a unit that was looked at some time ago could be taken."""
    by, rules, now = claims.Claimant("b", "h"), ground.rules, ground.now
    return bool(ground.write(lambda tx: claims.take_seen(tx, [seen], by, rules, now))[0])


def test_a_planned_task_that_is_forced_out_of_turn_passes_research_all_the_same(ground: Ground) -> None:
    planned(ground)
    assert ground.unit(T2).phase is Phase.RESEARCH, "it waits for the first"
    assert ground.intend("force_dispatch", unit_id=T2)["overrides"] == [T1]
    assert ground.unit(T2).phase is Phase.RESEARCH, "nothing is forgotten before it is taken"
    assert ground.unit(T2).open_blockers == 1
    assert ground.claim(T2, out_of_turn=True) is not None
    assert (ground.unit(T2).phase, ground.unit(T2).open_blockers) == (Phase.EXECUTE, 0)
    assert "although it waits for task/m1/s1/t1" in ground.events[-2].data["detail"]


def test_what_cannot_be_taken_out_of_turn_waits_as_before(ground: Ground) -> None:
    planned(ground)
    before = ground.unit(T2)
    assert ground.claim(T1) is not None
    ground.events.clear()
    assert ground.claim(T2, out_of_turn=True) is None, "the other one works in the worktree"
    after = ground.unit(T2)
    assert (after.phase, after.open_blockers, ground.events) == (before.phase, 1, [])


def test_a_task_is_not_dispatched_before_its_slice_may_begin(ground: Ground) -> None:
    ground.plant()
    ground.run(M, o.Done(), o.Planned(milestone_plan(piece("s"), piece("t", after=("s",)))))
    with pytest.raises(Refused, match="cannot begin before slice/m1/s2, which waits for slice/m1/s1"):
        ground.intend("force_dispatch", unit_id="task/m1/s2/t1")
    assert ground.claim("task/m1/s2/t1", out_of_turn=True) is None
