"""Dealing one blow at every boundary in turn, and judging what is left each time."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from tests.chaos import power
from tests.chaos.ground import Blow, Ground
from tests.chaos.invariants import broken
from tests.chaos.plays import MERGED, Outcome
from tests.chaos.stable import Ended
from tests.chaos.tracer import Report, is_of_rows

FULL = os.environ.get("SF_CHAOS", "") == "full"
SEED = int(os.environ.get("SF_CHAOS_SEED", "20261115"))
SHARDS = 12 if FULL else 1
_DOCTOR = 5
"""In the full form `sf doctor` is asked at every so-manieth boundary; twelve shards meet all remainders."""

_LONG = 30.0
"""Seconds that no clean run takes, on a busy machine neither."""


class Trial(msgspec.Struct, frozen=True):
    """A command that is struck and then repeated, the state it starts from, and what it comes to."""

    command: tuple[str, ...]
    outcome: Outcome
    begin: Path | None = None
    """A state that was kept; by default nothing has run yet."""
    done_before: str = ""
    """What the repeated command may say when the struck one had done everything."""
    code: int = 0
    """How it ends when nothing strikes it."""
    then: tuple[tuple[str, ...], ...] = ()
    """What is said after it, until everything has come to what it comes to."""


AUTO = Trial(("auto",), MERGED)


class Swept(msgspec.Struct, frozen=True):
    """What a sweep met: how many boundaries there are, how many were struck, and what went wrong."""

    boundaries: int
    struck: int
    losses: list[str]


Tally = Callable[[str, Swept], str]
"""Counts a sweep under a name; what was lost, or nothing."""


def sweep(
    ground: Ground, blow: Blow, shard: int, points: int, trial: Trial = AUTO, *, stride: int = SHARDS
) -> Swept:
    """Strike at every `stride`-th boundary from this shard's on; in the short form at about `points`."""
    ground.reset(trial.begin)
    _, clean = ground.traced(msgspec.structs.replace(blow, act="none"), command=trial.command)
    total = len([met for met in clean.boundaries if not blow.journals or is_of_rows(met)])
    struck = 0
    losses: list[str] = []
    for number in _numbers(total, shard, points, stride):
        report, problems = strike(ground, blow, number, trial)
        if not report.acted:
            break
        struck += 1
        if problems:
            met = report.boundaries[-1 if blow.journals else number - 1]
            kept = ground.keep(f"{blow.name}-{number}")
            where = f"{blow.name} at {number}: {met.call} of {met.program} on {met.place}"
            losses.append("\n  ".join([f"{where}; seed {SEED}; kept in {kept}", *problems]))
    return Swept(total, struck, losses)


def _numbers(total: int, shard: int, points: int, stride: int) -> Iterator[int]:
    """Without end in the full form: a sweep is over when a run ends before its blow."""
    if FULL:
        yield from iter(range(1 + shard, 1_000_000, stride))
    else:
        chance, apart = random.Random(SEED), max(1, total // points)
        yield from (first + chance.randrange(apart) for first in range(1, total - apart + 2, apart))


def strike(ground: Ground, blow: Blow, number: int, trial: Trial = AUTO) -> tuple[Report, list[str]]:
    """One run with one blow, then a clean run; what is broken after it."""
    ground.reset(trial.begin)
    ended, report = ground.traced(blow, at=number, command=trial.command)
    problems = list(_bad_manners(ended, report, ground, blow))
    if blow.empties and report.acted:
        # The last one was not carried out.
        power.cut(ground.place, report.boundaries[:-1])
    if blow.journals and report.acted:
        power.roll_back(ground, report.boundaries)
    began = time.monotonic()
    try:
        again = ground.sf(*trial.command)
    except TimeoutError as error:
        return report, [*problems, f"the clean run hung: {error}"]
    if time.monotonic() - began > _LONG:
        problems.append(f"the clean run stood still: it took {time.monotonic() - began:.0f} s")
    had_ended = bool(trial.done_before) and trial.done_before in again.stderr
    if again.code != trial.code and not had_ended:
        problems.append(f"the clean run ended with {again.code}: {again.stdout[-600:]} {again.stderr[-600:]}")
    for command in trial.then:
        after = ground.sf(*command)
        if after.code != 0:
            problems.append(
                f"{command[0]} ended with {after.code}: {after.stdout[-600:]} {after.stderr[-600:]}"
            )
    torn = 1 if blow.act == "tear" else 0
    # The doctor starts as many processes as half a run; what it looks for is nearly all looked for here.
    doctor = not FULL or number % _DOCTOR == 0
    return report, [*problems, *broken(ground, trial.outcome, torn=torn, doctor=doctor)]


def _bad_manners(ended: Ended, report: Report, ground: Ground, blow: Blow) -> Iterable[str]:
    """How a run that was struck may not end."""
    if report.timed_out:
        yield "the run hung"
    if "Traceback" in ended.stderr:
        yield f"a traceback: {ended.stderr[-800:]}"
    if ended.code > 0 and blow.act == "fail" and not (ended.stderr.strip() or ended.stdout.strip()):
        yield f"it ended with {ended.code} and said nothing"
    crash = ground.home / "log" / "crash.log"
    if crash.exists():
        yield f"an internal error: {crash.read_text()[-800:]}"
        crash.unlink()
