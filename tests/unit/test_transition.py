"""Every change of phase: permitted or refused, written first, announced after."""

from __future__ import annotations

import pytest

from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.phases import Phase
from sf.errors import InvalidTransition
from sf.harness.transition import transition
from tests.support.ground import Ground
from tests.support.samples import WORKFLOWS

M = "milestone/m1"


@pytest.mark.conforms("C-02", "C-03")
def test_a_transition_that_is_not_permitted_writes_and_announces_nothing(ground: Ground) -> None:
    ground.plant()
    unit = ground.unit(M)
    before = len(ground.events)
    with pytest.raises(InvalidTransition) as refused:
        ground.write(lambda tx: transition(tx, unit, Phase.MERGE, "", WORKFLOWS["feature"], ground.now))
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
        ground.write(lambda tx: transition(tx, stale, Phase.PLAN, "", WORKFLOWS["feature"], ground.now))
    assert ground.trail(M) == ["plan"], "the record of the refused change is rolled back too"


@pytest.mark.conforms("C-03")
def test_a_phase_change_is_announced_with_what_was_written(ground: Ground) -> None:
    ground.plant()
    ground.run(M, o.Done("researched"))
    event = next(e for e in ground.events if e.name == events.PHASE_CHANGE)
    assert event.unit_id == M
    assert (event.data["from"], event.data["to"], event.data["reason"]) == ("research", "plan", "researched")
