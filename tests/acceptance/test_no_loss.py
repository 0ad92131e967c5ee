"""Nothing lawful is lost, nothing dropped comes back, nothing old is taken over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from sf.app.initialise import initialise
from sf.domain import events
from sf.errors import UnsafeConfig
from tests.support.stage import (
    CONFIG,
    GATE,
    PASSING,
    Stage,
    call,
    plan_scene,
    run_sf,
    say,
    scene,
    task,
    write,
)

ONE = {"title": "S", "tasks": [task("T")]}


def _landed(stage: Stage, branch: str = "main") -> set[str]:
    return set(stage.git("ls-tree", "-r", "--name-only", branch).splitlines())


def test_starting_over_takes_nothing_old_over(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("old.txt"), say("?\n<turn_status>blocked</turn_status>")),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "waiting"
    shutil.rmtree(stage.project.dot)
    stage.file("notes.txt", "the user's new version\n")
    stage.file("new.txt", "new\n")
    stage.commit("meanwhile")
    initialise(stage.root)
    stage.gate("check", GATE)
    stage.configure(CONFIG)
    stage.script(plan_scene(ONE), scene("execute", write("b.txt"), say()), *PASSING)
    stage.plan("again")
    assert stage.auto().ending == "done"
    assert _landed(stage) == {"notes.txt", "new.txt", "b.txt", "tests/test_it.txt"}
    assert (stage.root / "notes.txt").read_text() == "the user's new version\n"


@pytest.mark.parametrize("name", ["project-id", "sf.db", "log/sf.log", "runtime/x"])
def test_state_that_came_with_the_repository_is_refused(stage: Stage, name: str) -> None:
    path = stage.project.dot / name
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_text("x\n")
    stage.git("add", "-f", f".sf/{name}")
    stage.git("commit", "-q", "-m", "it came along")
    for command in (["plan", "x"], ["auto"], ["init"], ["pause"]):
        done = stage.sf(*command)
        assert (done.returncode, "unsafe_config" in done.stderr) == (2, True), command


def test_a_link_in_sfs_folder_is_refused_before_anything_is_written(stage: Stage) -> None:
    precious = stage.root.parent / "precious"
    precious.write_text("precious\n")
    (stage.project.dot / "log").mkdir(exist_ok=True)
    (stage.project.dot / "log" / "sf.log").symlink_to(precious)
    with pytest.raises(UnsafeConfig):
        stage.plan()
    assert stage.sf("auto").returncode == 2
    assert precious.read_text() == "precious\n"


def test_what_one_task_may_not_touch_another_may(stage: Stage) -> None:
    tasks = [
        task("A", allowed_areas=["src/**", "tests/**"], forbidden_areas=["docs/**"]),
        task("B", allowed_areas=["docs/api/**", "tests/**"], blocked_by=["A"]),
    ]
    stage.script(
        plan_scene({"title": "S", "tasks": tasks}),
        scene("execute", write("src/a.txt"), say(), unit="A"),
        scene("execute", write("docs/api/b.txt"), say(), unit="B"),
        scene("tdd", write("tests/a.txt"), say(), unit="A"),
        scene("tdd", write("tests/b.txt"), say(), unit="B"),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert {"src/a.txt", "docs/api/b.txt"} <= _landed(stage)


def test_history_that_the_user_rewrote_does_not_come_back(stage: Stage) -> None:
    stage.file("secret.txt", "oops\n")
    stage.commit("oops")
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()

    def rewrite(event: events.Event) -> None:
        reviewing = event.name == events.PHASE_CHANGE and event.data["to"] == "review"
        if reviewing and (stage.root / "secret.txt").exists():
            stage.git("reset", "-q", "--hard", "HEAD~1")
            stage.file("fine.txt", "fine\n")
            stage.commit("without it")

    assert stage.auto(watch=rewrite).ending == "done"
    assert _landed(stage) == {"notes.txt", "fine.txt", "a.txt", "tests/test_it.txt"}
    assert "oops" not in stage.git("log", "--format=%s", "main").splitlines()


def test_calling_one_task_off_does_not_undo_what_another_is_writing(stage: Stage) -> None:
    planning = {"title": "B"}
    stage.script(
        plan_scene({"title": "S", "tasks": [planning, task("A")]}, unit="do it"),
        scene("plan", say("Which?\n<turn_status>blocked</turn_status>"), unit="B"),
        scene("execute", write("one.txt"), write("two.txt"), write("three.txt"), say(), unit="A"),
        scene("reassess", call("submit_reassessment", outcome="escalate", explanation="?", questions=["?"])),
        *PASSING,
        latency_ms=60,
    )
    stage.plan()

    def call_off(event: events.Event) -> None:
        if (
            event.name == events.TOOL_CALLED
            and event.unit_id == "task/m1/s1/t2"
            and "one.txt" in event.data["output"]
        ):
            stage.queue("abandon", unit_id="task/m1/s1/t1", reason="not needed")

    stage.auto(watch=call_off)
    tip = stage.git("--git-dir", str(stage.project.repository), "ls-tree", "-r", "--name-only", "sf/m1-s1-s")
    assert {"one.txt", "two.txt", "three.txt"} <= set(tip.splitlines())


def test_every_task_of_a_spike_is_on_the_branch_it_leaves(stage: Stage) -> None:
    tasks = [task("A", allowed_areas=["a/**"]), task("B", allowed_areas=["b/**"], blocked_by=["A"])]
    stage.script(
        plan_scene({"title": "S", "tasks": tasks}),
        scene("execute", write("a/a.txt"), say(), unit="A"),
        scene("execute", write("b/b.txt"), say(), unit="B"),
        *PASSING,
    )
    stage.plan(workflow="spike")
    assert stage.auto().ending == "done"
    assert {"a/a.txt", "b/b.txt"} <= _landed(stage, "sf/m1-s1-s")


def test_a_goal_is_merged_into_the_branch_it_was_planned_on(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("one.txt"), say(), visits=[1]),
        *PASSING,
    )
    stage.plan("first")
    assert stage.auto().ending == "done"
    stage.git("switch", "-q", "-c", "feature")
    stage.script(
        plan_scene(ONE),
        scene("execute", write("two.txt"), say()),
        scene("tdd", write("tests/two.txt"), say()),
        *PASSING,
    )
    stage.plan("second")
    assert stage.auto().ending == "done"
    assert "two.txt" in _landed(stage, "feature")
    assert "two.txt" not in _landed(stage, "main")
    stage.git("switch", "-q", "main")
    stage.git("branch", "-q", "-m", "feature", "renamed")
    stage.git("switch", "-q", "renamed")
    stage.plan("third")
    stage.git("branch", "-q", "-m", "renamed", "gone")
    result = stage.auto()
    assert (result.ending, "'renamed'" in stage.sf("attention").stdout) == ("waiting", True)


def test_a_goal_whose_branch_is_gone_waits_for_it_and_stops_no_other(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("two.txt"), say()),
        scene("tdd", write("tests/two.txt"), say()),
        *PASSING,
    )
    first = stage.plan("first")
    stage.git("switch", "-q", "-c", "dev")
    stage.plan("second")
    stage.git("branch", "-m", "main", "trunk")
    assert stage.auto().ending == "waiting"
    assert "two.txt" in _landed(stage, "dev")
    told = stage.sf("attention").stdout
    assert first in told and "git branch main" in told, told
    stage.git("branch", "main", "trunk")
    assert stage.auto().ending == "done"
    assert "two.txt" in _landed(stage, "main")


def test_keeping_our_side_of_a_conflict_is_a_resolution(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("notes.txt", "ours\n"), say(), unit="T"),
        scene("execute", write("notes.txt", "ours\n"), say()),
        *PASSING,
    )
    stage.plan()
    edit = stage.meanwhile("merge", "notes.txt", "theirs\n", unit="slice/m1/s1")
    assert stage.auto(watch=edit).ending == "done"
    assert stage.git("show", "main:notes.txt") == "ours"
    assert "meanwhile" in stage.git("log", "--format=%s", "main")


def test_a_fix_that_was_written_before_its_run_failed_counts(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), say(), unit="T"),
        scene("execute", write("fix.txt"), {"fault": "server_error"}, visits=[1]),
        scene("execute", say()),
        scene(
            "review_synthesis",
            call("submit_synthesis", verdict="request_changes", summary="more"),
            visits=[1],
        ),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert "fix.txt" in _landed(stage)


def test_a_hook_that_prepares_worktrees_meets_the_agents_work_only_in_the_sandbox(stage: Stage) -> None:
    mark = stage.root.parent / "mark"
    stage.file("setup.sh", "sh ./parts.sh\n")
    stage.file("parts.sh", "true\n")
    stage.commit("setup")
    stage.configure(CONFIG + '[harness.hooks]\nafter_create = "sh ./setup.sh"\n')
    stage.script(
        plan_scene(ONE),
        scene("execute", write("parts.sh", f"echo $TEST_SECRET > {mark}; true\n"), say()),
        *PASSING,
    )
    stage.plan()
    done = stage.sf("auto", env={"TEST_SECRET": "s3cret"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert not mark.exists()


def test_a_killed_proof_leaves_no_checkout_behind(stage: Stage) -> None:
    stage.gate("check", "#!/bin/sh\ncase $(pwd) in */merge-*) sleep 3 ;; esac\n")
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    environment = {**os.environ, "SF_HOME": str(stage.home)}
    live = subprocess.Popen(
        [sys.executable, "-m", "sf", "auto"],
        cwd=stage.root,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not list(stage.project.worktrees.glob("merge-*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(live.pid, signal.SIGKILL)
    live.wait()
    stage.gate("check", GATE)
    assert stage.auto().ending == "done"
    assert list(stage.project.worktrees.iterdir()) == []


def test_forcing_a_blocked_task_overrides_its_blockers_for_good(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "S", "tasks": [task("A"), task("B", blocked_by=["A"])]}),
        *(scene("execute", write(f"{name}.txt"), say(), unit=name) for name in "AB"),
        *(scene("tdd", write(f"tests/{name}.txt"), say(), unit=name) for name in "AB"),
        *PASSING,
    )
    stage.plan()
    run_sf(stage.root, stage.home, "next")
    run_sf(stage.root, stage.home, "next")
    forced = run_sf(stage.root, stage.home, "dispatch", "task/m1/s1/t2")
    assert forced.returncode == 0
    assert "task/m1/s1/t2 never waits for task/m1/s1/t1 again" in forced.stdout
    assert stage.auto().ending == "done"
    assert {"A.txt", "B.txt"} <= _landed(stage)
