"""Several orchestrators drain one store while they are killed at random: each unit is done exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from sf.domain.units import HoldKind
from sf.domain.workflows import parse
from sf.harness import planting
from sf.harness.rules import Rules
from sf.scheduler import replies
from sf.store import attention, runs, sessions, units
from sf.store.connection import open_reader, transact
from sf.store.place import Place, Url
from sf.store.tx import Tx
from tests.chaos.sweep import FULL, SEED
from tests.support.drainer import WORKFLOW, fast_now

ROOT = Path(__file__).parent.parent.parent
PROCESSES, KILLS, PER_KILL = (4, 1000, 10) if FULL else (2, 5, 12)
_PATIENCE = 60.0


def _plant(tx: Tx, count: int) -> None:
    now = fast_now()
    session_id = sessions.ensure(tx, now, "main")
    for number in range(count):
        planting.plant_goal(
            tx,
            Rules(),
            title=f"null {number}",
            description="",
            workflow=parse(WORKFLOW, "null"),
            content=WORKFLOW,
            session_id=session_id,
            now=now,
            adhoc=True,
        )


def _won(journal: Path) -> int:
    return journal.read_text(encoding="ascii").count("won") if journal.exists() else 0


class Crew:
    """The processes at work on one store."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._folder = folder
        self._end = folder / "end"
        self._started = 0
        self.live: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(self) -> None:
        """One process more."""
        self._started += 1
        journal = self._folder / f"{self._started}.journal"
        where = (
            [self._place.value, self._place.schema]
            if isinstance(self._place, Url)
            else [str(self._place), ""]
        )
        command = [sys.executable, "-m", "tests.support.drainer", *where, str(journal), str(self._end)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        self.live.append((process, journal))

    def kill_one(self, chance: random.Random) -> None:
        """Units for them, and kill -9 to the first that takes one, at some moment after that."""
        before = {journal: _won(journal) for _, journal in self.live}
        transact(self._place, lambda tx: _plant(tx, PER_KILL))
        deadline = time.monotonic() + _PATIENCE
        while not (at_work := [one for one in self.live if _won(one[1]) > before[one[1]]]):
            assert all(process.poll() is None for process, _ in self.live), "a drainer ended by itself"
            assert time.monotonic() < deadline, "no drainer takes anything"
            time.sleep(0.001)
        time.sleep(chance.random() * 0.02)
        victim = at_work[0]
        victim[0].kill()
        victim[0].wait()
        self.live.remove(victim)

    def told(self) -> list[tuple[str, str, int]]:
        """What every process wrote down; the last line of a killed one may be cut short."""
        found = []
        for journal in self._folder.glob("*.journal"):
            for line in journal.read_text(encoding="ascii").split("\n")[:-1]:
                if line != "up":
                    word, unit_id, attempt = line.split()
                    found.append((word, unit_id, int(attempt)))
        return found

    def dismiss(self) -> list[int]:
        """Let all of them end by themselves; their exit codes."""
        self._end.touch()
        return [process.wait(timeout=_PATIENCE) for process, _ in self.live]

    def kill_all(self) -> None:
        """Leave nothing behind."""
        for process, _ in self.live:
            process.kill()
            process.wait()


def test_units_are_done_exactly_once_however_their_orchestrators_die(place: Place, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}: {PROCESSES} processes, {KILLS} kills, {KILLS * PER_KILL} units")
    crew = Crew(place, tmp_path)
    transact(place, lambda tx: _plant(tx, 0))
    try:
        for _ in range(PROCESSES):
            crew.start()
        for _ in range(KILLS):
            crew.kill_one(chance)
            crew.start()
        parked = _wait_until_done(place)
        assert set(crew.dismiss()) == {0}
    finally:
        crew.kill_all()
    _check(place, crew.told())
    print(f"{parked} units were parked as crash_loop, and done when a person said so")


def _wait_until_done(place: Place) -> int:
    """Stuck is where nothing more is done: on a busy machine thousands may be left after the last kill.

    The oldest are taken first, and some may have been struck so often that they wait for a person, who
    answers here; how many did.
    """
    read = open_reader(place)
    parked = 0
    least, deadline = units.open_count(read), time.monotonic() + _PATIENCE
    while open_now := units.open_count(read):
        if units.held(read):
            parked += transact(place, _answer_crash_loops)
        if open_now < least:
            least, deadline = open_now, time.monotonic() + _PATIENCE
        left = [f"{u.id} {u.phase}/{u.status} {u.hold_kind}" for u in units.listed(read, most=5)]
        assert time.monotonic() < deadline, f"stuck with {open_now}: {left}"
        time.sleep(0.05)
    return parked


def _answer_crash_loops(tx: Tx) -> int:
    asked = [item for item in attention.waiting(tx) if item.kind == HoldKind.CRASH_LOOP]
    for item in asked:
        replies.give(tx, item, "again", "operator", Rules(), fast_now())
    return len(asked)


def _check(place: Place, told: list[tuple[str, str, int]]) -> None:
    read = open_reader(place)
    everything = units.listed(read, archived=True, most=1_000_000)
    assert len(everything) == KILLS * PER_KILL
    assert all(unit.succeeded and unit.claim_holder is None for unit in everything)
    assert runs.live(read) == []
    won = Counter((unit_id, attempt) for word, unit_id, attempt in told if word == "won")
    assert all(times == 1 for times in won.values()), "a claim was given twice"
    did = Counter(unit_id for word, unit_id, _ in told if word == "did")
    assert all(times == 1 for times in did.values()), "a unit was done twice"
    ended = read.all("SELECT unit_id, COUNT(*) AS n FROM phase_transitions GROUP BY unit_id")
    assert [row["unit_id"] for row in ended if row["n"] != 1] == [], "one change of phase each"
    found = read.all(
        "SELECT unit_id_snap, attempt, outcome, started_at, ended_at FROM runs ORDER BY unit_id_snap, attempt"
    )
    last: dict[str, int] = {}
    for row in found:
        name = row["unit_id_snap"]
        assert row["attempt"] == 1 or last[name] <= row["started_at"], f"two runs of {name} at once"
        last[name] = row["ended_at"]
    outcomes = Counter(row["outcome"] for row in found)
    assert outcomes["success"] == len(everything), outcomes
    assert outcomes["interrupted"] == len(found) - len(everything), outcomes
    print(f"{len(found)} runs, of which {outcomes['interrupted']} were interrupted by a kill")
