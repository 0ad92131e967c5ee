"""Housekeeping from outside: sessions, start-up, room on the disk, doctor and clean."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sf.domain.units import Status
from sf.observe import disk
from sf.store import sessions, spending
from tests.support.stage import CONFIG, PASSING, Stage, plan_scene, say, scene, task, write

ONE = {"title": "S", "tasks": [task("T")]}
M, T = "milestone/m1", "task/m1/s1/t1"


def scripted(stage: Stage, **options: Any) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt", "agent\n"), say()), *PASSING, **options)


def checks(stage: Stage) -> dict[str, tuple[str, str]]:
    """What doctor says, by name."""
    said = stage.sf("doctor", "--json")
    found = {item["name"]: (item["verdict"], item["detail"]) for item in json.loads(said.stdout)}
    troubled = any(verdict != "pass" for verdict, _ in found.values())
    assert said.returncode == (1 if troubled else 0)
    return found


# --- sessions ---


def test_a_session_ends_and_the_next_plan_begins_one_with_an_account_of_its_own(stage: Stage) -> None:
    scripted(stage, price={"input": 0, "output": 1000})
    stage.plan()
    first = stage.unit(M).session_id
    refused = stage.sf("session", "end")
    assert refused.returncode == 2
    assert "1 unit(s) are open [wrong_state]" in refused.stderr
    assert stage.auto().ending == "done"
    assert stage.sf("session", "end").returncode == 0
    assert sessions.current(stage.read) is None
    again = stage.sf("session", "end")
    assert "there is no session to end" in again.stderr
    assert stage.sf("status").returncode == 0
    second = stage.unit(stage.plan("more")).session_id
    assert second != first
    assert spending.account(stage.read, "session", first).spent > 0
    assert spending.account(stage.read, "session", second).spent == 0
    lines = json.loads(stage.sf("session", "list", "--json").stdout)
    assert [(line["id"], line["status"], line["done"], line["units"]) for line in lines] == [
        (first, "complete", 3, 3),
        (second, "idle", 0, 1),
    ]
    assert lines[0]["ended_at"] >= lines[0]["started_at"]
    assert lines[0]["cost_micro_usd"] == spending.account(stage.read, "session", first).spent
    assert "3 / 3" in stage.sf("session", "list").stdout


def test_open_units_go_on_in_the_next_session_and_spend_from_its_account(stage: Stage) -> None:
    stage.configure(
        CONFIG.replace("[harness]", "[harness]\nmax_output_tokens = 1000", 1)
        + "[budget]\nsession_usd = 2.0\n"
    )
    scripted(stage, price={"input": 0, "output": 1000})
    stage.plan()
    first = stage.unit(M).session_id
    assert stage.auto().ending == "budget"
    spent = spending.account(stage.read, "session", first).spent
    assert stage.sf("session", "end", "--force").returncode == 0
    assert json.loads(stage.sf("attention", "--json").stdout) == []
    stage.auto()
    second = stage.unit(M).session_id
    assert second != first
    assert spending.account(stage.read, "session", first).spent == spent
    assert spending.account(stage.read, "session", second).spent > 0
    assert checks(stage)["units"][0] == "pass"


# --- the start ---


@pytest.mark.conforms("C-24")
def test_artifacts_of_ended_units_are_archived_at_the_start_by_rename(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    assert stage.auto().ending == "done"
    left = stage.project.active(T)
    left.mkdir(parents=True)
    (left / "plan.md").write_text("left by a crash\n")
    inode = left.stat().st_ino
    stage.plan("another")
    waiting = stage.project.active("milestone/m2")
    waiting.mkdir(parents=True)
    (waiting / "research.md").write_text("still needed\n")
    connection = sqlite3.connect(stage.project.database)
    connection.execute("UPDATE units SET hold_kind = 'blocked' WHERE id = 'milestone/m2'")
    connection.commit()
    connection.close()
    stage.auto()
    assert not left.exists()
    kept = [path for path in (stage.project.dot / "archive").iterdir() if path.stat().st_ino == inode]
    assert [(path / "plan.md").read_text() for path in kept] == ["left by a crash\n"]
    assert (waiting / "research.md").exists()


@pytest.mark.conforms("C-24")
def test_a_unit_whose_run_was_cut_off_is_interrupted_and_its_slot_is_free(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    connection = sqlite3.connect(stage.project.database)
    connection.execute(
        "UPDATE units SET phase_status = 'running', attempt = 1, claim_holder = 'gone', claim_until = 1"
    )
    connection.execute(
        "INSERT INTO runs (id, run_kind, unit_id, unit_id_snap, attempt, phase, started_at)"
        " VALUES ('R', 'unit_attempt', ?, ?, 1, 'research', 1)",
        (M, M),
    )
    connection.commit()
    connection.close()
    assert checks(stage)["units"][0] == "pass"
    assert stage.auto().ending == "done"
    assert stage.unit(M).status is Status.SUCCEEDED


# --- room ---


def test_worktrees_over_the_quota_begin_nothing_new_and_what_has_begun_goes_on(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    for _ in range(3):
        stage.sf("next")
    assert stage.unit("slice/m1/s1").base_commit is not None
    stage.plan("another")
    ballast = stage.project.worktrees / "ballast"
    ballast.mkdir()
    (ballast / "big").write_bytes(b"x" * (8 << 20))
    stage.configure(CONFIG + "[housekeeping]\nmax_worktrees_gb = 0.005\n")
    ended = stage.sf("auto")
    assert ended.returncode == 3, ended.stdout
    assert "max_worktrees_gb" in ended.stdout
    assert stage.unit(M).succeeded
    assert stage.unit("milestone/m2").attempt == 0
    said = stage.sf("status").stdout
    assert "worktrees 8.0 MiB" in said
    assert "nothing new is begun" in said
    shutil.rmtree(ballast)
    assert stage.sf("auto").returncode == 0
    assert stage.unit("milestone/m2").succeeded
    assert "nothing new is begun" not in stage.sf("status").stdout


def test_what_is_shared_by_hard_links_costs_the_repository_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "shared").hardlink_to(tmp_path / "a")
    empty, _ = disk.size(tmp_path / "own", own=True)
    counted, _ = disk.size(tmp_path / "own")
    assert counted - empty >= 100_000
    assert disk.size(tmp_path / "own", deadline=0)[1] is False
