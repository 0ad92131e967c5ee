"""What a person sees on a terminal while the autopilot works, and what is left on it."""

from __future__ import annotations

import pytest

from sf.app import planning
from tests.support.stage import PASSING, SHORT, Stage, call, say, scene, write
from tests.support.terminal import Seat


def _adhoc(stage: Stage, *goals: str) -> None:
    stage.workflow("short", SHORT)
    for goal in goals:
        planning.plan(stage.project, goal, workflow="short", adhoc=True)


def _auto(stage: Stage, columns: int = 110, rows: int = 35) -> Seat:
    return Seat(stage.root, stage.home, "auto", columns=columns, rows=rows)


@pytest.mark.parametrize("size", [(100, 3), (100, 2), (70, 30), (20, 10)])
def test_no_row_is_left_behind_in_a_small_window_or_by_wide_characters(
    stage: Stage, size: tuple[int, int]
) -> None:
    _adhoc(stage, "検索機能を追加して結果を並べ替える仕事です", "e\u0301" * 50, "three")
    turns = [call("bash", command="sleep 0.2") for _ in range(4)]
    stage.script(scene("execute", *turns, write("a.txt"), say()), *PASSING)
    seat = _auto(stage, *size)
    lines = seat.end()
    assert seat.process.returncode == 0
    assert "running ·" in seat.told, "something was drawn"
    assert not [line for line in lines if line.startswith("⠿") or "running ·" in line]
