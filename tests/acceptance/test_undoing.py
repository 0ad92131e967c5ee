"""`sf revert` and `sf rescue` as a person runs them: everything shown, all or nothing, nothing lost."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sf.app import rescues, reversals, tidying, undoing
from sf.domain import events
from sf.domain.clock import Instant
from sf.domain.phases import Phase
from sf.scheduler.lock import ProjectLock
from sf.store import records, units
from sf.workspaces import rescue
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.refusals import BranchMoved
from sf.workspaces.repository import UserRepository
from tests.support.stage import PASSING, SHORT, Scene, Stage, call, plan_scene, say, scene, task, write

M, S1, S2 = "milestone/m1", "slice/m1/s1", "slice/m1/s2"


def two_slices() -> list[Scene]:
    names = ("A", "B")
    return [
        plan_scene(
            {"title": "One", "tasks": [task("A")]},
            {"title": "Two", "code_depends_on": ["One"], "tasks": [task("B")]},
        ),
        *(scene("execute", write(f"{n.lower()}.txt", f"{n}\n"), say(), unit=n) for n in names),
        *(scene("tdd", write(f"tests/test_{n}.txt", f"{n}\n"), say(), unit=n) for n in names),
        *PASSING,
    ]


def landed(stage: Stage) -> str:
    """Run a goal of two slices to its end; the head of main."""
    stage.script(*two_slices())
    stage.plan("the goal")
    assert stage.auto().ending == "done"
    return stage.git("rev-parse", "main")


def files(stage: Stage) -> set[str]:
    return {path.name for path in stage.root.glob("*.txt")}


def test_a_slice_is_shown_reverted_recorded_and_refused_the_second_time(stage: Stage) -> None:
    before = landed(stage)
    shown = stage.sf("revert", "m1/s1")
    commit = stage.git("log", "--format=%H", f"--grep=Merge {S1}")
    assert shown.returncode == 2
    assert commit in shown.stdout and f"Merge {S1}: One [merge]" in shown.stdout
    assert "warning: " in shown.stdout and "--yes" in shown.stderr
    assert stage.git("rev-parse", "main") == before and stage.unit(S1).succeeded

    done = stage.sf("revert", "m1/s1", "--yes")
    assert done.returncode == 0, done.stderr
    assert files(stage) == {"notes.txt", "b.txt"}
    assert stage.git("status", "--porcelain", "--", ".", ":!.sf") == ""
    assert stage.git("rev-parse", "main~1") == before
    assert stage.git("log", "-1", "--format=%s") == f'Revert "Merge {S1}: One"'
    assert not stage.unit(S1).succeeded and not stage.unit("task/m1/s1/t1").succeeded
    assert stage.unit(S2).succeeded
    assert (stage.project.active("task/m1/s1/t1") / "plan.md").is_file()
    assert not list((stage.project.dot / "archive").glob("*m1_s1*"))
    assert not list(stage.project.active("task/m1/s1/t1").glob("*workspace*")), "the worktree is gone"
    kinds = [row["kind"] for row in records.evidence(stage.read, S1)]
    assert kinds[-1] == "revert"

    again = stage.sf("revert", "m1/s1", "--yes")
    assert again.returncode == 2 and "was reverted already" in again.stderr
    assert f"Reverted:   {S1}" in stage.sf("status").stdout
    (session,) = json.loads(stage.sf("session", "list", "--json").stdout)
    assert session["done"] == session["units"] - 2, "neither the slice nor its task"
    assert "complete: reverted: at 2" in stage.sf("why", "m1/s1").stdout
    assert json.loads(stage.sf("history", "--verdict", "reverted", "--json").stdout)[0]["unit_id"] == S1
    assert stage.auto().ending == "done", "the project goes on"
    assert "archive" not in {step.what for step in tidying.clean(stage.project)}
    assert (stage.project.active("task/m1/s1/t1") / "plan.md").is_file(), "what came back stays"


def test_what_was_merged_is_reverted_without_a_repository_of_sfs_own(stage: Stage) -> None:
    nothing = stage.sf("revert", "m1/s1")
    assert nothing.returncode == 2 and "has not merged anything" in nothing.stderr
    stage.script(
        plan_scene({"title": "One", "tasks": [task("A")]}),
        scene("execute", write("a.txt", "A\n"), say()),
        *PASSING,
    )
    stage.plan("the goal")
    assert stage.auto().ending == "done"
    shutil.rmtree(stage.project.repository)
    undone = undoing.carry_out(stage.project, undoing.survey(stage.project, S1))
    assert undone.new == stage.git("rev-parse", "main") and files(stage) == {"notes.txt"}


@pytest.mark.parametrize("title", ["Mend what this broke", "Sf-Unit: slice/m8/s8"])
def test_a_goal_that_quotes_a_commit_of_another_unit_is_reverted_like_any_other(
    stage: Stage, title: str
) -> None:
    stage.script(scene("execute", write("a.txt"), say()), scene("tdd", write("tests/a.txt"), say()), *PASSING)
    stage.workflow("short", SHORT)
    quoted = "    Merge slice/m9/s9: X\n\n    Sf-Unit: slice/m9/s9\n    Sf-Attempt: 3\n"
    stage.plan(f"{title}\n\n{quoted}", adhoc=True, workflow="short")
    assert stage.auto().ending == "done"
    undone = stage.sf("revert", "task/a1", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert not (stage.root / "a.txt").exists()


def test_a_program_gets_the_list_and_what_was_done(stage: Stage) -> None:
    head = landed(stage)
    asked = json.loads(stage.sf("headless", "revert", S1).stdout.splitlines()[-1])
    assert (asked["exit_code"], asked["data"]["head"]) == (2, head)
    done = json.loads(stage.sf("headless", "revert", S1, "--yes").stdout.splitlines()[-1])
    assert done["ok"] and done["data"]["new"] == stage.git("rev-parse", "main")
    assert done["data"]["reverted"][0]["commit"] == asked["data"]["steps"][0]["commit"]


def test_a_milestone_after_one_of_its_slices_and_then_nothing_is_left(stage: Stage) -> None:
    first = stage.git("rev-parse", "main")
    landed(stage)
    assert stage.sf("revert", "task/m1/s2/t1", "--yes").returncode == 0
    done = stage.sf("revert", M, "--yes")
    assert done.returncode == 0 and "was undone already" in done.stdout
    assert stage.git("rev-parse", "main^{tree}") == stage.git("rev-parse", f"{first}^{{tree}}")
    assert units.tally(stage.read)["milestone"] == (0, 1)
    assert stage.sf("revert", M, "--yes").returncode == 2


def test_slices_reverted_one_by_one_leave_only_the_record_of_their_milestone(stage: Stage) -> None:
    landed(stage)
    for unit_id in (S2, S1):
        assert stage.sf("revert", unit_id, "--yes").returncode == 0
    head = stage.git("rev-parse", "main")
    done = stage.sf("revert", M, "--yes")
    assert done.returncode == 0 and "only the record changes" in done.stdout
    assert stage.git("rev-parse", "main") == head
    assert not stage.unit(M).succeeded


def test_a_conflict_refuses_with_code_three_and_what_was_done_by_hand_is_only_recorded(stage: Stage) -> None:
    landed(stage)
    stage.file("a.txt", "A, improved\n")
    head = stage.commit("improve a")
    done = stage.sf("revert", S1, "--yes")
    assert done.returncode == 3
    assert "a.txt changed again in" in done.stderr and "improve a" in done.stderr
    assert "revert_conflict" in done.stderr and "git revert -m 1" in done.stderr
    assert stage.git("rev-parse", "main") == head and stage.unit(S1).succeeded
    assert (stage.root / "a.txt").read_text() == "A, improved\n"
    stage.git("rm", "-q", "a.txt", "tests/test_A.txt")
    by_hand = stage.commit("without a")
    recorded = stage.sf("revert", S1, "--yes")
    assert recorded.returncode == 0 and "was undone already" in recorded.stdout
    assert stage.git("rev-parse", "main") == by_hand and not stage.unit(S1).succeeded


def test_a_checkout_with_changes_is_refused_and_a_branch_that_is_not_out_moves_alone(stage: Stage) -> None:
    head = landed(stage)
    stage.file("notes.txt", "my own unsaved work\n")
    done = stage.sf("revert", S1, "--yes")
    assert done.returncode == 1 and "notes.txt" in done.stderr and "checkout_dirty" in done.stderr
    assert stage.git("rev-parse", "main") == head and stage.unit(S1).succeeded
    stage.git("checkout", "-q", "-b", "elsewhere")
    assert stage.sf("revert", S1, "--yes").returncode == 0
    assert (stage.root / "notes.txt").read_text() == "my own unsaved work\n"
    assert (stage.root / "a.txt").exists(), "the checkout has another branch out"
    assert stage.git("rev-parse", "main~1") == head


def test_what_cannot_be_reverted_says_why(stage: Stage) -> None:
    assert "which unit?" not in stage.sf("revert").stderr
    stage.script(*two_slices())
    stage.plan("the goal")
    early = stage.sf("revert", M, "--yes")
    assert early.returncode == 2 and "wrong_state" in early.stderr
    assert stage.auto().ending == "done"
    assert stage.sf("revert", "m7", "--yes").returncode == 2
    asked = stage.sf("revert")
    assert asked.returncode == 2 and f"{M} (success)" in asked.stderr and f"{S2} (success)" in asked.stderr
    with ProjectLock(stage.project.lock, "autopilot"):
        locked = stage.sf("revert", S1, "--yes")
    assert locked.returncode == 5 and "sf pause" in locked.stderr
    stage.git("branch", "-m", "main", "trunk")
    gone = stage.sf("revert", S1, "--yes")
    assert gone.returncode == 1 and "is not in this repository" in gone.stderr


def test_a_milestone_of_the_plan_file_is_planned_again(stage: Stage) -> None:
    stage.script(*two_slices())
    stage.project.plan_file.write_text("## The goal\n\nAll of it.\n")
    assert stage.sf("plan", "reload").returncode == 0
    assert stage.auto().ending == "done"
    done = stage.sf("revert", M, "--yes")
    assert done.returncode == 0 and "sf plan reload" in done.stdout
    stage.sf("plan", "reload")
    assert stage.unit("milestone/m2").title == "The goal"
    assert stage.auto().ending == "done"
    assert files(stage) == {"notes.txt", "a.txt", "b.txt"}


def test_an_open_milestone_that_loses_a_slice_does_not_end_as_if_it_had_it(stage: Stage) -> None:
    stage.script(
        *two_slices(),
        scene(
            "reassess", call("submit_reassessment", decision="abandon", reason="the operator took it back")
        ),
    )
    stage.plan("the goal")

    def pause(event: events.Event) -> None:
        if event.name == events.UNIT_CLOSED and event.unit_id == S1:
            stage.queue("pause", reason="look")

    assert stage.auto(watch=pause).ending == "paused"
    done = stage.sf("revert", S1, "--yes")
    assert done.returncode == 0, done.stderr
    stage.submit("resume")
    stage.auto()
    milestone = stage.unit(M)
    assert milestone.phase is not Phase.COMPLETE or milestone.verdict == "abandoned"
    assert "reassess" in stage.path_of(M)


_KILLED_BEFORE_THE_ROWS = """
import os, signal, sys
from sf.app import reversals
async def dies(*_): os.kill(os.getpid(), signal.SIGKILL)
finish = reversals.finish
async def last(project, *others):
    return await (dies if reversals.noted(project) else finish)(project, *others)
reversals.finish = last
from sf.surfaces.cli.main import run
sys.exit(run(["revert", "slice/m1/s1", "--yes"]))
"""


def test_a_revert_that_was_killed_when_it_had_landed_is_recorded_by_the_next_start(stage: Stage) -> None:
    """The milestone ended as if it had the slice."""
    stage.script(
        *two_slices(),
        scene(
            "reassess", call("submit_reassessment", decision="abandon", reason="the operator took it back")
        ),
    )
    stage.plan("the goal")

    def pause(event: events.Event) -> None:
        if event.name == events.UNIT_CLOSED and event.unit_id == S1:
            stage.queue("pause", reason="look")

    assert stage.auto(watch=pause).ending == "paused"
    command = [sys.executable, "-c", _KILLED_BEFORE_THE_ROWS]
    killed = subprocess.run(command, cwd=stage.root, env={**os.environ, "SF_HOME": str(stage.home)})
    assert killed.returncode == -9 and stage.unit(S1).reverted_at is None
    assert "a.txt" not in files(stage)
    stage.submit("resume")
    stage.auto()
    assert stage.unit(S1).reverted_at is not None
    assert not stage.unit(M).succeeded
    assert any("cut off" in str(event.data["detail"]) for event in stage.named(events.WARNING))
    again = stage.sf("revert", S1, "--yes")
    assert "was reverted already" in again.stderr


def _revert_killed(stage: Stage) -> None:
    landed(stage)
    command = [sys.executable, "-c", _KILLED_BEFORE_THE_ROWS]
    killed = subprocess.run(command, cwd=stage.root, env={**os.environ, "SF_HOME": str(stage.home)})
    assert killed.returncode == -9 and stage.unit(S1).reverted_at is None


def test_a_killed_revert_stays_noted_beside_that_of_another_store(stage: Stage) -> None:
    """Every store counts from m1: what was noted of one unit was replaced by another's, and dropped."""
    _revert_killed(stage)
    [killed] = reversals.noted(stage.project)
    unit = msgspec.structs.replace(stage.unit(S1), created_at=Instant(killed.created_at + 1))
    reversals.note(stage.project, msgspec.structs.replace(killed, created_at=unit.created_at))
    reversals.drop(stage.project, unit)
    assert reversals.noted(stage.project) == [killed]
    stage.auto()
    assert stage.unit(S1).reverted_at is not None and not reversals.noted(stage.project)


def test_a_killed_revert_that_an_earlier_version_noted_is_told_once(stage: Stage) -> None:
    _revert_killed(stage)
    [note] = stage.project.runtime.glob("revert-slice_m1_s1*.json")
    note.rename(note.with_name("revert-slice_m1_s1.json"))
    stage.auto()
    stage.auto()
    assert len([event for event in stage.named(events.WARNING) if event.unit_id == S1]) == 1
    assert stage.unit(S1).reverted_at is not None and not reversals.noted(stage.project)


def test_a_killed_revert_that_was_reworded_since_is_told_and_can_be_said_again(stage: Stage) -> None:
    _revert_killed(stage)
    stage.git("commit", "-q", "--amend", "-m", "in my own words")
    stage.auto()
    told = [str(event.data["detail"]) for event in stage.named(events.WARNING) if event.unit_id == S1]
    assert any(f"sf revert {S1} looks again" in detail for detail in told)
    assert stage.sf("revert", S1, "--yes").returncode == 0
    assert stage.unit(S1).reverted_at is not None


def test_a_killed_revert_waits_for_a_branch_that_is_away(stage: Stage) -> None:
    _revert_killed(stage)
    stage.git("branch", "-m", "main", "other")
    stage.auto()
    assert stage.unit(S1).reverted_at is None
    stage.git("branch", "-m", "other", "main")
    stage.auto()
    assert stage.unit(S1).reverted_at is not None
    assert [row["kind"] for row in records.evidence(stage.read, S1)].count("revert") == 1


def test_a_killed_revert_is_not_that_of_another_unit_with_its_id(stage: Stage) -> None:
    _revert_killed(stage)
    [note] = stage.project.runtime.glob("revert-slice_m1_s1*.json")
    noted = json.loads(note.read_text())
    note.write_text(json.dumps({**noted, "created_at": noted["created_at"] - 1}))
    stage.auto()
    assert stage.unit(S1).reverted_at is None
    note.write_text(json.dumps(noted))
    stage.auto()
    assert stage.unit(S1).reverted_at is not None and not note.exists(), "in its own store it is recorded"


def test_what_was_brought_back_since_its_revert_is_left_out_and_told(stage: Stage) -> None:
    landed(stage)
    assert stage.sf("revert", S1, "--yes").returncode == 0
    stage.git("revert", "--no-edit", "HEAD")
    done = stage.sf("revert", M, "--yes")
    assert done.returncode == 0 and f"{S1} was reverted before and is left out" in done.stdout + done.stderr


def test_a_commit_of_the_users_between_showing_and_doing_is_noticed(stage: Stage) -> None:
    landed(stage)
    agreed = undoing.survey(stage.project, S1)
    stage.file("mine.txt", "mine\n")
    head = stage.commit("mine")
    with pytest.raises(BranchMoved, match="has changed since"):
        undoing.carry_out(stage.project, agreed)
    assert stage.git("rev-parse", "main") == head


def test_the_menu_and_the_question_on_a_terminal(stage: Stage) -> None:
    head = landed(stage)
    code, text = _on_a_terminal(stage, ["revert"], answers=["2\n", "n\n"])
    assert code == 0 and f"1  {M}  success" in text and "nothing was changed" in text
    assert stage.git("rev-parse", "main") == head
    code, text = _on_a_terminal(stage, ["revert", S2], answers=["y\n"])
    assert code == 0 and "revert 1 commit(s) on main?" in text
    assert files(stage) == {"notes.txt", "a.txt"}


def _on_a_terminal(stage: Stage, arguments: list[str], answers: list[str]) -> tuple[int, str]:
    """Run sf on a terminal of its own; each answer is typed when it has fallen silent with a question."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "SF_HOME": str(stage.home), "HOME": str(stage.home.parent), "TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-m", "sf", *arguments],
        cwd=stage.root,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    text, waiting, deadline = "", list(answers), time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    chunk = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                text += chunk.decode()
            if waiting and text.rstrip().endswith((":", "?", "[y/N]:")):
                os.write(ours, waiting.pop(0).encode())
                text += "\n"
        return process.wait(timeout=30), text
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _rescues(stage: Stage, *flags: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(stage.sf("rescue", "list", "--json", *flags).stdout)["parked"]
    return found


def abandoned(stage: Stage, names: str = "AB") -> str:
    """Call a slice off when all but the last of its tasks were committed; its rescue id."""
    tasks = [task(n, blocked_by=[names[i - 1]] if i else []) for i, n in enumerate(names)]
    stage.script(
        plan_scene({"title": "One", "tasks": tasks}),
        *(scene("execute", write(f"{n.lower()}.txt", f"{n}\n"), say(), unit=n) for n in names),
        *(scene("tdd", write(f"tests/test_{n}.txt", f"{n}\n"), say(), unit=n) for n in names),
        *PASSING,
    )
    stage.plan("the goal")

    def meddle(event: events.Event) -> None:
        if event.name == events.UNIT_CLOSED and event.unit_id == f"task/m1/s1/t{len(names) - 1}":
            stage.queue("abandon", unit_id=M, reason="not needed")

    stage.auto(watch=meddle)
    listed = _rescues(stage)
    assert [item["unit_id"] for item in listed] == [S1]
    return str(listed[0]["id"])


def test_work_that_is_about_to_be_parked_is_named(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "S", "tasks": [task("T")]}),
        scene("execute", write("a.txt"), say("Which?\n<turn_status>blocked</turn_status>")),
        *PASSING,
    )
    stage.plan("the goal")
    assert stage.auto().ending == "waiting"
    called_off = stage.sf("abandon", M, "not needed").stdout
    assert called_off == f"{M} is called off; sf auto parks what it leaves → sf rescue list\n"
    due, nothing = stage.sf("rescue", "list").stdout.splitlines()
    assert due == f"ended, and what they leave is parked by sf auto, now or next: {S1}, {M}"
    assert nothing.startswith("nothing is parked yet")
    stage.auto()
    assert [item["unit_id"] for item in _rescues(stage)] == [S1]
    assert "ended" not in stage.sf("rescue", "list").stdout


def test_work_that_was_called_off_is_listed_shown_and_made_a_branch(stage: Stage) -> None:
    assert "nothing is parked" in stage.sf("rescue", "list").stdout
    before = stage.git("rev-parse", "main")
    name = abandoned(stage)
    (item,) = _rescues(stage)
    assert item["landed"] is False and item["files"] >= 1 and item["ref"] == f"refs/sf/rescue/{name}"
    assert name in stage.sf("rescue", "list").stdout
    shown = stage.sf("rescue", "show", name[:6])
    assert shown.returncode == 0 and "A a.txt" in shown.stdout
    stage.file("notes.txt", "in the middle of something\n")
    made = stage.sf("rescue", "restore", name)
    assert made.returncode == 0 and f"git switch rescue-{name}" in made.stdout
    assert stage.git("show", f"rescue-{name}:a.txt") == "A"
    assert (stage.git("rev-parse", "main"), stage.git("branch", "--show-current")) == (before, "main")
    assert (stage.root / "notes.txt").read_text() == "in the middle of something\n"
    assert not (stage.root / "a.txt").exists()
    assert stage.sf("rescue", "restore", name).returncode == 0, "the same again is no harm"
    stage.git("fsck", "--strict")
    assert len(_rescues(stage)) == 1, "nothing is deleted"


def test_a_branch_of_that_name_is_never_moved_and_unknown_names_say_so(stage: Stage) -> None:
    name = abandoned(stage)
    stage.git("branch", "mine")
    refused = stage.sf("rescue", "restore", name, "--branch", "mine")
    assert refused.returncode == 2 and "already" in refused.stderr
    assert stage.git("rev-parse", "mine") == stage.git("rev-parse", "main")
    assert stage.sf("rescue", "restore", name, "--branch", "../x y").returncode == 2
    assert stage.sf("rescue", "restore", name, "--branch", "kept").returncode == 0
    for command in ("show", "restore"):
        unknown = stage.sf("rescue", command, "nope")
        assert unknown.returncode == 2 and "unknown_rescue" in unknown.stderr


def test_parked_work_is_told_whole_after_a_commit_of_the_users(stage: Stage) -> None:
    name = abandoned(stage, "ABC")
    stage.file("user.txt", "goes on\n")
    stage.commit("the user goes on, and sf's own repository does not have it")
    shown = rescues.shown(stage.project, name)
    assert [commit.subject for commit in shown.commits] == ["B", "A"]
    assert [change.path for change in shown.changes] == [
        "a.txt",
        "b.txt",
        "tests/test_A.txt",
        "tests/test_B.txt",
    ]
    folder = stage.project.worktrees / "stranger"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/precious.txt").write_text("of no unit\n")
    tidying.clean(stage.project)
    kept = rescues.listed(stage.project).parked
    assert {item.id: item.files for item in kept} == {
        name: 4,
        "stranger-1": 1,
    }


def test_a_name_that_is_no_utf8_is_escaped_for_a_program(stage: Stage) -> None:
    async def park(folder: Path) -> str | None:
        user = await UserRepository.open(stage.root, stage.project.facade, Git())
        owned = await OwnedRepository.open(stage.project.repository, user, Git())
        return await rescue.park_folder(owned, folder)

    folder = stage.root.parent / "stranger"
    folder.mkdir()
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("x\n")
    stage.plan()
    asyncio.run(park(folder))
    plain = json.loads(stage.sf("rescue", "show", "stranger", "--json").stdout)
    told = json.loads(stage.sf("headless", "rescue", "show", "stranger").stdout)["data"]
    assert [change["path"] for change in plain["changes"]] == ["caf\\udce9.txt"]
    assert told == plain


def test_what_single_runs_left_is_found_too(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "One", "tasks": [task("A")]}),
        scene("execute", write("a.txt", "BROKEN, but of interest\n"), say(), unit="A"),
        scene("reassess", call("submit_reassessment", decision="abandon", reason="no way")),
        *PASSING,
    )
    stage.plan("the goal")
    stage.auto()
    assert all(item["ref"].startswith("refs/sf/rescue/") for item in _rescues(stage))
    snapshots = [item for item in _rescues(stage, "--runs") if item["ref"].startswith("refs/sf/runs/")]
    assert snapshots and {item["unit_id"] for item in snapshots} == {"task/m1/s1/t1"}
    assert all(item["files"] for item in snapshots)
    run_id = snapshots[-1]["id"]
    assert stage.sf("rescue", "restore", run_id[:-2] if len(snapshots) == 1 else run_id).returncode == 0
    assert stage.git("show", f"run-{run_id}:a.txt") == "BROKEN, but of interest"


def test_work_that_reached_the_branch_later_is_told_as_such(stage: Stage) -> None:
    name = abandoned(stage)
    assert stage.sf("rescue", "restore", name).returncode == 0
    stage.git("merge", "-q", "--no-ff", "-m", "taken over", f"rescue-{name}")
    (item,) = _rescues(stage)
    assert item["landed"] is True
