"""The real rules on a real store against a model of them, driven at random by several holders.

After every step rows and model agree, no unit is claimed twice, a lost lease writes nothing, no counter
falls, and every open unit has exactly one standing. At the end everything is driven to its end in bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sf.config.schema import Concurrency
from sf.domain import outcomes as o
from sf.errors import InvalidTransition
from sf.scheduler import admission
from sf.scheduler.admission import Selection
from sf.store import leases
from tests.chaos.agreement import check, check_admitted
from tests.chaos.driven import HOLDERS, Driven, Held
from tests.chaos.outcomes import any_outcome, friendly
from tests.chaos.piece import Piece
from tests.chaos.sweep import FULL, SEED

EXAMPLES, STEPS, SEEDS = (240, 160, 4) if FULL else (40, 50, 1)
JUMPS = (1, 5_000, 59_999, 60_001, 300_000, 32_400_000, -1, -61_000, -32_400_000)
"""How the clock is set, in milliseconds: around a lease, a backoff, a night, either way."""
_UNLAWFUL = ("execute", "tdd")
T = TypeVar("T")

numbers = st.integers(0, 2**32 - 1)
holders = st.sampled_from(HOLDERS)
taken: list[int] = []
"""How many steps each machine took."""


class Orchestrators(RuleBasedStateMachine):
    """Several holders, an operator and a clock that cannot be trusted, over one database."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.driven: Driven | None = None
        self.steps = 0

    @property
    def d(self) -> Driven:
        assert self.driven is not None
        return self.driven

    def _pick(self, among: Sequence[T], number: int) -> T:
        self.steps += 1
        return among[number % len(among)]

    @initialize(workflow=st.sampled_from(["feature", "feature", "release", "spike"]))
    def begin(self, workflow: str) -> None:
        self.driven = Driven(self.folder.name, workflow)
        self.d.plant(adhoc=False)
        self.d.plant(adhoc=True)

    # --- planting and running ---

    @precondition(lambda self: len(self.d.goals) < 5)
    @rule(adhoc=st.booleans())
    def plant(self, adhoc: bool) -> None:
        self.steps += 1
        self.d.plant(adhoc=adhoc)

    @precondition(lambda self: self.d.may_claim())
    @rule(number=numbers, holder=holders)
    def claim(self, number: int, holder: str) -> None:
        self.d.claim(self._pick(self.d.may_claim(), number), holder)

    @precondition(lambda self: self.d.may_claim())
    @rule(number=numbers, holder=holders, chance=numbers)
    def work(self, number: int, holder: str, chance: int) -> None:
        for _ in range(3):
            piece = self._pick(self.d.may_claim(), number)
            self.d.claim(piece, holder)
            if self.d.held and self.d.held[-1].piece is piece:
                self.d.finish(self.d.held[-1], friendly(Random(chance), self.d.ground.unit(piece.id)))
            if not self.d.may_claim():
                break

    @precondition(lambda self: self.d.may_claim())
    @rule(number=numbers, first=holders, second=holders)
    def claim_at_the_same_time(self, number: int, first: str, second: str) -> None:
        piece = self._pick(self.d.may_claim(), number)
        seen = self.d.ground.unit(piece.id)
        self.d.claim(piece, first)
        assert self.d.take(seen, second) is None, "a unit was claimed twice"

    @precondition(lambda self: self.d.seen)
    @rule(number=numbers, holder=holders)
    def claim_from_an_old_look(self, number: int, holder: str) -> None:
        seen = self._pick(self.d.seen, number)
        piece = self.d.model.pieces[seen.id]
        still = piece.attempt == seen.attempt and piece.id in self.d.model.ready()
        if not still:
            assert self.d.take(seen, holder) is None, f"{seen.id} was claimed from an old look"

    @precondition(lambda self: self.d.held)
    @rule(number=numbers, chance=numbers, friend=st.booleans())
    def finish(self, number: int, chance: int, friend: bool) -> None:
        run = self._pick(self.d.held, number)
        unit = self.d.ground.unit(run.piece.id)
        choose = friendly if friend else any_outcome
        self.d.finish(run, choose(Random(chance), unit))

    @precondition(lambda self: self._unlawful())
    @rule(number=numbers)
    def end_in_a_way_that_its_phase_cannot(self, number: int) -> None:
        run = self._pick(self._unlawful(), number)
        with pytest.raises(InvalidTransition):
            self.d.ground.settle(run.lease, o.ChangesWanted("not here"))
        self.d.finish(run, o.Failed("internal", "its outcome could not be recorded"))

    def _unlawful(self) -> list[Held]:
        fixes = self.d.model.limits.max_fix_attempts
        return [
            run
            for run in self.d.held
            if run.piece.phase in _UNLAWFUL
            and not run.piece.canceled
            and self.d.model.counters.get((run.piece.id, run.piece.plan_version, "fixes", ""), 0) + 1 < fixes
        ]

    @precondition(lambda self: self.d.lost)
    @rule(number=numbers)
    def write_late(self, number: int) -> None:
        self.d.refuse_late(self._pick(self.d.lost, number))

    # --- the operator ---

    @precondition(lambda self: self.d.model.open_pieces())
    @rule(number=numbers, sure=st.booleans())
    def abandon(self, number: int, sure: bool) -> None:
        if not sure:
            return
        self.d.abandon(self._pick(self.d.model.open_pieces(), number))

    @precondition(lambda self: self.d.parked())
    @rule(number=numbers, how=st.sampled_from(["reply", "reply", "reply", "refuse", "force", "abandon"]))
    def answer(self, number: int, how: str) -> None:
        self.d.answer(self._pick(self.d.parked(), number), how)

    @precondition(lambda self: self._forceable())
    @rule(number=numbers, holder=holders)
    def force_dispatch(self, number: int, holder: str) -> None:
        self.d.force(self._pick(self._forceable(), number), holder)

    def _forceable(self) -> list[Piece]:
        return [
            piece
            for piece in self.d.model.open_pieces()
            if piece.status != "running"
            and piece.hold is None
            and piece.open_children == 0
            and piece.lane_open
            and piece.parent_ready
            and (piece.open_blockers or piece.due is not None)
        ]

    @rule(sure=st.integers(0, 3))
    def pause_or_resume(self, sure: int) -> None:
        if self.d.paused or not sure:
            self.steps += 1
            self.d.pause_or_resume()

    # --- trouble ---

    @precondition(lambda self: self.d.held)
    @rule()
    def crash(self) -> None:
        self.steps += 1
        self.d.crash()

    @rule(holder=holders)
    def renew_and_sweep(self, holder: str) -> None:
        self.steps += 1
        self.d.renew(holder)
        self.d.sweep(holder)

    @rule(milliseconds=st.sampled_from(JUMPS))
    def jump(self, milliseconds: int) -> None:
        self.steps += 1
        self.d.jump(milliseconds)

    @rule(agents=st.integers(1, 4), execute=st.integers(1, 2))
    def admit_under_caps(self, agents: int, execute: int) -> None:
        self.steps += 1
        caps = Concurrency(max_agents=agents, max_agents_by_phase={"execute": execute})  # type: ignore[dict-item]
        running = leases.running(self.d.ground.read)
        phases = [unit.phase for unit in running]
        admitted = admission.admit(self.d.ground.read, caps, phases, Selection(), 0)
        check_admitted(self.d, caps, running, admitted)

    # --- what always holds ---

    @invariant()
    def rows_and_model_agree(self) -> None:
        if self.driven is not None:
            check(self.d)

    def teardown(self) -> None:
        if self.driven is not None:
            self.steps += self.d.drive_to_the_end()
            self.d.close()
        taken.append(self.steps)
        self.folder.cleanup()


@pytest.mark.parametrize("number", range(SEEDS))
def test_rows_and_model_agree_whatever_happens(number: int) -> None:
    chosen = SEED + number
    print(f"seed {chosen}")
    taken.clear()
    machine = seed(chosen)(Orchestrators)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"{sum(taken)} transitions in {len(taken)} machines")
    assert sum(taken) >= (25_000 if FULL else 400), taken
