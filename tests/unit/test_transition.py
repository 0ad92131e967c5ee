"""Every change of phase: permitted or refused, written first, announced after."""

from __future__ import annotations

import pytest

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.decide import Move, Step
from sf.domain.phases import Phase
from sf.domain.units import Status
from sf.errors import InvalidTransition
from sf.harness.transition import transition
from tests.support.ground import Ground
from tests.support.samples import WORKFLOWS

M = "milestone/m1"


def to(*phases: Phase) -> Move:
    return Move(status=Status.PENDING, steps=tuple(Step(phase, "") for phase in phases))


@pytest.mark.conforms("C-02", "C-03")
def test_a_transition_that_is_not_permitted_writes_and_announces_nothing(ground: Ground) -> None:
    ground.plant()
    unit = ground.unit(M)
    before = len(ground.events)
    with pytest.raises(InvalidTransition) as refused:
        ground.write(lambda tx: transition(tx, unit, to(Phase.MERGE), WORKFLOWS["feature"], ground.now))
    assert refused.value.code == "invalid_transition"
    assert ground.unit(M).phase is Phase.RESEARCH
    assert ground.trail(M) == []
    assert len(ground.events) == before


@pytest.mark.conforms("C-03")
def test_a_transition_from_a_phase_that_has_passed_is_refused(ground: Ground) -> None:
    ground.plant()
    stale = ground.unit(M)
    ground.run(M, o.Done())
    with pytest.raises(InvalidTransition):
        ground.write(lambda tx: transition(tx, stale, to(Phase.PLAN), WORKFLOWS["feature"], ground.now))
    assert ground.trail(M) == ["plan"], "the refused change has left no record"


@pytest.mark.conforms("C-03")
def test_a_phase_change_is_announced_with_what_was_written(ground: Ground) -> None:
    ground.plant()
    ground.run(M, o.Done("researched"))
    event = next(e for e in ground.events if e.name == events.PHASE_CHANGE)
    assert event.unit_id == M
    assert (event.data["from"], event.data["to"], event.data["reason"]) == ("research", "plan", "researched")


@pytest.mark.conforms("C-02")
def test_of_a_move_with_a_step_that_is_not_permitted_no_step_is_taken(ground: Ground) -> None:
    ground.plant()
    unit, before = ground.unit(M), ground.dump()
    steps = to(Phase.PLAN, Phase.MERGE)
    with pytest.raises(InvalidTransition, match="plan → merge"):
        ground.write(lambda tx: transition(tx, unit, steps, WORKFLOWS["feature"], ground.now))
    assert ground.dump() == before


def test_where_a_unit_stands_after_a_move_is_what_its_row_says(ground: Ground) -> None:
    ground.plant()
    unit = ground.unit(M)
    move = Move(
        status=Status.FAILED,
        steps=(Step(Phase.REASSESS, "stale"),),
        delay_ms=500,
        verdict="abandoned",
        reassess_reason="stale",
        replan=True,
    )
    moved = ground.write(lambda tx: transition(tx, unit, move, WORKFLOWS["feature"], ground.now))
    assert moved == ground.unit(M)
    assert (moved.due_at, moved.plan_version) == (ground.now + 500, unit.plan_version + 1)
