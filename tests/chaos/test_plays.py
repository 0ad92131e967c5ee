"""Longer plays than the one that is struck everywhere, each at a sample of its boundaries."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.chaos.blows import FAULTS, KILLS
from tests.chaos.ground import Blow, Ground
from tests.chaos.invariants import broken, git
from tests.chaos.plays import (
    ASKED,
    CONTESTED,
    EVENTFUL,
    MERGED,
    PLANNED,
    SINGLE,
    VETOED,
    Outcome,
    Play,
    contest,
    veto,
)
from tests.chaos.sweep import FULL, SEED, Swept, Tally, Trial, strike, sweep
from tests.chaos.tracer import Act
from tests.support.stage import Stage

_BLOWS = (*KILLS, *FAULTS)
_ENDINGS = tuple(blow for blow in KILLS if blow.act != "kill-one")
"""Blows that end the session: whatever makes a run fail is another visit of the script's."""
_LANDING = Blow("nothing has landed yet", "kill-all", place="tmp_pack_", calls=("unlink",))
_STRIDE = 24
_LONGER = {
    "planned": (PLANNED, _BLOWS),
    "single": (SINGLE, _BLOWS),
    "eventful": (EVENTFUL, _ENDINGS),
    "asked": (ASKED, _ENDINGS),
}
_MEANWHILE = {"contested": (contest, CONTESTED), "vetoed": (veto, VETOED)}


def _cases(blows_of: dict[str, tuple[Blow, ...]]) -> pytest.MarkDecorator:
    cases = [(name, blow) for name, blows in blows_of.items() for blow in (blows if FULL else blows[:1])]
    ids = [f"{name}-{blow.name.replace(' ', '-')}" for name, blow in cases]
    return pytest.mark.parametrize(("name", "blow"), cases, ids=ids)


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Ground]]:
    """The ground of a longer play, laid out when it is first asked for."""
    with ExitStack() as stack:

        @functools.cache
        def laid_out(name: str) -> Ground:
            return stack.enter_context(closing(Ground(tmp_path_factory.mktemp(name), _LONGER[name][0])))

        yield laid_out


@_cases({name: blows for name, (_, blows) in _LONGER.items()})
def test_a_longer_play_survives_blows(
    tracer: None, longer: Callable[[str], Ground], name: str, blow: Blow, tally: Tally
) -> None:
    lost = tally(f"{name}: {blow.name}", _sample(longer(name), blow, _auto(_LONGER[name][0])))
    assert not lost, lost


@_cases(dict.fromkeys(_MEANWHILE, _BLOWS))
def test_a_merge_with_what_the_user_did_meanwhile_survives_blows(
    tracer: None, ground: Ground, name: str, blow: Blow, tally: Tally
) -> None:
    lost = tally(f"{name}: {blow.name}", _sample(ground, blow, _meanwhile(ground, *_MEANWHILE[name])))
    assert not lost, lost


@pytest.mark.parametrize(("act", "empties"), [("kill-all", False), ("fail", False), ("kill-all", True)])
def test_a_conflict_that_a_run_could_not_tell_is_told_by_the_next(
    tracer: None, ground: Ground, act: Act, empties: bool
) -> None:
    """It was killed, the disk was full when it would have been written down, or the power went."""
    untold = Blow("laid out, not told", act, place="/attempts.md", calls=("openat",), empties=empties)
    report, problems = strike(ground, untold, 1, _meanwhile(ground, contest, CONTESTED))
    assert report.acted
    assert not problems, "\n".join(problems)


def test_what_a_person_made_of_an_untold_conflict_is_kept(tracer: None, ground: Ground) -> None:
    _meanwhile(ground, contest, CONTESTED)
    ground.traced(Blow("untold", "kill-all", place="/attempts.md", calls=("openat",)), at=1)
    (notes,) = ground.project.worktrees.glob("*/notes.txt")
    assert "<<<<<<<" in notes.read_text()
    notes.write_text("hello\nuser\nmore\nby a person\n")
    assert ground.sf("auto").code == 0
    assert git(ground.root, "show", "main:notes.txt").endswith("by a person")


def test_on_a_rewritten_branch_a_unit_lands_once(tracer: None, ground: Ground) -> None:
    trial = _meanwhile(
        ground, lambda stage: stage.git("commit", "-q", "--amend", "-m", "another first"), MERGED
    )
    landed = Blow("landed, not on record", "kill-all", place="landing.json", calls=("unlink",))
    ground.reset(trial.begin)
    _, report = ground.traced(landed, at=2)
    assert report.acted
    ground.stage.git("commit", "-q", "--allow-empty", "-m", "by the user")
    assert ground.sf("auto").code == 0
    subjects = git(ground.root, "log", "--format=%s", "main").splitlines()
    assert subjects == ["by the user", MERGED.mainline[0], "another first"]
    assert not [line for line in broken(ground, MERGED) if "on record" in line or "evidence" in line]


def _meanwhile(ground: Ground, act: Callable[[Stage], object], outcome: Outcome) -> Trial:
    """The short play, where the user does something just before it lands."""
    _, report = ground.traced(_LANDING, at=1)
    assert report.acted
    act(ground.stage)
    return Trial(("auto",), outcome, ground.keep("meanwhile"))


def _auto(play: Play) -> Trial:
    return Trial(("auto",), play.outcome, code=play.code, then=play.then)


def _sample(ground: Ground, blow: Blow, trial: Trial) -> Swept:
    # Of commits there are a hundred, not thousands.
    stride = _STRIDE // 8 if blow.journals else _STRIDE
    first = random.Random(f"{SEED} {blow.name} {trial.outcome.mainline}").randrange(stride)
    return sweep(ground, blow, first, 1, trial, stride=stride)
