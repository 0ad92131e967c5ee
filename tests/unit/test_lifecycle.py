"""Units and what is around them: containers, siblings, dependents, lanes; on a real database."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.decide import PASSED
from sf.domain.dialogue import Usage
from sf.domain.limits import Limits
from sf.domain.phases import Phase
from sf.domain.plans import SliceEntry
from sf.domain.spending import Caps
from sf.domain.units import HoldKind, Status
from sf.errors import Unreachable
from sf.harness import planting
from sf.harness.rules import Rules
from sf.scheduler import claims
from sf.store import relations, spending, units
from sf.store.tx import Tx
from tests.support.ground import GATED, Ground, Refused
from tests.support.samples import WORKFLOWS, milestone_plan, piece, slice_plan, task, task_plan

M, S1, S2 = "milestone/m1", "slice/m1/s1", "slice/m1/s2"
T1, T2, T3 = "task/m1/s1/t1", "task/m1/s1/t2", "task/m1/s1/t3"


def planned(ground: Ground, *pieces: SliceEntry, workflow: str = "feature") -> None:
    """A milestone whose plan is accepted."""
    ground.plant(workflow)
    ground.run(M, o.Done("researched"))
    ground.run(M, o.Planned(milestone_plan(*pieces)))


def test_a_goal_becomes_a_milestone_in_its_first_phase(ground: Ground) -> None:
    assert ground.plant() == M
    assert ground.plant(adhoc=True) == "task/a1"
    assert ground.plant() == "milestone/m2"
    assert ground.unit(M).phase is Phase.RESEARCH
    assert set(ground.ready()) == {M, "milestone/m2", "task/a1"}


def test_a_plan_makes_slices_and_tasks_which_inherit_research_and_plan(ground: Ground) -> None:
    planned(ground, piece("one", task("a"), task("b", "a"), task("c", complete=False)))
    assert ground.unit(M).phase is Phase.EXECUTE
    assert ground.unit(M).open_children == 1
    assert ground.unit(S1).phase is Phase.EXECUTE
    assert ground.unit(S1).open_children == 3
    assert ground.unit(T1).phase is Phase.EXECUTE, "complete entries pass research and plan"
    assert ground.unit(T3).phase is Phase.PLAN, "an entry without verification plans for itself"
    assert ground.trail(T1) == ["plan", "execute"]
    assert set(ground.ready()) == {T1, T3}


@pytest.mark.conforms("C-27")
def test_a_blocked_unit_waits_without_a_try_and_goes_on_when_its_blocker_ends(ground: Ground) -> None:
    planned(ground, piece("one", task("a"), task("b", "a")))
    assert ground.unit(T2).open_blockers == 1
    assert T2 not in ground.ready()
    ground.clock.advance(seconds=3600)
    assert T2 not in ground.ready()
    assert ground.ledger() == {}
    assert ground.unit(T2).due_at is None
    ground.run(T1, o.Done(), o.Done(), o.Done(), o.Done())
    assert ground.unit(T1).succeeded
    assert ground.unit(T2).open_blockers == 0
    assert ground.unit(T2).phase is Phase.EXECUTE
    assert T2 in ground.ready()


def test_children_done_advance_their_container_up_to_the_goal(ground: Ground) -> None:
    planned(ground, piece("one", task("a")), piece("two", task("x"), after=("one",)))
    assert ground.unit(S2).phase is Phase.RESEARCH, "a slice starts only after what it builds on has merged"
    assert ground.ready() == [T1]
    ground.run(T1, o.Done("coded"), o.Done("tested"), o.Done("gates"), o.Done("committed"))
    assert ground.unit(S1).phase is Phase.VERIFY
    ground.run(S1, o.Done("gates"), o.Done("reviewed"))
    assert ground.unit(S1).phase is Phase.MERGE
    assert ground.ready() == [S1], "a merge must be finished before the dependent slice starts"
    ground.run(S1, o.Done("merged"))
    assert ground.unit(S1).succeeded
    ground.finish()
    assert ground.unit(S2).succeeded
    assert ground.unit(M).succeeded
    assert [u.id for u in units.listed(ground.read)] == [], "everything is archived"
    assert units.open_count(ground.read) == 0


def test_passed_phases_are_recorded_one_by_one(ground: Ground) -> None:
    planned(ground, piece("one", task("a")))
    ground.finish()
    assert ground.trail(T1) == ["plan", "execute", "tdd", "verify", "review", "merge", "complete"]
    assert ground.trail(S1) == ["plan", "execute", "tdd", "verify", "review", "merge", "complete"]
    assert ground.trail(M) == ["plan", "execute", "tdd", "verify", "review", "merge", "complete"]
    reasons = {row["to_phase"]: row["reason"] for row in units.transitions(ground.read, T1)}
    assert reasons["review"] == PASSED, "review does not apply to a task in a slice"
    assert reasons["merge"] == "done"


def test_one_task_of_a_slice_owns_its_worktree_until_it_ends(ground: Ground) -> None:
    planned(ground, piece("one", task("a"), task("b")), piece("two", task("x")))
    assert set(ground.ready()) == {T1, T2, "task/m1/s2/t1"}
    ground.run(T1, o.Done())
    assert set(ground.ready()) == {T1, "task/m1/s2/t1"}, "slices run in parallel, tasks of one do not"
    ground.run(T1, o.AskedHuman("which?"))
    assert T2 not in ground.ready(), "a parked task keeps its worktree: its work is in it"
    ground.intend("reassess_resolve", unit_id=T1, answer="this one")
    ground.run(T1, o.Done(), o.Done(), o.Done())
    assert ground.unit(T1).succeeded
    assert T2 in ground.ready()


def test_a_task_that_only_planned_lets_its_siblings_work(ground: Ground) -> None:
    planned(ground, piece("one", task("a", complete=False), task("b", complete=False)))
    lease = ground.claim(T1)
    assert lease is not None
    assert ground.claim(T2) is None, "two runs in one worktree"
    ground.settle(lease, o.Failed("turn_failed", "dropped"))
    assert T2 in ground.ready()


def test_a_claim_that_fails_leaves_the_worktree_free(ground: Ground) -> None:
    planned(ground, piece("one", task("a"), task("b")))
    stale = ground.unit(T1)
    ground.intend("abandon", unit_id=T1, reason="not wanted")

    def take(tx: Tx) -> object:
        return claims.take(tx, stale, holder="me", host="host", rules=Rules(), now=ground.now)

    assert ground.write(take) is None
    assert T2 in ground.ready()


def test_an_abandoned_child_sends_its_container_to_reassess(ground: Ground) -> None:
    planned(ground, piece("one", task("a"), task("b", "a")))
    ground.run(T1, o.GaveUp("impossible"))
    assert ground.unit(T1).phase is Phase.REASSESS
    ground.run(T1, o.Reassessed("abandon", "it cannot be done"))
    assert ground.unit(T1).verdict == "abandoned"
    assert "abandoned: it cannot be done" in ground.feedback(T2)
    assert ground.unit(T2).open_blockers == 0, "an abandoned dependency does not block"
    ground.run(T2, o.Done(), o.Done(), o.Done(), o.Done())
    assert ground.unit(S1).phase is Phase.REASSESS
    assert ground.unit(S1).reassess_reason == "child_abandoned"
    assert "it cannot be done" in ground.feedback(S1)


@pytest.mark.conforms("C-61")
def test_a_replan_supersedes_open_children_and_counts_only_the_new_ones(ground: Ground) -> None:
    planned(ground, piece("one", task("a"), task("b")))
    ground.intend("abandon", unit_id=T1, reason="no")
    ground.intend("abandon", unit_id=T2, reason="no")
    assert ground.unit(S1).phase is Phase.REASSESS
    ground.run(S1, o.Reassessed("replan", "smaller steps"))
    assert (ground.unit(S1).phase, ground.unit(S1).plan_version) == (Phase.PLAN, 2)
    ground.run(S1, o.Planned(slice_plan(task("c"), task("d"))))
    assert {child.id: child.made_under for child in relations.children(ground.read, S1)} == {
        T1: 1,
        T2: 1,
        T3: 2,
        "task/m1/s1/t4": 2,
    }
    ground.finish()
    assert ground.unit(S1).succeeded, "what was superseded no longer counts"
    assert ground.unit(M).succeeded


def test_a_replan_takes_open_children_out_of_the_plan(ground: Ground) -> None:
    planned(ground, piece("one", task("a"), task("b")), piece("two", task("x")))
    # A milestone is re-planned while one of its slices is still open only after an operator's cancel.
    ground.in_disorder = True
    milestone = ground.unit(M)

    def replant(tx: Tx) -> None:
        planting.plant_plan(
            tx,
            milestone,
            milestone_plan(piece("three", task("y"))),
            WORKFLOWS["feature"],
            ground.rules,
            ground.now,
        )

    ground.write(replant)
    assert {ground.unit(name).status for name in (S1, S2, T1, T2)} == {Status.CANCELED}
    assert ground.unit(M).open_children == 1
    assert ground.unit("slice/m1/s3").phase is Phase.EXECUTE


def test_cancel_takes_a_whole_tree_and_spares_what_runs_until_its_run_ends(ground: Ground) -> None:
    planned(ground, piece("one", task("a"), task("b")), piece("two", task("x")))
    lease = ground.claim(T1)
    assert lease is not None
    answer = ground.intend("abandon", unit_id=M, reason="changed my mind")
    assert answer["running"] == [T1]
    assert ground.ready() == []
    assert ground.unit(T1).status is Status.CANCELED
    assert ground.unit(T1).archived_at is None
    assert ground.unit(M).status is Status.CANCELED
    settled = ground.settle(lease, o.Done("too late"))
    assert settled.status is Status.CANCELED, "a canceled unit does not move on"
    assert settled.phase is Phase.EXECUTE
    assert settled.archived_at is not None
    assert units.open_count(ground.read) == 0
    run = ground.read.one("SELECT outcome, error_code FROM runs WHERE id = :id", id=lease.run_id)
    assert run is not None
    assert (run["outcome"], run["error_code"]) == ("canceled", "canceled_by_operator")
    with pytest.raises(Refused) as refused:
        ground.intend("abandon", unit_id=M, reason="again")
    assert refused.value.code == "wrong_state"


def test_a_container_is_not_closed_while_a_run_works_in_its_worktree(ground: Ground) -> None:
    planned(ground, piece("one", task("a")))
    lease = ground.claim(T1)
    assert lease is not None
    ground.events.clear()
    ground.intend("abandon", unit_id=S1, reason="changed my mind")
    closed = [event.unit_id for event in ground.events if event.name == events.UNIT_CLOSED]
    assert S1 not in closed, "closing removes the worktree in which the task's run still works"
    ground.settle(lease, o.CalledOff("canceled_by_operator"))
    closed = [event.unit_id for event in ground.events if event.name == events.UNIT_CLOSED]
    assert closed == [T1, S1]


def test_a_milestone_that_fails_its_gates_gets_one_fix_slice_which_can_finish(ground: Ground) -> None:
    planned(ground, piece("one", task("a")))
    ground.run(T1, *[o.Done()] * 4)
    ground.run(S1, *[o.Done()] * 3)
    assert ground.unit(M).phase is Phase.VERIFY
    ground.run(M, o.GateFailed("all", "3 failed"))
    assert ground.unit(M).phase is Phase.EXECUTE
    assert ground.unit(M).open_children == 1
    fix = ground.unit(S2)
    assert fix.title.startswith("Fix: ")
    assert "3 failed" in ground.unit("task/m1/s2/t1").description
    ground.run("task/m1/s2/t1", *[o.Done()] * 4)
    ground.run(S2, *[o.Done()] * 3)
    ground.run(M, o.Done("gates"))
    assert ground.unit(M).succeeded


def test_slices_follow_each_other_where_they_share_one_worktree(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "sf.db", Rules(mode="milestone-per-worktree"))
    planned(ground, piece("one", task("a")), piece("two", task("x")))
    assert ground.ready() == [T1]
    ground.finish()
    assert ground.trail(S1)[-1] == "complete"
    assert ground.unit(M).succeeded
    ground.close()


def test_a_task_without_a_slice_is_gated_by_both_levels(ground: Ground) -> None:
    ground.plant(adhoc=True)
    unit = ground.unit("task/a1")
    assert ground.rules.gates(unit) == ("gates/unit.sh", "gates/slice.sh")
    assert GATED.merge_gates(unit) == ("gates/unit.sh", "gates/slice.sh")
    ground.run("task/a1", o.Done(), o.Planned(task_plan()), *[o.Done()] * 5)
    assert ground.unit("task/a1").succeeded
    assert ground.trail("task/a1") == ["plan", "execute", "tdd", "verify", "review", "merge", "complete"]


@pytest.mark.conforms("C-85")
def test_gate_retries_are_counted_apart_from_runs_and_survive_the_way_back(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run("task/a1", o.Done(), o.Planned(task_plan()))
    for expected in (1, 2):
        ground.run("task/a1", o.Done(), o.Done(), o.GateFailed("unit", "red"))
        assert ground.unit("task/a1").phase is Phase.EXECUTE
        assert ground.ledger()[("task/a1", 1, "gate", "unit")] == expected
    assert ground.unit("task/a1").attempt == 8
    ground.run("task/a1", o.Done(), o.Done(), o.GateFailed("unit", "red"))
    assert ground.unit("task/a1").phase is Phase.REASSESS
    assert ground.unit("task/a1").reassess_reason == "gate_exhausted"
    assert [e.name for e in ground.events].count(events.GATE_BLOCKED) == 1


def test_gate_retries_begin_anew_after_a_verify_that_no_merge_follows(ground: Ground) -> None:
    phases = '["execute", "verify", "review", "complete"]'
    ground.plant(adhoc=True, content=f'name = "unmerged"\nphases = {phases}\nneeds_evidence = false\n')
    for _ in range(2):
        ground.run("task/a1", o.Done(), o.GateFailed("unit", "red"), o.Done(), o.GateFailed("unit", "red"))
        ground.run("task/a1", o.Done(), o.Done())
        assert ground.unit("task/a1").phase is Phase.REVIEW
        assert ground.ledger()[("task/a1", 1, "gate", "unit")] == 0
        ground.run("task/a1", o.ChangesWanted("rename"))
    assert ground.unit("task/a1").phase is Phase.EXECUTE


def test_a_provider_that_answers_nothing_uses_up_no_run_but_not_for_ever(tmp_path: Path) -> None:
    rules = replace(GATED, base=Limits(max_runs=3, max_waits=5))
    with closing(Ground(tmp_path / "sf.db", rules)) as ground:
        ground.plant(adhoc=True)
        for waited in range(1, 9):
            unit = ground.run("task/a1", o.Waiting(31.0, "come back later"))
            ground.clock.advance(seconds=31)
            assert unit.run_allowance - unit.attempt == 3 - max(0, waited - 5)
        assert ground.claim("task/a1") is None
        assert ground.unit("task/a1").hold_kind is HoldKind.RUN_LIMIT


def test_the_pauses_of_an_outage_grow_while_it_lasts_and_begin_anew_with_the_next(ground: Ground) -> None:
    ground.plant(adhoc=True)
    away = o.Waiting(None, "cannot reach it", Unreachable.code)
    waited = []
    for outcome in (away, away, away, o.Waiting(5.0, "quota"), away, away):
        unit = ground.run("task/a1", outcome)
        assert unit.due_at is not None
        waited.append((unit.due_at - ground.now) // 1000)
        ground.clock.advance(milliseconds=unit.due_at - ground.now)
    assert waited == [10, 20, 40, 5, 10, 20]
    unit = ground.unit("task/a1")
    assert (unit.phase, unit.hold_kind, unit.run_allowance) == (Phase.RESEARCH, None, 106)
    assert ground.ledger() == {("task/a1", 1, "waits", ""): 6}, "nobody is charged a try"


@pytest.mark.parametrize("first", ["answered", "cut", "refused"])
def test_a_run_that_was_billed_before_its_quota_was_used_up_counts(ground: Ground, first: str) -> None:
    ground.plant(adhoc=True)
    lease = ground.claim("task/a1")
    assert lease is not None
    by = spending.payer(ground.read, ground.unit("task/a1"))

    def ask(tx: Tx) -> None:
        if first == "answered":
            spending.record(tx, lease, by, model="m", usage=Usage(), now=ground.now)
            return
        spend = spending.reserve(tx, lease, by, model="m", estimate=5, caps=Caps(), now=ground.now)
        if first == "refused":
            spending.settle(tx, spend, "refused", ground.now)

    ground.write(ask)
    ground.settle(lease, o.Waiting(31.0, "come back later"))
    given_back = ground.unit("task/a1").run_allowance - 100
    assert (given_back, len(ground.ledger())) == ((1, 1) if first == "refused" else (0, 0))


def test_an_interrupted_run_charges_nothing_and_a_crash_is_counted(ground: Ground) -> None:
    ground.plant(adhoc=True)
    unit = ground.run("task/a1", o.Interrupted("paused"))
    assert (unit.status, ground.ledger()) == (Status.INTERRUPTED, {})
    unit = ground.run("task/a1", o.Waiting(30.0, "quota"))
    assert ground.ledger() == {("task/a1", 1, "waits", ""): 1}
    assert unit.due_at == ground.now + 30_000
    assert "task/a1" not in ground.ready()
    ground.clock.advance(seconds=30)
    for _ in range(19):
        ground.run("task/a1", o.Crashed())
    assert "resumed_after_crash" in ground.feedback("task/a1")
    unit = ground.run("task/a1", o.Crashed())
    assert unit.hold_kind is HoldKind.CRASH_LOOP


@pytest.mark.conforms("C-30")
def test_a_failed_run_waits_its_backoff_and_is_then_ready_in_the_same_phase(ground: Ground) -> None:
    ground.plant(adhoc=True)
    for wait in (10, 20, 40, 80, 160):
        unit = ground.run("task/a1", o.Failed("turn_failed", "dropped"))
        assert unit.phase is Phase.RESEARCH
        assert unit.due_at == ground.now + wait * 1000
        ground.clock.advance(milliseconds=wait * 1000 - 1)
        assert "task/a1" not in ground.ready()
        ground.clock.advance(milliseconds=1)
    unit = ground.run("task/a1", o.Failed("turn_failed", "dropped"))
    assert (unit.phase, unit.reassess_reason) == (Phase.REASSESS, "tries_exhausted")


@pytest.mark.conforms("C-71")
def test_units_in_flight_keep_the_workflow_that_was_pinned(ground: Ground) -> None:
    ground.plant("spike")
    changed = 'name = "spike"\nphases = ["execute", "complete"]\nneeds_evidence = false\n'
    ground.plant("spike", content=changed)
    ground.run(M, o.Done())
    assert ground.unit(M).phase is Phase.PLAN
    assert ground.unit("milestone/m2").phase is Phase.EXECUTE
    ground.run(M, o.Planned(milestone_plan(piece("one"))))
    assert ground.unit(T1).workflow_hash == ground.unit(M).workflow_hash
    pins = ground.read.all("SELECT name, content FROM workflow_pins ORDER BY pinned_at, hash")
    assert {row["name"] for row in pins} == {"spike"}
    assert changed in {row["content"] for row in pins}


def test_a_milestone_in_which_work_began_is_bound_whole_and_others_stay_free(ground: Ground) -> None:
    planned(ground, piece("one", task("a")), piece("two", task("b")))
    ground.run(T1, o.Done())
    untouched, alone = ground.plant(), ground.plant(adhoc=True)
    ground.write(lambda tx: units.bind(tx, "here"))
    found = {unit.id: unit.station for unit in units.listed(ground.read, archived=True)}
    assert found == {
        **dict.fromkeys((M, S1, S2, T1, "task/m1/s2/t1"), "here"),
        untouched: None,
        alone: None,
    }
