"""Commands as a person runs them, and bad input: one clear line, the right exit code, nothing lost."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sf.app import reports
from sf.app.stores import place_of
from sf.domain import events
from sf.domain.clock import SystemClock
from sf.domain.events import Event
from sf.errors import SfError
from sf.harness.rules import Rules
from sf.observe import trace
from sf.scheduler import intents
from sf.scheduler.lock import ProjectLock
from sf.store import sessions
from sf.store.connection import transact
from tests.support.stage import (
    CONFIG,
    PASSING,
    SHORT,
    Stage,
    call,
    plan_scene,
    run_sf,
    say,
    scene,
    start_sf,
    task,
    write,
)

ONE = {"title": "S", "tasks": [task("T")]}


def _one_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return lines[0]


def _repository(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    return folder


def test_init_outside_a_repository(tmp_path: Path) -> None:
    done = run_sf(tmp_path, tmp_path / "home", "init")
    assert (done.returncode, "not_a_repository" in _one_line(done)) == (2, True)
    assert not (tmp_path / ".sf").exists()


def test_commands_outside_a_project_say_so(tmp_path: Path) -> None:
    done = run_sf(tmp_path, tmp_path / "home", "status")
    assert done.returncode == 2
    assert "sf init" in _one_line(done)


def test_an_empty_repository_cannot_be_planned_on(tmp_path: Path) -> None:
    root = _repository(tmp_path / "p")
    assert run_sf(root, tmp_path / "home", "init").returncode == 0
    done = run_sf(root, tmp_path / "home", "plan", "x")
    assert (done.returncode, "empty_repository" in _one_line(done)) == (2, True)


def test_a_detached_head_has_no_branch_to_integrate_into(stage: Stage) -> None:
    stage.git("checkout", "-q", "--detach")
    done = stage.sf("plan", "x")
    assert (done.returncode, "detached_head" in _one_line(done)) == (2, True)


def test_init_detects_tests_and_changes_nothing_the_second_time(tmp_path: Path) -> None:
    root = _repository(tmp_path / "p")
    (root / "tests").mkdir()
    (root / "tests" / "test_a.py").write_text("import unittest\n")
    (root / "Makefile").write_text("lint:\n\ttrue\n")
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    first = run_sf(root, tmp_path / "home", "init", "--json")
    report = json.loads(first.stdout)
    assert report["stack"] == {
        "languages": ["Python"],
        "tests": "python3 -m unittest discover -s tests -t .",
        "lint": "make lint",
    }
    before = {path: path.read_bytes() for path in (root / ".sf").rglob("*.*") if "sf.db" not in path.name}
    second = run_sf(root, tmp_path / "home", "init")
    assert "nothing was changed" in second.stdout
    assert before == {p: p.read_bytes() for p in (root / ".sf").rglob("*.*") if "sf.db" not in p.name}
    ignored = subprocess.run(["git", "check-ignore", ".sf/sf.db", ".sf/log/x"], cwd=root, capture_output=True)
    assert ignored.stdout.decode().split() == [".sf/sf.db", ".sf/log/x"]


def test_tests_that_appear_later_are_told_and_no_gate_is_left_lying_about(tmp_path: Path) -> None:
    root = _repository(tmp_path / "p")
    assert run_sf(root, tmp_path / "home", "init").returncode == 0
    (root / "tests").mkdir()
    (root / "tests" / "test_a.py").write_text("import unittest\n")
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    again = run_sf(root, tmp_path / "home", "init")
    assert "run by no gate: python3 -m unittest" in again.stdout
    assert not (root / ".sf" / "gates").exists()


def test_a_start_that_was_refused_is_repeated_by_status(stage: Stage) -> None:
    stage.configure(CONFIG.replace("script:test", "anthropic:claude-haiku-4-5"))
    stage.plan()
    refused = stage.sf("auto", env={"ANTHROPIC_API_KEY": ""})
    assert refused.returncode == 2
    shown = stage.sf("status").stdout
    assert "Session:    failed" in shown
    assert "ANTHROPIC_API_KEY" in shown


def test_short_ids_are_understood(stage: Stage) -> None:
    stage.plan()
    assert "milestone/m1: do it" in stage.sf("why", "m1").stdout
    assert stage.sf("abandon", "m1", "no").returncode == 0
    assert stage.unit("milestone/m1").status == "canceled"


def test_init_without_tests_says_that_nothing_will_be_merged(tmp_path: Path) -> None:
    root = _repository(tmp_path / "p")
    done = run_sf(root, tmp_path / "home", "init")
    assert done.returncode == 0
    assert "without a gate nothing is merged" in done.stdout
    doctor = run_sf(root, tmp_path / "home", "doctor")
    assert doctor.returncode == 1
    assert re.search(r"warn\s+gates", doctor.stdout)


def test_a_misspelt_command_is_understood(stage: Stage) -> None:
    done = stage.sf("statsu")
    assert (done.returncode, "did you mean 'status'" in _one_line(done)) == (2, True)
    assert _one_line(done).endswith(" [bad_usage]"), "the parser's refusals have a code as well"


def test_a_reason_that_is_missing_is_shown_by_example(stage: Stage) -> None:
    done = stage.sf("abandon", "m1")
    expected = "sf: Missing argument 'REASON'. [bad_usage] → for example: "
    expected += 'sf abandon slice/m1/s2 "not needed any more"'
    assert (done.returncode, _one_line(done)) == (2, expected)


def test_an_unknown_unit_and_an_unknown_workflow(stage: Stage) -> None:
    why = stage.sf("why", "task/m9/s9/t9")
    assert (why.returncode, "unknown_unit" in _one_line(why)) == (2, True)
    plan = stage.sf("plan", "x", "--workflow", "featur")
    assert plan.returncode == 2
    assert "did you mean 'feature'" in _one_line(plan)


def test_a_goal_of_100_kb_is_kept_whole(stage: Stage) -> None:
    goal = "Make it so.\n" + "detail " * 15_000
    assert stage.sf("plan", "-", stdin=goal).returncode == 0
    unit = stage.unit("milestone/m1")
    assert unit.title == "Make it so."
    assert unit.description == goal.strip()


def test_an_empty_goal_is_refused(stage: Stage) -> None:
    done = stage.sf("plan", "  ")
    assert (done.returncode, "bad_usage" in _one_line(done)) == (2, True)


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [("missing", "there is no such file"), ("no run bit", "has no run bit")],
)
def test_a_gate_that_cannot_be_run_stops_the_start(stage: Stage, break_it: str, expected: str) -> None:
    gate = stage.root / ".sf/gates/check.sh"
    if break_it == "missing":
        gate.unlink()
    else:
        gate.chmod(0o644)
    stage.script(*PASSING)
    stage.plan()
    done = stage.sf("auto")
    assert done.returncode == 2
    assert expected in done.stderr


def test_every_configuration_error_is_listed_with_file_key_and_what_is_allowed(stage: Stage) -> None:
    stage.configure(
        '[harness]\nmax_atempts = 3\nturn_timeout = "soon"\nworktree_mode = "none"\n'
        '[providers.openai]\napi_key = "sk-plain"\n[routing]\nexecute = "slow"\n'
    )
    done = stage.sf("config", "check")
    assert done.returncode == 2
    for expected in (
        'harness.max_atempts: unknown key; did you mean "max_attempts"?',
        'harness.turn_timeout: expected a duration such as "90s"',
        'harness.worktree_mode: must be one of "branch-per-slice", "milestone-per-worktree"',
        'routing.execute: must be one of "fast", "standard", "reasoning"',
    ):
        assert expected in done.stderr
    assert str(stage.project.config) in done.stderr
    stage.configure('[providers.openai]\napi_key = "sk-plain"\n')
    plain = stage.sf("config", "check")
    assert "plaintext keys are refused" in plain.stderr
    assert "sk-plain" not in plain.stdout + plain.stderr


def test_configuration_that_came_with_the_repository_cannot_loosen_or_run_anything(stage: Stage) -> None:
    marker = stage.root / "marker"
    stage.configure(
        CONFIG + f'[sandbox]\nprofile = "off"\n[harness.hooks]\nbefore_run = "touch {marker}"\n'
        f'[providers.evil]\napi_key = "$(touch {marker})"\n'
    )
    stage.git("add", "-f", ".sf/config.toml")
    stage.git("commit", "-q", "-m", "config comes along")
    stage.script(*PASSING)
    for command in (["auto"], ["plan", "x"], ["doctor"], ["config", "check"], ["config", "show"]):
        done = stage.sf(*command)
        assert done.returncode == (1 if command == ["doctor"] else 2)
        said = done.stdout + done.stderr
        assert said.count("a file that git tracks may not") >= 4, said
    assert not marker.exists()


def test_a_folder_that_is_a_link_or_a_submodule_is_not_sfs_own(tmp_path: Path) -> None:
    root = _repository(tmp_path / "p")
    (root / "conf").mkdir()
    (root / "conf" / "config.toml").write_text('[sandbox]\nprofile = "off"\n')
    (root / ".sf").symlink_to("conf")
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    for command in ("init", "status", "doctor", "config"):
        done = run_sf(root, tmp_path / "home", command, *(["check"] if command == "config" else []))
        assert done.returncode != 0, command
    assert "unsafe_config" in run_sf(root, tmp_path / "home", "init").stderr


def test_a_tracked_workflow_must_review_and_prove_what_it_merges(stage: Stage) -> None:
    stage.workflow("feature", 'name = "feature"\nphases = ["execute", "merge", "complete"]\n')
    assert stage.sf("plan", "mine").returncode == 0
    stage.git("add", "-f", ".sf/workflows/feature.toml")
    stage.git("commit", "-q", "-m", "it came along")
    done = stage.sf("plan", "theirs")
    assert (done.returncode, "merges without verify and review" in _one_line(done)) == (2, True)


def test_a_moved_project_keeps_its_work_and_a_lost_repository_is_not_started_over(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "S", "tasks": [task("A"), task("B", blocked_by=["A"])]}),
        scene("execute", write("one.txt"), say(), unit="A"),
        scene("execute", say("?\n<turn_status>blocked</turn_status>"), unit="B", visits=[1]),
        scene("execute", write("two.txt"), say(), unit="B"),
        scene("tdd", write("tests/a.txt"), say(), unit="A"),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "waiting"
    moved = stage.root.rename(stage.root.with_name("renamed"))
    assert run_sf(moved, stage.home, "reassess-resolve", "task/m1/s1/t2", "two").returncode == 0
    repository = next((stage.home / "repos").glob("*.git"))
    away = repository.rename(repository.with_suffix(".away"))
    lost = run_sf(moved, stage.home, "auto")
    assert (lost.returncode, "work_missing" in lost.stdout) == (1, True), lost.stdout
    shutil.rmtree(repository)
    away.rename(repository)
    done = run_sf(moved, stage.home, "auto")
    assert done.returncode == 0, done.stdout
    assert (moved / "one.txt").exists() and (moved / "two.txt").exists()


@pytest.mark.conforms("C-44", "C-56")
def test_two_autopilots_at_once(stage: Stage) -> None:
    stage.script(*PASSING)
    stage.plan()
    with ProjectLock(stage.project.lock, "autopilot"):
        done = stage.sf("auto")
    assert done.returncode == 5
    assert f"process {os.getpid()}" in _one_line(done)


def test_a_database_of_a_newer_version_is_left_alone(stage: Stage) -> None:
    database = sqlite3.connect(stage.project.database)
    database.execute("INSERT INTO schema_migrations VALUES (9999, 0, 'from the future')")
    database.commit()
    database.close()
    before = stage.project.database.read_bytes()
    for command in (["status"], ["plan", "x"]):
        done = stage.sf(*command)
        assert (done.returncode, "store_too_new" in _one_line(done)) == (2, True)
    assert stage.project.database.read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_disk(stage: Stage, tmp_path: Path) -> None:
    stage.plan("written before")
    mounted = tmp_path / "ro"
    mounted.mkdir()
    subprocess.run(["mount", "--bind", str(stage.root), str(mounted)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(mounted)], check=True)
        status = run_sf(mounted, stage.home, "status")
        assert (status.returncode, "milestone/m1" in status.stdout) == (0, True), status.stderr
        plan = run_sf(mounted, stage.home, "plan", "x")
        assert (plan.returncode, "store_unusable" in _one_line(plan)) == (1, True)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)
    assert len([u for u in (stage.unit("milestone/m1"),)]) == 1


@pytest.mark.conforms("C-78")
def test_doctor_passes_warns_and_answers_as_json(stage: Stage) -> None:
    stage.script(*PASSING)
    fine = stage.sf("doctor", "--json")
    checks = {check["name"]: check["verdict"] for check in json.loads(fine.stdout)}
    assert set(checks.values()) == {"pass"}, fine.stdout
    assert fine.returncode == 0
    stage.file("notes.txt", "dirty\n")
    warned = stage.sf("doctor")
    assert warned.returncode == 1
    assert re.search(r"warn\s+git ", warned.stdout)


def test_plan_reload_adds_and_archives_but_leaves_what_has_begun(stage: Stage) -> None:
    stage.script(*PASSING)
    stage.project.plan_file.write_text(
        "# Plan\n\n## One\n- priority: 2\n\nThe first.\n\n## Two\n- issue: 42\n"
    )
    assert "milestone/m1, milestone/m2" in stage.sf("plan", "reload").stdout
    assert stage.unit("milestone/m1").priority == 2
    assert stage.unit("milestone/m1").description == "One\n\nThe first."
    assert stage.unit("milestone/m2").metadata["gh_issue"] == 42
    stage.project.plan_file.write_text("## One\n- priority: 2\n\nThe first.\n\n## Three\n")
    again = json.loads(stage.sf("plan", "reload", "--json").stdout)
    assert again == {"added": ["milestone/m3"], "archived": ["milestone/m2"], "in_flight": []}


def test_status_why_and_history_speak_json(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    assert stage.sf("plan", "make a", "--link-issue", "7", "--priority", "1").returncode == 0
    assert json.loads(stage.sf("status", "--json").stdout)["waiting"][0]["standing"] == "ready"
    assert stage.sf("auto").returncode == 0
    why = json.loads(stage.sf("why", "task/m1/s1/t1", "--json").stdout)
    assert why["reason"] == "success"
    assert [run["outcome"] for run in why["runs"]] == ["success"] * 4
    rows = json.loads(stage.sf("history", "--verdict", "success", "--phase", "merge", "--json").stdout)
    assert {row["unit_id"] for row in rows} == {"milestone/m1", "slice/m1/s1", "task/m1/s1/t1"}
    assert json.loads(stage.sf("history", "--model", "nobody", "--json").stdout) == []
    assert json.loads(stage.sf("config", "show", "--json").stdout)["harness"]["max_attempts"] == 6


def test_a_history_in_which_nothing_matches_is_not_empty(stage: Stage) -> None:
    assert stage.sf("history").stdout == "nothing has ended yet\n"
    stage.plan()
    stage.submit("abandon", unit_id="m1", reason="not needed")
    assert stage.sf("history", "--phase", "review").stdout == "nothing that has ended is like that\n"
    assert stage.sf("history", "--phase", "nonsense").returncode == 2


def test_headless_prints_events_and_a_result(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    planned = json.loads(stage.sf("headless", "plan", "x").stdout)
    assert planned["data"]["unit_id"] == "milestone/m1"
    done = stage.sf("headless", "auto")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["event"] == "result"
    assert (lines[-1]["ok"], lines[-1]["exit_code"], done.returncode) == (True, 0, 0)
    assert {"RunStarted", "TurnEnded", "GateResult", "PhaseChange", "MergeReady"} <= {
        x["event"] for x in lines
    }
    failed = stage.sf("headless", "why", "task/a9")
    assert failed.returncode == 2
    assert "unknown_unit" in json.loads(failed.stdout)["error"]


def test_dispatch_a_prompt_and_a_unit_out_of_turn(stage: Stage) -> None:
    stage.script(
        scene(
            "plan",
            call("submit_plan", goal="g", approach="a", deliverables=["d"], verification=["v"]),
            unit="add*",
        ),
        plan_scene({"title": "S", "tasks": [task("A"), task("B", blocked_by=["A"])]}),
        scene("execute", write("a.txt"), say()),
        *PASSING,
    )
    done = stage.sf("dispatch", "add a file")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (stage.root / "a.txt").exists()
    stage.plan("later")
    stage.sf("next")
    stage.sf("next")
    stage.sf("pause")
    halted = stage.sf("dispatch", "task/m1/s1/t2")
    assert (halted.returncode, halted.stdout) == (3, "the session is paused → sf resume, then sf auto\n")
    assert stage.unit("task/m1/s1/t2").open_blockers == 1, "what was not dispatched waits as before"
    stage.sf("resume")
    forced = stage.sf("dispatch", "task/m1/s1/t2")
    assert "although it waits for task/m1/s1/t1" in forced.stdout
    assert stage.unit("task/m1/s1/t2").attempt == 1


def test_next_runs_one_step(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    assert stage.sf("next").returncode == 0
    assert (stage.unit("milestone/m1").attempt, stage.unit("milestone/m1").phase) == (1, "plan")


def test_steering_a_live_autopilot_from_another_process(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "S", "tasks": [task("slow"), task("other", blocked_by=["slow"])]}),
        scene("execute", call("bash", command="sleep 30", timeout_seconds=60), say(), unit="slow"),
        scene("execute", write("b.txt"), say(), unit="other"),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="no")),
        *PASSING,
    )
    stage.plan()
    environment = {**os.environ, "SF_HOME": str(stage.home)}
    live = subprocess.Popen(
        [sys.executable, "-m", "sf", "auto"],
        cwd=stage.root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _until(lambda: "execute" in str(_phase(stage, "task/m1/s1/t1")) and _running(stage, "task/m1/s1/t1"))
        time.sleep(0.5)
        started = time.monotonic()
        gone = stage.sf("abandon", "task/m1/s1/t1", "too slow", "--now")
        assert gone.returncode == 0, gone.stderr
        _until(lambda: not _running(stage, "task/m1/s1/t1"), 15)
        assert time.monotonic() - started < 12
        out, _ = live.communicate(timeout=40)
    finally:
        live.kill()
    assert stage.unit("task/m1/s1/t1").status == "canceled"
    assert stage.unit("task/m1/s1/t2").verdict == "success", out


def test_pause_and_resume(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    assert stage.sf("pause", "lunch").returncode == 0
    assert stage.sf("pause").stdout == "paused already → sf resume lifts it\n"
    refused = stage.sf("auto")
    assert (refused.returncode, "sf resume" in refused.stdout) == (3, True)
    told = json.loads(stage.sf("headless", "auto").stdout)["data"]
    assert (told["ending"], "sf resume" in told["detail"]) == ("paused", True)
    assert "lunch" in stage.sf("status").stdout
    assert stage.sf("resume").stdout == "resumed → sf auto goes on\n"
    assert stage.sf("resume").stdout == "nothing was paused\n"
    assert stage.sf("auto").returncode == 0


def test_a_pause_says_what_still_runs(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", call("bash", command="sleep 6"), say()), *PASSING)
    stage.plan()
    live = start_sf(stage.root, stage.home, "auto")
    try:
        _until(lambda: _running(stage, "task/m1/s1/t1"))
        assert stage.sf("pause").stdout == "pausing: one run ends after this turn → sf resume lifts it\n"
        told, _ = live.communicate(timeout=30)
    finally:
        live.kill()
    assert live.returncode == 3
    assert re.search(r"task/m1/s1/t1 +paused\n", told), told


def test_an_intent_that_cannot_be_applied_keeps_nobody_from_anything(stage: Stage) -> None:
    assert stage.sf("plan", "-", stdin="\0\0\n").returncode == 2
    stage.queue("plan", goal="\0", workflow="feature", content="", branch="main")
    stage.queue("reply", question_id=["no", "name"], answer=5)
    unit = stage.plan()
    stage.queue("abandon", unit_id=unit, reason=None)
    stage.queue("abandon", unit_id=unit, reason=2**63)
    stage.queue("abandon", unit_id=unit, reason={"of": "another version"})
    assert stage.sf("pause").returncode == 0
    assert not sessions.open_intents(stage.read)
    assert stage.unit(unit).verdict is None


def test_a_resume_beside_an_autopilot_leaves_the_session_running(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    seen: list[str] = []

    def watch(event: Event) -> None:
        if event.name == events.PHASE_CHANGE and event.data["to"] == "tdd":
            stage.queue("resume")
        session = sessions.current(stage.read)
        if event.name == events.PHASE_CHANGE and session is not None:
            seen.append(session["status"])

    assert stage.auto(watch=watch).ending == "done"
    assert set(seen) == {"running"} and len(seen) > 3


def test_a_command_beside_an_autopilot_that_starts_is_answered_by_it(stage: Stage) -> None:
    """The lock is taken after the command has looked, and by one that has not said yet who it is."""
    stage.project.lock.parent.mkdir(parents=True, exist_ok=True)
    done = threading.Event()

    def starting() -> None:
        with stage.project.lock.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            while not done.wait(0.05):
                transact(
                    place_of(stage.project), lambda tx: intents.apply_open(tx, Rules(), SystemClock().now())
                )

    autopilot = threading.Thread(target=starting)
    autopilot.start()
    try:
        assert stage.submit("pause")["paused"]
    finally:
        done.set()
        autopilot.join()


@pytest.mark.parametrize("fault", ["not TOML", "a key beside the store", "a workflow"])
def test_an_autopilot_is_steered_although_its_configuration_became_unusable(stage: Stage, fault: str) -> None:
    """It goes on with the last one that was usable, so it can be asked to stop."""
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING, latency_ms=500)
    stage.plan("one", workflow="short", adhoc=True)
    usable = stage.project.config.read_text()
    paused: list[int] = []

    def pause() -> None:
        if fault == "a workflow":
            stage.workflow("mine", 'name = "mine"\nphases = [\n')
        else:
            stage.configure(
                usable + ("[nonsense\n" if fault == "not TOML" else "# stored\n[nonsense]\nx = 1\n")
            )
        assert stage.sf("status").returncode == 0
        paused.append(stage.sf("pause").returncode)

    def watch(event: Event) -> None:
        if event.name == events.RUN_STARTED and not pausing.is_alive() and not paused:
            pausing.start()

    pausing = threading.Thread(target=pause)
    assert stage.auto(watch=watch).ending == "paused"
    pausing.join()
    assert paused == [0]
    assert stage.sf("resume").returncode == 2, "with none alive the configuration decides"


def test_what_was_queued_is_applied_before_a_newer_command_and_a_refusal_of_it_is_told(stage: Stage) -> None:
    stage.plan()
    stage.queue("pause")
    stage.queue("reply", question_id="milestone/m1", answer="blue")
    assert stage.sf("resume").returncode == 0
    told = "sf reply (milestone/m1 blue) was refused: no question waits as 'milestone/m1'"
    assert told in stage.project.log_file("").read_text()
    assert [row["kind"] for row in sessions.open_intents(stage.read)] == []
    session = sessions.current(stage.read)
    assert session is not None
    assert session["status"] == "idle", "the older pause does not win"


def test_a_refusal_by_the_loop_is_a_warning_of_its_own(stage: Stage) -> None:
    stage.script(*PASSING)
    stage.queue("uat_approve", unit_id="task/a9")
    stage.auto()
    [warning] = [
        event.data["detail"] for event in stage.named("Warning") if "refused" in event.data["detail"]
    ]
    assert warning == "sf uat-approve (task/a9) was refused: there is no unit 'task/a9'"
    [span] = [span for span in _spans(stage) if span["operation"] == "intent"]
    assert (span["attrs"], span["error"]) == ({"kind": "uat_approve"}, warning)


def test_what_a_command_moves_without_an_autopilot_is_logged_and_traced(stage: Stage) -> None:
    text = (
        'name = "accepted"\nphases = ["execute", "verify", "uat", "merge", "complete"]\nrequire_uat = true\n'
    )
    stage.workflow("accepted", text)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    unit_id = stage.plan(adhoc=True, workflow="accepted")
    stage.auto()
    before = len(_spans(stage))
    with pytest.raises(SfError, match='it takes "approve"'):
        stage.submit("reply", question_id=unit_id, answer="looks good")
    assert sessions.open_intents(stage.read) == []
    stage.submit("uat_approve", unit_id=unit_id)
    moved = [(span["attrs"]["from"], span["attrs"]["to"]) for span in _spans(stage)[before:]]
    assert moved == [("uat", "merge")]
    assert "from=uat to=merge" in stage.project.log_file("").read_text()


def _spans(stage: Stage) -> list[dict[str, Any]]:
    return [span for file in sorted(stage.project.trace.glob("*.jsonl")) for span in trace.read(file)]


def test_what_an_agent_wrote_cannot_steer_the_terminal_and_a_reply_must_be_text(stage: Stage) -> None:
    stage.workflow("short", SHORT)
    asked = (
        "\x1b[31mred\x1b[8m\x9b2J\rOVER \u202e\u2066 evil\ttab é\nsecond\n<turn_status>blocked</turn_status>"
    )
    stage.script(scene("execute", say(asked)), *PASSING)
    unit_id = stage.plan(adhoc=True, workflow="short")
    seen = stage.sf("auto").stdout + stage.sf("attention").stdout + stage.sf("why", unit_id).stdout
    assert r"\x1b[31mred\x1b[8m\x9b2J" in seen
    assert r"OVER \u202e\u2066 evil" in seen
    assert "tab é\n        second\n" in seen
    assert not [mark for mark in "\x1b\x9b\r\u202e\u2066" if mark in seen]
    refused = stage.sf("reply", unit_id, "\udcff odd")
    assert (refused.returncode, "is not UTF-8" in _one_line(refused)) == (2, True)


def test_wrong_state_is_told(stage: Stage) -> None:
    stage.plan()
    for command in (["uat-approve", "milestone/m1"], ["merge-resolve", "milestone/m1"]):
        done = stage.sf(*command)
        assert (done.returncode, "wrong_state" in _one_line(done)) == (2, True)
    cleared = stage.sf("force-clear", "01ABC")
    assert (cleared.returncode, "unknown_blocker" in _one_line(cleared)) == (2, True)


def _phase(stage: Stage, unit_id: str) -> str:
    row = stage.read.one("SELECT phase FROM units WHERE id = :id", id=unit_id)
    return row["phase"] if row else ""


def _running(stage: Stage, unit_id: str) -> bool:
    row = stage.read.one("SELECT 1 FROM runs WHERE unit_id_snap = :id AND ended_at IS NULL", id=unit_id)
    return row is not None


def _until(condition: object, seconds: float = 20.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("words", [[], ["memory"], ["session"]])
def test_a_command_that_needs_another_shows_its_help_as_it_is_written(
    tmp_path: Path, words: list[str]
) -> None:
    said = run_sf(tmp_path, tmp_path / "home", *words)
    assert (said.returncode, said.stdout) == (2, "")
    lines = said.stderr.splitlines()
    assert lines[0].startswith("Usage: sf ") and "Commands:" in lines


def test_a_reply_that_abandons_says_so_and_needs_a_name(stage: Stage) -> None:
    blocked = scene("execute", say("Which one?\n<turn_status>blocked</turn_status>"))
    stage.script(plan_scene(ONE), blocked, *PASSING)
    stage.plan()
    assert stage.auto().ending == "waiting"
    unnamed = stage.sf("reply", "", "abandon")
    assert unnamed.returncode == 2 and "no question waits as ''" in _one_line(unnamed)
    assert stage.sf("reply", "m1/s1/t1", "abandon").stdout == "task/m1/s1/t1 is called off\n"


def test_each_blocker_shows_its_own_way_out(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "S", "tasks": [task("T")]}),
        scene("execute", write("a.txt", "BROKEN\n"), say(), visits=[1]),
        scene("execute", say("Which one?\n<turn_status>blocked</turn_status>"), visits=[2]),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "waiting"
    gate, question = reports.status(stage.project).blockers
    assert (gate.event, gate.way_out.split(":")[0]) == ("GateBlocked", "nothing")
    assert question.way_out == 'sf reply task/m1/s1/t1 "your answer"'
    assert reports.why(stage.project, "task/m1/s1/t1").way_out == question.way_out
