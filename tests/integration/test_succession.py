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
from sf.errors import StoreUnusable
from sf.harness import lifecycle
from sf.harness.attempt import Finished
from sf.harness.settle import Ending
from sf.scheduler import recovery
from sf.scheduler.loop import Loop
from sf.store import attention, leases, ledger, runs, sessions, units
from sf.store.connection import transact
from sf.store.tx import Tx
from tests.support.relay import Relay
from tests.support.stores import Server, execute

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


async def test_nothing_is_taken_once_the_loop_was_told_to_stop(tmp_path: Path) -> None:
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(2, "a")
        crew = Crew(ground, meanwhile=lambda: loop.stop())
        loop = Loop(ground.desk, ground.live, crew.__call__, "bench#1@0")
        result = await loop.run()
        assert result.ending == "interrupted", result
        assert crew.begun == ["task/a1"]
        assert units.get(ground.desk.database.read, "task/a2").attempt == 0


async def test_what_was_taken_when_the_loop_is_told_to_stop_is_given_back_uncharged(tmp_path: Path) -> None:
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(2, "a")
        crew = Crew(ground)
        loop = Loop(ground.desk, ground.live, crew.__call__, "bench#1@0")

        def stop_at_the_second(event: Event) -> None:
            if (event.name, event.unit_id) == (events.RUN_STARTED, "task/a2"):
                loop.stop()

        ground.desk.bus.subscribe(stop_at_the_second)
        result = await loop.run()
        assert result.ending == "interrupted", result
        read = ground.desk.database.read
        assert crew.running[0] == ["task/a2"], "it was taken, and then the stop was seen"
        assert not leases.running(read)
        back = units.get(read, "task/a2")
        assert back.status is Status.INTERRUPTED and back.hold_kind is None
        assert ledger.counts(read, back).tries == 0, "nothing was charged"


@pytest.mark.parametrize("refused", ["task/a1", "task/a2"])
async def test_nothing_follows_what_ends_beside_a_run_that_ends_the_session(
    tmp_path: Path, refused: str
) -> None:
    """The refused unit is ready again once its end is written: it was begun a second time."""
    async with opened(tmp_path / "project", TWO) as ground:
        await ground.plant(4, "a")
        both = asyncio.Barrier(2)
        begun: list[str] = []

        async def crew(unit: Unit, lease: Lease) -> Finished:
            begun.append(unit.id)
            # While the loop waits, and not within the tick that has begun them.
            await both.wait()
            await asyncio.sleep(_QUEUED)
            if unit.id == refused:
                return Finished(o.Unconfigured(code="no_key", message="no key"), Ending())
            return await done_at_once(unit, lease)

        result = await ground.loop(crew).run()
        assert (result.ending, result.detail) == ("failed", "no key [no_key]")
        assert sorted(begun) == ["task/a1", "task/a2"]


async def test_a_unit_that_is_called_off_between_look_and_claim_is_seen_and_the_next_one_taken(
    tmp_path: Path,
) -> None:
    """By another folder's autopilot: it leaves no run behind, so that its number of runs stays."""
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(2, "a")
        desk, begun = ground.desk, list[str]()

        def call_off(event: Event) -> None:
            if (event.name, event.unit_id) == (events.PRE_DISPATCH, "task/a1"):
                transact(desk.database.place, cancel)

        def cancel(tx: Tx) -> None:
            first = units.get(tx, "task/a1")
            lifecycle.cancel(tx, first, "not needed", desk.rules, desk.clock.now())

        async def crew(unit: Unit, lease: Lease) -> Finished:
            begun.append(unit.id)
            return await done_at_once(unit, lease)

        desk.bus.subscribe(call_off)
        result = await ground.loop(crew).run()
        assert result.ending == "done", result
        assert begun == ["task/a2"]


async def test_a_run_whose_lease_was_lost_takes_its_room_until_it_has_ended(tmp_path: Path) -> None:
    """Two runs of one unit are two, although only one has a row that says so."""
    async with opened(tmp_path / "project", "[harness.concurrency]\nmax_agents = 3\n") as ground:
        await ground.plant(6, "a")
        desk = ground.desk
        end = {name: asyncio.Event() for name in ("task/a2", "task/a3", "the rest")}
        begun = asyncio.Queue[str]()
        live: set[str] = set()
        most = 0

        async def crew(unit: Unit, lease: Lease) -> Finished:
            nonlocal most
            live.add(lease.run_id)
            most = max(most, len(live))
            begun.put_nowait(unit.id)
            await end.get(unit.id, end["the rest"]).wait()
            live.discard(lease.run_id)
            return await done_at_once(unit, lease)

        def sweep(tx: Tx) -> None:
            recovery.interrupt(tx, units.get(tx, "task/a1"), desk.rules, desk.clock.now())

        running = asyncio.create_task(ground.loop(crew).run())
        assert [await begun.get() for _ in range(3)] == ["task/a1", "task/a2", "task/a3"]
        transact(desk.database.place, sweep)
        end["task/a3"].set()
        assert await begun.get() == "task/a1", "its second run; the first one still winds down"
        end["task/a2"].set()
        assert await begun.get() == "task/a4"
        await asyncio.sleep(2 * _QUEUED)
        end["the rest"].set()
        assert (await running).ending == "done"
        assert most == 3


async def test_a_store_that_fails_once_behind_a_settlement_ends_the_session_in_order(tmp_path: Path) -> None:
    """All that shares the commit is rolled back; the look beside it has nothing to add to that."""
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(2, "a")
        database, gate = ground.desk.database, threading.Event()
        spoilt: list[asyncio.Task[None]] = []

        def spoil(tx: Tx) -> None:
            assert gate.wait(10)
            tx.run("ALTER TABLE intents RENAME TO hidden")

        async def crew(unit: Unit, lease: Lease) -> Finished:
            await asyncio.sleep(_QUEUED)
            spoilt.append(asyncio.create_task(database.write(spoil)))
            asyncio.get_running_loop().call_later(_QUEUED, gate.set)
            await asyncio.sleep(0)
            return await done_at_once(unit, lease)

        result = await ground.loop(crew).run()
        assert result.ending == "failed"
        assert result.detail.startswith("task/a1 could not be settled: cannot write"), result.detail
        assert isinstance(spoilt[0].exception(), StoreUnusable)
        assert not runs.of_unit(database.read, "task/a2")


async def test_a_look_that_fails_alone_ends_the_session_in_order(tmp_path: Path) -> None:
    """The settlement before it was refused, so the look has the commit to itself."""
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(2, "a")
        desk = ground.desk
        database, rules = desk.database, desk.rules

        async def crew(unit: Unit, lease: Lease) -> Finished:
            await asyncio.sleep(_QUEUED)
            transact(database.place, lambda tx: recovery.interrupt(tx, unit, rules, desk.clock.now()))
            execute(database.place, "ALTER TABLE intents RENAME TO hidden")
            return await done_at_once(unit, lease)

        result = await ground.loop(crew).run()
        assert result.ending == "failed"
        assert result.detail.startswith("what comes next could not be claimed: cannot write"), result.detail


async def test_a_claim_of_which_nobody_knows_ends_the_session_and_the_next_start_finds_it(
    tmp_path: Path, server: Server
) -> None:
    """Its commit arrives and the answer does not: the unit runs by its row, and nobody runs it."""
    with Relay(server) as relay:
        config = f'{ONE}[store]\nurl = "{relay.url}"\n'
        async with opened(tmp_path / "project", config) as ground:
            await ground.plant(3, "a")
            desk, begun = ground.desk, list[str]()
            database, rules = desk.database, desk.rules

            async def crew(unit: Unit, lease: Lease) -> Finished:
                begun.append(unit.id)
                await asyncio.sleep(_QUEUED)
                if len(begun) > 1:
                    return await done_at_once(unit, lease)
                # Its settlement is refused, so the look has the commit to itself.
                transact(database.place, lambda tx: recovery.interrupt(tx, unit, rules, desk.clock.now()))
                relay.lose_the_answer(b"COMMIT\0")
                return await done_at_once(unit, lease)

            result = await ground.loop(crew).run()
            assert result.ending == "failed", result
            assert result.detail.startswith("what comes next could not be claimed:"), result.detail
            assert "is not known" in result.detail
            (left,) = leases.running(database.read)
            assert begun == ["task/a1"], "what it may have claimed was not begun"
            again = await Loop(desk, ground.live, crew, "bench#2@0").run()
            assert again.ending == "done", again
            done = units.listed(database.read, archived=True)
            assert {unit.id: (unit.succeeded, unit.attempt) for unit in done} == {
                **{f"task/a{number}": (True, 1) for number in (1, 2, 3)},
                "task/a1": (True, 2 + (left.id == "task/a1")),
            }
            assert not runs.live(database.read)


async def test_a_run_without_a_lease_does_not_end_the_session(tmp_path: Path) -> None:
    """Nobody is told what it found amiss in the configuration: whoever has its unit now finds that out."""
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(2, "a")
        desk, begun = ground.desk, []

        async def crew(unit: Unit, lease: Lease) -> Finished:
            begun.append(unit.id)
            await asyncio.sleep(_QUEUED)
            if len(begun) > 1:
                return await done_at_once(unit, lease)
            rules = desk.rules
            transact(desk.database.place, lambda tx: recovery.interrupt(tx, unit, rules, desk.clock.now()))
            return Finished(o.Unconfigured("no_key", "there is no key"), Ending())

        result = await ground.loop(crew).run()
        assert result.ending == "done", result
        assert begun == ["task/a1", "task/a1", "task/a2"]


async def test_to_stop_is_told_also_while_the_end_is(tmp_path: Path) -> None:
    async with opened(tmp_path / "project", ONE) as ground:
        await ground.plant(1, "a")
        heard: list[str] = []
        ground.desk.bus.subscribe(lambda event: heard.append(event.name))
        loop = ground.loop(done_at_once)
        await loop.run()
        loop.stop()
        assert heard[-1] == events.STOPPING


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
