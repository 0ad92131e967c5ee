"""What a person sees on a terminal while the autopilot works, and what is left on it."""

from __future__ import annotations

import signal

import pytest

from sf.app import planning
from tests.support.stage import CONFIG, PASSING, SHORT, Stage, call, say, scene, write
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


def test_the_row_names_the_step_that_is_under_way(stage: Stage) -> None:
    _adhoc(stage, "make it")
    stage.gate("check", "#!/bin/sh\nsleep 1\n")
    stage.script(scene("execute", call("bash", command="sleep 1"), write("a.txt"), say()), *PASSING)
    seat = _auto(stage, columns=160)
    seat.end()
    rows = [line for line in seat.told.splitlines() if "⠿ task/a1" in line]
    assert any(" execute " in row and row.endswith('  make it  bash {"command": "sleep 1"}') for row in rows)
    assert any(" verify " in row and row.endswith("  make it  gate check") for row in rows)


def test_a_stop_is_told_at_once_and_how_to_go_on_at_the_end(stage: Stage) -> None:
    _adhoc(stage, "make it")
    stage.script(scene("execute", call("bash", command="sleep 30", timeout_seconds=60), say()), *PASSING)
    seat = _auto(stage)
    seat.until(lambda told: "bash {" in told)
    for _ in range(2):
        seat.process.send_signal(signal.SIGINT)
    lines = seat.end()
    assert seat.process.returncode == 130
    assert sum(line.endswith("sf               stopping: one run is ended …") for line in lines) == 1
    assert any(line.endswith("task/a1          shutdown") for line in lines)
    assert [line for line in lines if line][-1] == "interrupted → sf auto goes on"


@pytest.mark.parametrize("columns", [100, 80])
def test_the_closing_table_fits_the_window(stage: Stage, columns: int) -> None:
    _adhoc(
        stage, "give the whole of it another and better name", "検索機能を追加して結果を並べ替える仕事です"
    )
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    lines = _auto(stage, columns).end()
    (header,) = (number for number, line in enumerate(lines) if line.startswith("unit "))
    table = lines[header : header + 4]
    assert [line.split()[0] for line in table[2:]] == ["task/a1", "task/a2"]
    assert all("…" in line for line in table[2:]) and max(map(len, table)) <= columns
    assert len({line.index("success") for line in table[2:]} | {table[0].index("result")}) == 1


def test_while_nothing_runs_it_is_told_what_is_waited_for(stage: Stage) -> None:
    stage.configure(CONFIG.replace('"10ms"', '"40s"').replace('"20ms"', '"5m"'))
    _adhoc(stage, "make it")
    stage.script(scene("execute", {"fault": "server_error"}), *PASSING)
    first: list[str] = []
    for _ in range(2):  # by the run that failed, and by a start after it
        seat = _auto(stage)
        seat.until(lambda told: "0 running, task/a1 again in 3" in told)
        seat.process.send_signal(signal.SIGINT)
        lines = seat.end()
        first = first or lines
    assert any(line.endswith("task/a1          again in 40.0s") for line in first)
