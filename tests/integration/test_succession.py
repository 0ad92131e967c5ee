"""What takes the room of a run that ends: claimed in the commit of its settlement, if nothing else is due."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.ground import Ground, done_at_once, opened
from sf.domain import events
from sf.domain import outcomes as o
from sf.domain.events import Event
from sf.domain.runs import Lease
from sf.domain.units import Status, Unit
from sf.harness.attempt import Finished
from sf.harness.settle import Ending
from sf.scheduler.loop import Loop
from sf.store import attention, leases, ledger, runs, sessions, units
from sf.store.tx import Tx
from tests.support.stores import execute

ONE = "[harness.concurrency]\nmax_agents = 1\n"
TWO = "[harness.concurrency]\nmax_agents = 2\n"
_QUEUED = 0.1
"""Longer than the rounds of the event loop that hand a settlement and what follows it to the writer."""


class Crew:
    """The null worker; what the first run hands over is held up until what follows it waits as well.

    Notes which units ran by their rows whenever a run's end is told.
    """

    def __init__(self, ground: Ground, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._ground = ground
        self._meanwhile = meanwhile
        self._gate = threading.Event()
        self._held: asyncio.Task[None] | None = None
        self.running: list[list[str]] = []
        self.begun: list[str] = []
        ground.desk.bus.subscribe(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.name == events.RUN_ENDED:
            self.running.append(sorted(unit.id for unit in leases.running(self._ground.desk.database.read)))

    async def __call__(self, unit: Unit, lease: Lease) -> Finished:
        self.begun.append(unit.id)
        if self._held is None:
            self._held = asyncio.create_task(self._ground.desk.database.write(self._hold))
            asyncio.get_running_loop().call_later(_QUEUED, self._go_on)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return Finished(o.Interrupted("shutdown"), Ending())
        return await done_at_once(unit, lease)

    def _hold(self, tx: Tx) -> None:
        assert self._gate.wait(10)

    def _go_on(self) -> None:
        self._meanwhile()
        self._gate.set()


async def test_the_next_unit_is_claimed_in_the_commit_that_ends_a_run(tmp_path: Path) -> None:
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(3, "a")
        crew = Crew(ground)
        result = await ground.loop(crew).run()
        assert result.ending == "done", result
        assert crew.begun == ["task/a1", "task/a2", "task/a3"]
        assert crew.running[0] == ["task/a2"], "whoever hears of the end of the first sees the next one run"
        assert crew.running[-1] == []
        read = ground.desk.database.read
        assert [(unit.succeeded, unit.attempt) for unit in units.listed(read, archived=True)] == [
            (True, 1)
        ] * 3
        assert not units.to_wind_up(read)


@pytest.mark.parametrize("name", ["pre_dispatch", "post_unit"])
async def test_nothing_is_claimed_ahead_of_a_users_hook(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path / "project", f'{ONE}[harness.hooks]\n{name} = ["true"]\n') as ground:
        await ground.plant(2, "a")
        crew = Crew(ground)
        result = await ground.loop(crew).run()
        assert result.ending == "done", result
        assert crew.begun == ["task/a1", "task/a2"]
        assert crew.running[0] == [], "the hook comes between the end of the first and the next one's claim"


async def test_nothing_is_claimed_ahead_of_the_tick_while_a_question_is_open(tmp_path: Path) -> None:
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(2, "a")
        crew, now = Crew(ground), ground.desk.clock.now()
        session = sessions.current(ground.desk.database.read)
        assert session is not None
        await ground.desk.database.write(
            lambda tx: attention.ask(tx, session["id"], "blocker", "Blue?", now) and None
        )
        await ground.loop(crew).run()
        assert crew.begun == ["task/a1", "task/a2"]
        assert crew.running[0] == []


async def test_nothing_more_begins_once_a_pause_was_asked_for(tmp_path: Path) -> None:
    """Written down before the run ends, as `sf pause` does it; the loop has not seen it yet."""
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(2, "a")
        database, now = ground.desk.database, ground.desk.clock.now()

        async def crew(unit: Unit, lease: Lease) -> Finished:
            await database.write(lambda tx: sessions.intend(tx, "pause", {"reason": "x"}, now))
            begun.append(unit.id)
            return await done_at_once(unit, lease)

        begun: list[str] = []
        result = await ground.loop(crew).run()
        assert result.ending == "paused", result
        assert begun == ["task/a1"]
        assert not leases.running(database.read)


async def test_what_is_taken_while_the_loop_is_told_to_stop_is_given_back_uncharged(tmp_path: Path) -> None:
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(2, "a")
        crew = Crew(ground, meanwhile=lambda: loop.stop())
        loop = Loop(ground.desk, ground.live, crew.__call__, "bench#1@0")
        result = await loop.run()
        assert result.ending == "interrupted", result
        read = ground.desk.database.read
        assert crew.running[0] == ["task/a2"], "it was taken, and then the stop was seen"
        assert not leases.running(read)
        back = units.get(read, "task/a2")
        assert back.status is Status.INTERRUPTED and back.hold_kind is None
        assert ledger.counts(read, back).tries == 0, "nothing was charged"


async def test_a_claim_that_fails_ends_the_loop_and_nothing_follows_it(tmp_path: Path) -> None:
    """What runs beside is interrupted, and its own end is followed by nothing."""
    async with opened(tmp_path / "project", TWO) as ground:
        await ground.plant(6, "a")
        database = ground.desk.database
        execute(
            database.place,
            "CREATE TRIGGER no BEFORE INSERT ON runs WHEN NEW.unit_id_snap = 'task/a3' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END",
        )
        stopped: list[str] = []

        async def crew(unit: Unit, lease: Lease) -> Finished:
            if unit.id == "task/a1":
                return await done_at_once(unit, lease)
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                stopped.append(unit.id)
                execute(database.place, "DROP TRIGGER no")
                return Finished(o.Interrupted("shutdown"), Ending())
            raise AssertionError("the loop went on")

        with pytest.raises(sqlite3.IntegrityError, match="not this one"):
            await ground.loop(crew).run()
        assert stopped == ["task/a2"]
        assert not leases.running(database.read)
        assert not runs.of_unit(database.read, "task/a4")
        assert {unit.id for unit in units.listed(database.read)} == {f"task/a{n}" for n in range(2, 7)}
