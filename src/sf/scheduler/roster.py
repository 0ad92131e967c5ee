"""The runs under way: each is carried out, settled once, and told to stop at most once."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Collection
from typing import Literal

from sf.domain import outcomes as o
from sf.domain.phases import Phase
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.errors import LeaseLost, SfError
from sf.harness import settle
from sf.harness.attempt import Finished
from sf.harness.desk import Desk, Stop
from sf.scheduler import replies
from sf.scheduler.conduct import Conduct
from sf.scheduler.purse import Purse
from sf.store.tx import Tx


class Roster:
    """Runs by their id.

    `fail` is told what ends the session, `ending` that the end of a run is about to be handed to the writer,
    and `ended` that it has ended.
    """

    def __init__(
        self,
        desk: Desk,
        conduct: Conduct,
        purse: Purse,
        fail: Callable[[str], None],
        ending: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._desk = desk
        self._conduct = conduct
        self._purse = purse
        self._fail = fail
        self._ending = ending
        self._ended = ended
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._units: dict[str, Unit] = {}
        self._settling: set[str] = set()
        self._begun: set[str] = set()
        self.is_unconfigured = False
        """Whether a run was ended by what is configured: its unit is ready again, and is not to be taken."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tasks)

    def phases(self) -> list[Phase]:
        """The phases of all runs."""
        return [unit.phase for unit in self._units.values()]

    def at_work(self) -> list[Unit]:
        """The units of the runs that are not being settled; one whose lease was lost may still wind down."""
        return [unit for run_id, unit in self._units.items() if run_id not in self._settling]

    def start(self, unit: Unit, lease: Lease) -> None:
        """Begin the run of a unit that was claimed."""
        self._units[lease.run_id] = unit
        task = asyncio.create_task(self._run(unit, lease), name=f"run {lease.run_id}")
        self._tasks[lease.run_id] = task

    def stop(self, how: Literal["pause", "shutdown"]) -> None:
        """Interrupt every run."""
        for run_id in self._tasks:
            self._stop(run_id, how)

    def take_back(self, run_id: str) -> None:
        """Interrupt a run that should not have begun."""
        self._stop(run_id, "shutdown")

    def _stop(self, run_id: str, how: Stop) -> None:
        # A run is told once, and never while its end is being written.
        if run_id not in self._desk.stops and run_id not in self._settling:
            self._desk.stops[run_id] = how
            self._interrupt(run_id, self._tasks[run_id])

    def cancel(self, unit_ids: Collection[str]) -> None:
        """Call the runs of some units off at once; those that were told before are left to end."""
        for run_id, unit in self._units.items():
            if unit.id in unit_ids and run_id not in self._settling:
                told_before = run_id in self._desk.stops
                self._desk.stops[run_id] = "cancel"
                if not told_before:
                    self._interrupt(run_id, self._tasks[run_id])

    def _interrupt(self, run_id: str, task: asyncio.Task[None]) -> None:
        # A task that is canceled before its first step never runs, and so would never be settled; it looks
        # for itself when it begins.
        if run_id in self._begun:
            task.cancel()

    async def end(self) -> None:
        """Interrupt what runs and wait for it: nothing may be left that would write after the end."""
        self.stop("shutdown")
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, unit: Unit, lease: Lease) -> None:
        self._begun.add(lease.run_id)
        task = asyncio.current_task()
        if lease.run_id in self._desk.stops and task is not None:
            task.cancel()
        try:
            finished = await self._conduct(unit, lease)
            self._settling.add(lease.run_id)
            self._ending()
            await self._settle(lease, finished)
            if isinstance(finished.outcome, o.Unconfigured):
                self._fail(f"{finished.outcome.message} [{finished.outcome.code}]")
        except LeaseLost as error:
            self._desk.log.warning("run discarded", unit_id=unit.id, unit_type=unit.type, error=error.line())
        except SfError as error:
            self._fail(f"{unit.id} could not be settled: {error.line()}")
        except Exception as error:  # the boundary of a settlement: the run is ended as a fault of sf's own
            await self._settle_fault(unit, lease, error)
        finally:
            self._tasks.pop(lease.run_id, None)
            self._units.pop(lease.run_id, None)
            self._settling.discard(lease.run_id)
            self._begun.discard(lease.run_id)
            self._desk.stops.pop(lease.run_id, None)
            self._ended()

    async def _settle(self, lease: Lease, finished: Finished) -> None:
        rules, now, outcome = self._desk.rules, self._desk.clock.now(), finished.outcome
        station = self._desk.station

        def write(tx: Tx) -> None:
            unit = settle.settle(tx, lease, outcome, finished.ending, rules, now)
            self.is_unconfigured |= isinstance(outcome, o.Unconfigured)
            if breach is not None and not unit.terminal:
                wanted = settle.wanted_anew(tx, lease, breach)
                replies.ask_for_session(tx, unit, wanted, rules, now, station)

        with self._purse.telling(outcome) as breach:
            await self._desk.database.write(write)

    async def _settle_fault(self, unit: Unit, lease: Lease, error: Exception) -> None:
        trace = "".join(traceback.format_exception(error))
        self._desk.log.error("settlement failed", unit_id=unit.id, unit_type=unit.type, error=trace)
        failed = o.Failed("internal", f"its outcome could not be recorded: {type(error).__name__}: {error}")
        try:
            await self._settle(lease, Finished(failed, settle.Ending()))
        except Exception as again:  # nothing more can be written for this unit
            self._fail(f"{unit.id} could not be settled: {type(again).__name__}: {again}")
