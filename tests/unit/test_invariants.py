"""The invariants of the rows: they hold of what sf writes, are missed by nothing, and are put right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sf.domain import outcomes as o
from sf.domain.invariants import Fault, faults
from sf.domain.phases import Phase
from sf.domain.spending import Caps
from sf.domain.units import HoldKind, Status
from sf.errors import StoreUnusable
from sf.scheduler import repairs
from sf.store import attention, blockers, invariants, runs, spending, units
from sf.store.connection import open_reader
from sf.store.spending import payer
from tests.support.ground import Ground, fresh_ground
from tests.support.samples import milestone_plan, piece, task

M, S1, S2, T1, T2 = "milestone/m1", "slice/m1/s1", "slice/m1/s2", "task/m1/s1/t1", "task/m1/s1/t2"


def begin(ground: Ground) -> None:
    """Two slices, the first of which has two tasks; the first task is at work in its worktree."""
    ground.plant()
    slices = piece("one", task("a"), task("b", "a")), piece("two", task("x"))
    ground.run(M, o.Done(), o.Planned(milestone_plan(*slices)))
    ground.run(T1, o.Failed("turn_failed", "no"))
    ground.in_disorder = True


@pytest.fixture
def planned(ground: Ground) -> Ground:
    """A ground on which something has begun, to be damaged."""
    begin(ground)
    return ground


def broken(ground: Ground) -> list[Fault]:
    return faults(invariants.books(ground.read))


def alter(ground: Ground, unit_id: str, **columns: Any) -> None:
    setters = ", ".join(f"{name} = :{name}" for name in columns)
    ground.read.run(f"UPDATE units SET {setters} WHERE id = :id", id=unit_id, **columns)


def mend(ground: Ground) -> list[str]:
    done = ground.write(lambda tx: repairs.mend(tx, ground.rules, ground.now))
    return [fault.line() for fault in done]


@pytest.mark.parametrize(
    ("unit_id", "column", "wrong"),
    [
        (M, "open_children", 7),
        (S1, "open_children", 1),
        (T2, "open_blockers", 3),
        (T2, "parent_ready", 0),
        (T2, "lane_open", 1),
        (T1, "lane_open", 0),
        (S1, "lane_owner", None),
        (S1, "lane_owner", "task/m1/s2/t1"),
        (T1, "phase_rank", 9),
        (T1, "claim_holder", "nobody"),
        (T1, "phase_status", "succeeded"),
        (T1, "archived_at", 5),
        (T1, "phase_status", "running"),
    ],
)
def test_a_wrong_column_is_found_and_put_right(
    planned: Ground, unit_id: str, column: str, wrong: object
) -> None:
    assert broken(planned) == []
    before = planned.dump()["units"]
    alter(planned, unit_id, **{column: wrong})
    found = broken(planned)
    assert any(fault.subject == unit_id for fault in found)
    assert all(fault.repair is not None for fault in found)
    assert mend(planned)
    assert broken(planned) == []
    if column not in ("phase_status", "archived_at"):
        assert planned.dump()["units"] == before


def test_a_count_that_kept_a_unit_waiting_lets_it_go_on(planned: Ground) -> None:
    alter(planned, S2, open_children=2)
    planned.run("task/m1/s2/t1", *[o.Done()] * 4)
    assert (planned.unit(S2).phase, planned.unit(S2).open_children) == (Phase.EXECUTE, 1)
    mend(planned)
    assert broken(planned) == []
    assert (planned.unit(S2).phase, planned.unit(S2).open_children) == (Phase.VERIFY, 0)


def test_a_wrong_count_does_no_work_that_nobody_did(planned: Ground) -> None:
    """A task moved on, and was merged as done, because it was said to have children once."""
    waiting = "task/m1/s2/t1"
    alter(planned, waiting, open_children=1)
    before = planned.unit(waiting)
    mend(planned)
    assert broken(planned) == []
    assert planned.unit(waiting) == replace(before, open_children=0)


def test_a_container_that_came_back_with_a_finding_is_not_done_because_of_a_count(planned: Ground) -> None:
    planned.run("task/m1/s2/t1", *[o.Done()] * 4)
    planned.run(S2, o.Done())
    assert planned.unit(S2).phase is Phase.REVIEW
    planned.clock.advance(seconds=1)
    planned.run(S2, o.ChangesWanted("mend this"))
    assert planned.unit(S2).phase is Phase.EXECUTE
    alter(planned, S2, open_children=1)
    mend(planned)
    assert broken(planned) == []
    assert (planned.unit(S2).phase, planned.unit(S2).open_children) == (Phase.EXECUTE, 0)


def test_what_follows_from_one_wrong_value_is_not_mended_as_well(planned: Ground) -> None:
    """A slice whose count was right was reassessed, as if its only task had been abandoned."""
    waiting = "task/m1/s2/t1"
    before = planned.dump()["units"]
    alter(planned, waiting, archived_at=5)
    mend(planned)
    assert broken(planned) == []
    assert planned.dump()["units"] == before


@pytest.mark.parametrize(
    ("column", "value"), [("phase", "bogus"), ("hold_kind", "xyz"), ("metadata", "{"), ("plan", "{")]
)
def test_a_row_that_cannot_be_read_is_named(planned: Ground, column: str, value: str) -> None:
    planned.in_disorder = True
    alter(planned, T1, **{column: value})
    with pytest.raises(StoreUnusable, match=f"the row of {T1} cannot be read"):
        units.get(planned.read, T1)


def test_what_follows_an_end_is_made_up_for(planned: Ground) -> None:
    alter(planned, T1, phase_status="canceled", due_at=None, hold_kind="blocked")
    mend(planned)
    assert broken(planned) == []
    assert planned.unit(T1).archived_at is not None
    assert planned.unit(T2).open_blockers == 0
    assert planned.unit(S1).open_children == 1


def test_however_many_are_wrong_all_are_repaired_at_once(ground: Ground) -> None:
    ground.in_disorder = True
    names = [ground.plant(adhoc=True) for _ in range(60)]
    ground.read.run("UPDATE units SET open_blockers = 3")
    for name in names[:55]:
        alter(ground, name, phase_status="canceled", open_blockers=0)
    assert len(mend(ground)) == 60
    assert broken(ground) == []


def test_a_live_run_that_nothing_carries_is_ended_and_what_it_reserved_settled(planned: Ground) -> None:
    planned.clock.advance(seconds=3600)
    lease = planned.claim(T1)
    assert lease is not None
    by = payer(planned.read, planned.unit(T1))
    planned.write(
        lambda tx: spending.reserve(
            tx, lease, by, model="script:x", estimate=700, caps=Caps(), now=planned.now
        )
    )
    assert broken(planned) == []
    alter(planned, T1, phase_status="pending", claim_holder=None)
    assert mend(planned)
    assert broken(planned) == []
    run = runs.get(planned.read, lease.run_id)
    assert run is not None
    assert (run.outcome, run.error_code) == ("interrupted", "resumed_after_crash")
    account = spending.account(planned.read, "session", by.session_id)
    assert (account.spent, account.reserved) == (700, 0)


def test_a_claim_that_ended_long_ago_on_a_unit_that_was_called_off_is_let_go(planned: Ground) -> None:
    planned.clock.advance(seconds=3600)
    assert planned.claim(T1) is not None
    alter(planned, T1, phase_status="canceled")
    assert faults(invariants.books(planned.read, planned.now)) == [], "its run may still end"
    planned.clock.advance(seconds=3600)
    found = faults(invariants.books(planned.read, planned.now))
    assert [fault.subject for fault in found] == [T1]
    mend(planned)
    assert faults(invariants.books(planned.read, planned.now)) == []
    assert (planned.unit(T1).claim_holder, planned.unit(T1).archived_at is None) == (None, False)
    assert runs.live(planned.read) == []


def test_accounts_are_what_their_entries_add_up_to(planned: Ground) -> None:
    planned.read.run(
        "INSERT INTO spend_accounts (scope, key, spent_micro_usd, reserved_micro_usd, allowance_micro_usd)"
        " VALUES ('unit', 'task/m1/s1/t1', 5, 6, 7)"
    )
    mend(planned)
    assert spending.account(planned.read, "unit", T1).allowance == 7
    assert spending.account(planned.read, "unit", T1).spent == 0
    assert broken(planned) == []


def test_a_held_unit_has_one_blocker_and_one_question(planned: Ground) -> None:
    planned.clock.advance(seconds=3600)
    planned.run(T1, o.AskedHuman("which?"))
    assert broken(planned) == []
    planned.read.run("UPDATE attention SET closed_at = 1")
    planned.read.run("UPDATE session_blockers SET resolved_at = 1")
    assert [fault.detail for fault in broken(planned)] == [
        "is held as blocked without its blocker and question"
    ]
    mend(planned)
    asked = attention.of_unit(planned.read, T1)
    assert [(item.kind, item.question) for item in asked] == [("blocked", "which?")]
    assert asked[0].blocker_id == blockers.open_blockers(planned.read)[0]["id"]
    planned.write(
        lambda tx: attention.ask(tx, asked[0].session_id, "blocked", "again?", planned.now, unit_id=T1)
    )
    planned.write(
        lambda tx: blockers.open_blocker(tx, asked[0].session_id, "Question", T2, "for nobody", planned.now)
    )
    assert len(broken(planned)) == 2
    mend(planned)
    assert [item.question for item in attention.of_unit(planned.read, T1)] == ["which?"]
    assert broken(planned) == []


def test_what_only_a_person_can_say_is_told_and_left(planned: Ground) -> None:
    alter(planned, T1, phase="complete", phase_rank=8, phase_status="succeeded", due_at=None)
    lines = mend(planned)
    assert any("nothing followed" in line for line in lines)
    assert [fault.line() for fault in broken(planned)] == [f"{T1}: is complete without a verdict"]


def _wait(ground: Ground, unit_id: str, upstream: str) -> None:
    ground.read.run("INSERT INTO task_blockers VALUES (:unit, :upstream)", unit=unit_id, upstream=upstream)


def test_units_that_wait_for_each_other_are_named(planned: Ground) -> None:
    _wait(planned, T1, T2)
    mend(planned)
    [fault] = broken(planned)
    assert fault.repair is None
    assert f"{T1} → {T2} → {T1}" in fault.line() or f"{T2} → {T1} → {T2}" in fault.line()
    assert "sf dispatch task/m1/s1/t" in fault.line()


def test_a_cycle_through_containers_is_found(planned: Ground) -> None:
    _wait(planned, S1, S2)
    _wait(planned, "task/m1/s2/t1", T2)
    _wait(planned, T2, S1)
    mend(planned)
    [fault] = broken(planned)
    assert "waits for itself" in fault.line() and T2 in fault.line() and S1 in fault.line()


def test_a_container_that_waits_with_its_children_is_in_order(ground: Ground) -> None:
    ground.plant()
    slices = piece("one", task("a")), piece("two", task("x"), after=("one",))
    ground.run(M, o.Done(), o.Planned(milestone_plan(*slices)))
    assert ground.unit(S2).phase is not Phase.EXECUTE, "it waits, with an open task"
    assert broken(ground) == []
    assert ground.claim(T1) is not None
    ground.intend("abandon", unit_id=S1, reason="not needed")
    assert ground.unit(S1).terminal and not ground.unit(S2).terminal
    assert broken(ground) == [], "it is waited for until the run below it has ended"


@pytest.mark.parametrize("phase", [Phase.PLAN, Phase.VERIFY, Phase.REASSESS, Phase.COMPLETE])
def test_a_container_that_left_its_children_behind_is_named(planned: Ground, phase: Phase) -> None:
    alter(planned, S1, phase=phase.value, verdict="success")
    mend(planned)
    assert [fault.line() for fault in broken(planned)] == [
        f'{S1}: is in {phase}, but what is below it is open ({T1}, {T2}): sf abandon {T1} "reason", and so on'
    ]


def test_a_snapshot_is_of_one_moment(planned: Ground) -> None:
    reader = open_reader(planned.place)
    first = invariants.snapshot(reader)
    alter(planned, T1, open_children=4)
    assert invariants.snapshot(reader).units[T1].open_children == 4
    assert first.units[T1].status is Status.FAILED


WRONG: dict[str, st.SearchStrategy[Any]] = {
    "open_children": st.integers(0, 4),
    "open_blockers": st.integers(0, 4),
    "parent_ready": st.integers(0, 1),
    "lane_open": st.integers(0, 1),
    "lane_owner": st.sampled_from([None, T1, T2, "task/m1/s2/t1", "task/m9/s9/t9"]),
    "phase_rank": st.integers(0, 9),
    "due_at": st.sampled_from([None, 5]),
    "hold_kind": st.sampled_from([None, *(kind.value for kind in HoldKind)]),
    "phase_status": st.sampled_from([status.value for status in Status]),
    "archived_at": st.sampled_from([None, 5]),
    "claim_holder": st.sampled_from([None, "nobody"]),
    "phase": st.sampled_from([phase.value for phase in Phase]),
}


@given(
    damage=st.lists(
        st.sampled_from([M, S1, S2, T1, T2]).flatmap(
            lambda unit: st.sampled_from(sorted(WRONG)).flatmap(
                lambda column: WRONG[column].map(lambda value: (unit, column, value))
            )
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=150)
def test_whatever_was_damaged_one_repair_is_enough(damage: list[tuple[str, str, Any]]) -> None:
    with fresh_ground() as ground:
        ground.in_disorder = True
        begin(ground)
        for unit_id, column, value in damage:
            alter(ground, unit_id, **{column: value})
        mend(ground)
        assert [fault for fault in broken(ground) if fault.repair is not None] == []
        assert mend(ground) == []
