"""Runs that are told to stop, at whatever moment that is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sf.domain import events
from sf.store import leases, runs
from tests.support.stage import PASSING, Stage, plan_scene, say, scene, task, write


@pytest.mark.parametrize("at", [events.RUN_STARTED, events.PHASE_CHANGE])
def test_a_run_that_is_stopped_before_its_first_step_is_settled_all_the_same(tmp_path: Path, at: str) -> None:
    """The announcement of a claim comes before the run's own task has taken a step."""
    stage = Stage(tmp_path / "project", tmp_path / "home" / ".sf")
    stage.script(
        plan_scene({"title": "S", "tasks": [task("T")]}), scene("execute", write("a.txt"), say()), *PASSING
    )
    stage.plan()
    told: list[bool] = []

    def interrupt(event: events.Event) -> None:
        if event.name == at and not told:
            told.append(True)
            loop = asyncio.get_running_loop()
            # Two turns of the loop later the claim has been heard of and its task made, but not run.
            loop.call_soon(lambda: loop.call_soon(_press_ctrl_c))

    result = stage.auto(watch=interrupt)
    assert (told, result.ending) == ([True], "interrupted")
    assert leases.running(stage.read) == []
    assert all(run.ended_at is not None for run in runs.of_unit(stage.read, "milestone/m1"))
    assert stage.auto().ending == "done"


def _press_ctrl_c() -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGINT)
