"""The projects that are struck over and over, and what each comes to, whatever happened on the way."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sf.app import planning
from tests.support.stage import CONFIG, PASSING, Stage, call, plan_scene, say, scene, task, write
from tests.support.stage import SHORT as SHORT_WORKFLOW
from tests.support.stage import SINGLE as SINGLE_WORKTREE

UNIT = "task/a1"
"""The one unit of the short play."""

_PRICE = {"input": 3.0, "output": 15.0}
_TOLD = """#!/bin/sh
echo "$SF_UNIT_ID" >> "$SF_PROJECT_ROOT/../told.txt"
"""
_FILES = {"notes.txt": "hello\nmore\n", "a.txt": "text\n", "sub/b.txt": "deep\n"}
_GATE = """#!/bin/sh
if [ -e veto.txt ] && ! [ -e answer.txt ]; then echo "the veto has no answer"; exit 1; fi
grep -qx text a.txt && grep -qx deep sub/b.txt && grep -qx more notes.txt && exit 0
echo "work is missing"
exit 1
"""
_TASKS = ("T1", "T2")
_WANTED = {"verdict": "request_changes", "summary": "more"}
_WRITTEN = [f"{folder}{name}.txt" for name in _TASKS for folder in ("", "tests/")]


class Outcome(msgspec.Struct, frozen=True):
    """What everything comes to in the end."""

    mainline: tuple[str, ...]
    """The subjects of the branch's own commits, newest first."""
    commits: tuple[str, ...]
    """The subjects of those that were merged."""
    files: dict[str, str]
    units: tuple[str, ...]
    """All of them, each done once; tasks and what lands have a commit."""
    reverted: bool = False
    told: bool = False
    """A hook writes down every unit that ends."""

    @property
    def merging(self) -> int:
        """How many units merge something: the tasks, and the one above them that lands."""
        return sum(unit.startswith("task/") for unit in self.units) + (len(self.units) > 1)


class Play(msgspec.Struct, frozen=True):
    """A project with its agent's script, and what `sf auto` makes of it."""

    prepare: Callable[[Stage], None]
    outcome: Outcome
    code: int = 0
    """How `sf auto` ends."""
    then: tuple[tuple[str, ...], ...] = ()
    """What has to be said after it."""


def _prepare_short(stage: Stage) -> None:
    stage.workflow("short", SHORT_WORKFLOW)
    stage.gate("check", _GATE)
    _script_short(stage, _FILES)
    planning.plan(stage.project, "make it", workflow="short", adhoc=True)


def contest(stage: Stage) -> None:
    """The user commits to a line that the short play changes too; its agent keeps both."""
    stage.file("notes.txt", "hello\nuser\n")
    stage.git("commit", "-q", "-a", "-m", "meanwhile")
    _script_short(stage, CONTESTED.files)


def veto(stage: Stage) -> None:
    """The user commits what fits the short play's work, but makes the gate refuse both together."""
    stage.file("veto.txt", "no\n")
    stage.commit("meanwhile")
    _script_short(stage, VETOED.files)


def _script_short(stage: Stage, files: dict[str, str]) -> None:
    writes = [write(name, content) for name, content in files.items()]
    stage.script(scene("execute", *writes, say()), *PASSING, price=_PRICE)


def _prepare_asked(stage: Stage) -> None:
    _prepare_short(stage)
    writes = [write(name, content) for name, content in _FILES.items()]
    asking = say("Text or prose?\n<turn_status>blocked</turn_status>")
    stage.script(
        scene("execute", writes[0], asking, visits=[1]),
        scene("execute", *writes, say()),
        *PASSING,
        price=_PRICE,
    )


def _prepare_single(stage: Stage) -> None:
    _prepare_planned(stage, SINGLE_WORKTREE)


def _prepare_planned(stage: Stage, config: str = CONFIG) -> None:
    stage.hook("told", _TOLD)
    stage.configure(config + '[harness.hooks]\npost_unit = ["./.sf/hooks/told.sh"]\n')
    slice_ = {"title": "A slice", "tasks": [task("T1"), task("T2", blocked_by=["T1"])]}
    stage.script(
        plan_scene(slice_),
        *(scene("execute", write(f"{name}.txt"), say(), unit=name) for name in _TASKS),
        *(scene("tdd", write(f"tests/{name}.txt"), say(), unit=name) for name in _TASKS),
        *PASSING,
        price=_PRICE,
    )
    stage.plan()


def _prepare_eventful(stage: Stage) -> None:
    slice_ = {"title": "A slice", "tasks": [task("T1"), task("T2", blocked_by=["T1"])]}
    again = {"goal": "again", "approach": "so", "deliverables": ["d"], "verification": ["v"]}
    stage.script(
        plan_scene(slice_, unit="do it"),
        scene("plan", call("submit_plan", **again, allowed_areas=["T2.txt", "tests"]), unit="T2"),
        scene("execute", write("T1.txt", "BROKEN\n"), say(), unit="T1", visits=[1]),
        scene("execute", say("No.\n<turn_status>giving_up</turn_status>"), unit="T2", visits=[1]),
        *(scene("execute", write(f"{name}.txt"), say(), unit=name) for name in _TASKS),
        scene("execute", write("mended.txt"), say(), unit="A slice"),
        *(scene("tdd", write(f"tests/{name}.txt"), say(), unit=name) for name in _TASKS),
        scene("reassess", call("submit_reassessment", outcome="replan", explanation="once more")),
        scene("review_synthesis", call("submit_synthesis", **_WANTED), visits=[1]),
        *PASSING,
        price=_PRICE,
    )
    stage.plan()


MERGED = Outcome((f"Merge {UNIT}: make it", "first"), ("make it",), _FILES, (UNIT,))
REVERTED = Outcome(
    (f'Revert "{MERGED.mainline[0]}"', *MERGED.mainline),
    MERGED.commits,
    {"notes.txt": "hello\n"},
    MERGED.units,
    reverted=True,
)
CONTESTED = Outcome(
    (MERGED.mainline[0], "meanwhile", "first"),
    ("make it", "make it"),
    {**_FILES, "notes.txt": "hello\nuser\nmore\n"},
    MERGED.units,
)
"""The short play when the user committed to the same line before it landed: both sides' intent survives."""

VETOED = Outcome(
    CONTESTED.mainline,
    CONTESTED.commits,
    {**_FILES, "answer.txt": "yes\n", "veto.txt": "no\n"},
    MERGED.units,
)
"""The short play when only what the user committed and what sf wrote together is refused."""

SHORT = Play(_prepare_short, MERGED)
"""One task: written, proven by a real gate, merged."""

ASKED = Play(_prepare_asked, MERGED, code=3, then=(("reply", UNIT, "text"), ("auto",)))
"""The same, but the agent has a question first, and waits for its answer."""

PLANNED = Play(
    _prepare_planned,
    Outcome(
        ("Merge slice/m1/s1: A slice", "first"),
        _TASKS,
        {
            "notes.txt": "hello\n",
            **{f"{sub}{name}.txt": "text\n" for name in _TASKS for sub in ("", "tests/")},
        },
        ("milestone/m1", "slice/m1/s1", "task/m1/s1/t1", "task/m1/s1/t2"),
        told=True,
    ),
)
"""A milestone that the agent plans: two tasks one after the other in a slice's worktree, reviewed, merged."""

SINGLE = Play(
    _prepare_single,
    msgspec.structs.replace(PLANNED.outcome, mainline=("Merge milestone/m1: do it", "first")),
)
"""The same in one worktree for the whole milestone, which lands as one."""

EVENTFUL = Play(
    _prepare_eventful,
    Outcome(
        PLANNED.outcome.mainline,
        (*_TASKS, "A slice: what gates and review asked for"),
        {**PLANNED.outcome.files, "mended.txt": "text\n"},
        PLANNED.outcome.units,
    ),
)
"""As planned, but a gate refuses, a task is given up and planned anew, and the review wants more."""
