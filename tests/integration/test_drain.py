"""Many units through the real loop, with the null worker of the benchmarks."""

from __future__ import annotations

from pathlib import Path

from bench.ground import HOLDER, Ground, done_at_once, opened
from sf.domain import events
from sf.domain.events import Event
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.harness.attempt import Finished
from sf.scheduler.admission import Selection
from sf.scheduler.loop import Loop
from sf.store import leases, runs, units

TWO_AT_A_TIME = "[harness.concurrency]\nmax_agents = 2\n"


class Crew:
    """The null worker; notes in order which units were announced as claimed and which began to run."""

    def __init__(self, ground: Ground) -> None:
        self.seen: list[tuple[str, str]] = []
        self._read = ground.desk.database.read
        ground.desk.bus.subscribe(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.name == events.RUN_STARTED:
            self.seen.append(("claimed", event.unit_id))

    async def __call__(self, unit: Unit, lease: Lease) -> Finished:
        assert unit == units.get(self._read, unit.id), "a run begins with the row that its claim wrote"
        assert runs.get(self._read, lease.run_id) is not None, "and only once its own row can be read"
        assert len(leases.running(self._read)) <= 2
        self.seen.append(("begun", unit.id))
        return await done_at_once(unit, lease)


async def test_units_are_claimed_as_many_at_a_time_as_may_run(tmp_path: Path) -> None:
    async with opened(tmp_path / "project", TWO_AT_A_TIME) as ground:
        await ground.plant(6, "a")
        crew = Crew(ground)
        result = await ground.loop(crew).run()
        assert result.ending == "done", result
        first = [(what, unit_id) for what in ("claimed", "begun") for unit_id in ("task/a1", "task/a2")]
        assert crew.seen[:4] == first, "in one transaction, so neither begins before both are claimed"
        done = units.listed(ground.desk.database.read, archived=True)
        assert [(unit.succeeded, unit.attempt) for unit in done] == [(True, 1)] * 6
        assert all(unit.archived_at is not None for unit in done)
        assert not units.to_wind_up(ground.desk.database.read)


async def test_no_more_are_claimed_than_were_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "project", TWO_AT_A_TIME) as ground:
        await ground.plant(6, "a")
        asked: list[str] = []

        def note(event: Event) -> None:
            if event.name == events.PRE_DISPATCH:
                asked.append(event.unit_id)

        ground.desk.bus.subscribe(note)
        selection = Selection(most=3)
        await Loop(ground.desk, ground.live, done_at_once, HOLDER, selection=selection).run()
        assert asked == ["task/a1", "task/a2", "task/a3"]
        assert units.open_count(ground.desk.database.read) == 3


async def test_a_unit_that_cannot_be_taken_makes_room_for_the_next(tmp_path: Path) -> None:
    """Its runs are used up, so it is parked instead; `most` is reached with others."""
    async with opened(tmp_path / "project", TWO_AT_A_TIME) as ground:
        await ground.plant(3, "a")
        await ground.desk.database.write(lambda tx: units.allow_runs(tx, "task/a1", 0))
        selection = Selection(most=1)
        await Loop(ground.desk, ground.live, done_at_once, HOLDER, selection=selection).run()
        read = ground.desk.database.read
        assert [unit.id for unit in units.held(read)] == ["task/a1"]
        assert [units.get(read, f"task/a{n}").terminal for n in (1, 2, 3)] == [False, True, False]
