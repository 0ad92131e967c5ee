"""Merging: evidence of exactly the tree that lands, and the user's checkout never harmed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest

from sf.app import accounts, reports
from sf.domain import events
from sf.domain.events import Event
from sf.domain.phases import Phase
from sf.domain.units import HoldKind
from sf.store import attention, records, runs
from tests.support.stage import CONFIG, PASSING, SINGLE, Stage, call, plan_scene, say, scene, task, write

ONE = {"title": "S", "tasks": [task("T")]}
LATIN = os.fsdecode(b"caf\xe9.txt")


def test_a_dirty_checkout_is_never_touched_and_the_merge_waits(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    stage.file("notes.txt", "my own unsaved work\n")
    before = stage.git("rev-parse", "main")
    result = stage.auto()
    assert result.ending == "waiting"
    assert "notes.txt" in stage.named(events.WARNING)[0].data["detail"], "told at the start, not hours later"
    unit = stage.unit("slice/m1/s1")
    assert unit.hold_kind is HoldKind.CHECKOUT_DIRTY
    assert "notes.txt" in unit.hold_detail
    assert stage.git("rev-parse", "main") == before
    assert (stage.root / "notes.txt").read_text() == "my own unsaved work\n"
    stage.commit("mine")
    assert stage.auto().ending == "done"
    assert (stage.root / "a.txt").exists()
    assert (stage.root / "notes.txt").read_text() == "my own unsaved work\n"


def test_what_comes_in_the_way_when_the_first_is_gone_is_another_question(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("notes.txt", "theirs\n"), say()), *PASSING)
    stage.plan()
    stage.file("notes.txt", "mine\n")
    assert stage.auto().ending == "waiting"
    [first] = accounts.questions(stage.project)
    stage.git("checkout", "-q", "notes.txt")

    def watch(event: events.Event) -> None:
        if event.name == events.STATE_CHANGED:
            stage.file("notes.txt", "mine again\n")

    assert stage.auto(watch=watch).ending == "waiting"
    [second] = accounts.questions(stage.project)
    assert second.id != first.id and len(stage.named(events.HELD)) == 2


def test_what_is_in_the_way_only_while_a_merge_is_tried_is_not_tried_over_and_over(stage: Stage) -> None:
    """Hooks around a run that change a tracked file and change it back: a hundred runs in forty seconds."""
    bump = 'cat >/dev/null\n[ "$SF_UNIT_TYPE" = slice ] || exit 0\n'
    stage.hook("before", f'#!/bin/sh\n{bump}echo bump >> "$SF_PROJECT_ROOT/notes.txt"\n')
    stage.hook("after", f'#!/bin/sh\n{bump}git -C "$SF_PROJECT_ROOT" checkout -q -- notes.txt\n')
    hooks = 'before_run = "./.sf/hooks/before.sh"\nafter_run = "./.sf/hooks/after.sh"\n'
    stage.configure(f"{CONFIG}[harness.hooks]\n{hooks}")
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    assert stage.auto().ending == "waiting"
    assert stage.unit("slice/m1/s1").hold_kind is HoldKind.CHECKOUT_DIRTY
    tried = [run for run in runs.of_unit(stage.read, "slice/m1/s1") if run.phase is Phase.MERGE]
    # One that is seen to be gone is believed once.
    assert len(tried) <= 2 and len(stage.named(events.HELD)) <= 2


def test_an_edit_that_is_undone_at_once_holds_nothing_up(stage: Stage) -> None:
    """The loop ended beside a merge that nothing was in the way of any more."""
    stage.script(plan_scene(ONE), scene("execute", write("notes.txt", "theirs\n"), say()), *PASSING)
    stage.plan()

    def watch(event: Event) -> None:
        reached = event.name == events.PHASE_CHANGE and event.data["to"] == "merge"
        if reached and event.unit_id == "slice/m1/s1":
            stage.file("notes.txt", "mine\n")
        if event.name == events.HELD:
            stage.git("checkout", "--", "notes.txt")

    assert stage.auto(watch=watch).ending == "done"
    assert len(stage.named(events.HELD)) == 1


def test_an_untracked_file_in_the_way_is_not_overwritten(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    stage.file("a.txt", "precious\n")
    assert stage.auto().ending == "waiting"
    runs_before = stage.unit("slice/m1/s1").attempt
    assert stage.auto().ending == "waiting"
    assert (stage.root / "a.txt").read_text() == "precious\n"
    assert stage.unit("slice/m1/s1").attempt <= runs_before + 1
    [blocker] = reports.status(stage.project).blockers
    [question] = accounts.questions(stage.project)
    assert blocker.detail == "untracked files are in the way: a.txt"
    assert question.question.splitlines() == [blocker.detail, "move them away"]
    assert blocker.way_out.startswith("move them away, then sf auto")
    assert reports.why(stage.project, "slice/m1/s1").way_out == blocker.way_out
    (stage.root / "a.txt").unlink()
    assert stage.auto().ending == "done"


def test_what_a_look_meets_instead_of_the_first_is_another_question(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    stage.git("switch", "-q", "-c", "mine")
    elsewhere = stage.root.parent / "elsewhere"
    stage.git("worktree", "add", "-q", str(elsewhere), "main")
    assert stage.auto().ending == "waiting"
    [first] = accounts.questions(stage.project)
    assert "is checked out in" in first.question
    stage.git("worktree", "remove", str(elsewhere))
    stage.git("switch", "-q", "main")
    stage.file("a.txt", "mine\n")
    assert stage.auto().ending == "waiting"
    [second] = accounts.questions(stage.project)
    assert "untracked files are in the way" in second.question
    assert second.id != first.id and len(stage.named(events.HELD)) == 2


def _untracked(stage: Stage) -> None:
    stage.file("a.txt", "mine\n")


def _not_utf_8(stage: Stage) -> None:
    stage.file(LATIN, "mine\n")


def _midway(stage: Stage) -> None:
    (stage.root / ".git" / "MERGE_HEAD").write_text(stage.git("rev-parse", "HEAD") + "\n")


def _changed(stage: Stage) -> None:
    stage.file("notes.txt", "mine\n")


def _gone(stage: Stage) -> None:
    stage.git("switch", "-q", "-c", "mine")
    stage.git("worktree", "add", "-q", str(stage.root.parent / "away"), "main")
    shutil.rmtree(stage.root.parent / "away")


@pytest.mark.parametrize("obstruct", [_untracked, _not_utf_8, _midway, _changed, _gone])
def test_what_is_still_in_the_way_at_the_next_start_is_the_same_question(
    stage: Stage, obstruct: Callable[[Stage], None]
) -> None:
    both = "echo fine > a.txt; printf fine > \"$(printf 'caf\\351.txt')\""
    stage.script(plan_scene(ONE), scene("execute", call("bash", command=both), say()), *PASSING)
    stage.plan()
    obstruct(stage)
    assert stage.auto().ending == "waiting"
    asked, ran = attention.waiting(stage.read), stage.unit("slice/m1/s1").attempt
    for _ in range(2):
        assert stage.auto().ending == "waiting"
        assert attention.waiting(stage.read) == asked
    assert len(asked) == len(stage.named(events.HELD)) == 1
    assert stage.unit("slice/m1/s1").attempt == ran, "what can be seen from here needs no run"
    stage.git("worktree", "prune")
    (stage.root / ".git" / "MERGE_HEAD").unlink(missing_ok=True)
    stage.git("checkout", "-q", ".")
    stage.git("clean", "-q", "-f", "-e", ".sf")
    assert stage.auto().ending == "done"


def test_a_staged_file_that_is_staged_no_more_is_not_in_the_way(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    stage.file("mine.txt", "mine\n")
    stage.git("add", "mine.txt")
    assert stage.auto().ending == "waiting"
    stage.git("reset", "-q")
    assert stage.auto().ending == "done"
    assert (stage.root / "mine.txt").read_text() == "mine\n"


def test_a_checkout_that_git_cannot_look_at_ends_no_session_for_a_unit_that_is_held(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    stage.file("notes.txt", "mine\n")
    assert stage.auto().ending == "waiting"
    tree = stage.git("rev-parse", "HEAD^{tree}")
    lost = stage.root / ".git" / "objects" / tree[:2] / tree[2:]
    lost.rename(stage.root.parent / "tree")
    assert stage.auto().ending == "waiting"
    (stage.root.parent / "tree").rename(lost)
    assert "the checkout could not be looked at" in (stage.project.dot / "log" / "sf.log").read_text()
    stage.git("checkout", "-q", ".")
    assert stage.auto().ending == "done"


def test_commits_that_the_user_makes_meanwhile_are_kept(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()

    assert stage.auto(watch=stage.meanwhile("review", "user.txt", "meanwhile\n")).ending == "done"
    assert (stage.root / "user.txt").exists() and (stage.root / "a.txt").exists()
    assert "meanwhile" in stage.git("log", "--format=%s")
    gates = records.gate_results(stage.read, "slice/m1/s1")
    landed = stage.git("rev-parse", "main^{tree}")
    assert [row["tree"] for row in gates if row["passed"]][-1] == landed


def test_a_branch_that_keeps_moving_is_waited_for_and_nobody_is_charged(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    commits: list[str] = []

    def busy(event: events.Event) -> None:
        """Six times the user is faster: once more than one run tries."""
        if event.name == events.MERGE_READY and event.unit_id.startswith("slice") and len(commits) < 6:
            stage.file(f"user{len(commits)}.txt", "mine\n")
            commits.append(stage.commit("meanwhile"))

    assert stage.auto(watch=busy).ending == "done"
    assert len(commits) == 6 and stage.path_of("slice/m1/s1").count("merge") == 1
    ended = [run.error_code for run in runs.of_unit(stage.read, "slice/m1/s1") if run.phase == "merge"]
    assert ended == ["branch_moved", None]
    assert "reassess" not in stage.path_of("slice/m1/s1")


def _conflicting(stage: Stage, resolution: str) -> None:
    stage.script(
        plan_scene({"title": "A", "tasks": [task("TA")]}, {"title": "B", "tasks": [task("TB")]}),
        scene("execute", write("notes.txt", "from A\n"), say(), unit="TA"),
        scene("execute", write("notes.txt", "from B\n"), say(), unit="TB"),
        scene("execute", call("read_file", path="notes.txt"), write("notes.txt", resolution), say()),
        scene("tdd", write("tests/a.txt"), say(), unit="TA"),
        scene("tdd", write("tests/b.txt"), say(), unit="TB"),
        *PASSING,
    )
    stage.plan()


def test_a_conflict_is_laid_out_in_the_worktree_and_resolved_by_the_slice(stage: Stage) -> None:
    _conflicting(stage, "from A\nfrom B\n")
    assert stage.auto().ending == "done"
    assert (stage.root / "notes.txt").read_text() == "from A\nfrom B\n"
    assert stage.named(events.MERGE_CONFLICT)
    loser = next(unit for unit in ("slice/m1/s1", "slice/m1/s2") if "execute" in stage.path_of(unit)[1:])
    assert stage.path_of(loser)[-1] == "complete"
    assert stage.unit(loser).merging is None


def test_a_conflict_that_is_not_resolved_waits_for_a_person(stage: Stage) -> None:
    _conflicting(stage, "never written\n")
    stage.configure(stage.project.config.read_text().replace("[harness]", "[harness]\nmax_attempts = 1", 1))
    stage.script(
        plan_scene({"title": "A", "tasks": [task("TA")]}, {"title": "B", "tasks": [task("TB")]}),
        scene("execute", write("notes.txt", "from A\n"), say(), unit="TA"),
        scene("execute", write("notes.txt", "from B\n"), say(), unit="TB"),
        scene("execute", write("elsewhere.txt"), say(), say(), say()),
        scene("tdd", write("tests/a.txt"), say(), unit="TA"),
        scene("tdd", write("tests/b.txt"), say(), unit="TB"),
        scene(
            "reassess", call("submit_reassessment", outcome="escalate", explanation="?", questions=["which?"])
        ),
        *PASSING,
    )
    assert stage.auto().ending == "waiting"
    assert "<<<<<<<" not in (stage.root / "notes.txt").read_text()
    held = [unit for unit in ("slice/m1/s1", "slice/m1/s2") if stage.unit(unit).hold_kind]
    assert len(held) == 1
    last = [run for run in runs.of_unit(stage.read, held[0]) if run.phase == "execute"][-1]
    assert "conflict markers" in last.detail


def test_a_conflict_in_a_binary_file_is_not_resolved_by_looking_elsewhere(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "A", "tasks": [task("TA")]}, {"title": "B", "tasks": [task("TB")]}),
        scene("execute", write("logo.bin", "A\0A"), say(), unit="TA"),
        scene("execute", write("logo.bin", "B\0B"), say(), unit="TB"),
        scene("execute", write("elsewhere.txt"), say(), say(), visits=[1]),
        scene(
            "execute",
            write("logo.bin", "both\0"),
            call("bash", command="rm sf-conflicts/1-logo.bin"),
            say(),
            visits=[2],
        ),
        scene("tdd", write("tests/a.txt"), say(), unit="TA"),
        scene("tdd", write("tests/b.txt"), say(), unit="TB"),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert (stage.root / "logo.bin").read_bytes() == b"both\0"
    assert not (stage.root / "sf-conflicts").exists()
    loser = next(unit for unit in ("slice/m1/s1", "slice/m1/s2") if "execute" in stage.path_of(unit)[1:])
    refused = next(run for run in runs.of_unit(stage.read, loser) if run.phase == "execute")
    assert (refused.error_code, "sf-conflicts/1-logo.bin" in refused.detail) == ("no_product", True)


def test_a_milestones_conflict_is_resolved_by_its_fix(stage: Stage) -> None:
    stage.configure(SINGLE)
    stage.script(
        plan_scene(ONE),
        scene(
            "execute", call("read_file", path="notes.txt"), write("notes.txt", "both\n"), say(), unit="Fix:*"
        ),
        scene("execute", write("notes.txt", "from the milestone\n"), say()),
        *PASSING,
    )
    stage.plan()
    result = stage.auto(watch=stage.meanwhile("tdd", "notes.txt", "from the user\n"))
    assert result.ending == "done"
    assert (stage.root / "notes.txt").read_text() == "both\n"
    assert stage.git("status", "--porcelain", "--untracked-files=no") == ""
    fix = stage.unit("task/m1/s2/t1")
    seen = next(run for run in runs.of_unit(stage.read, fix.id) if run.phase == "execute")
    shown = b"".join(row["content"] for row in runs.messages(stage.read, seen.id))
    assert b"<<<<<<< " in shown and b"from the user" in shown, "the fix saw the conflict laid out"
    landed = stage.git("log", "--format=%s", "--first-parent", "main").splitlines()
    assert landed[0] == "Merge milestone/m1: do it"
    assert "meanwhile" in landed


def test_a_milestones_fix_works_on_the_merged_tree_that_failed(stage: Stage) -> None:
    stage.gate("check", "#!/bin/sh\n[ ! -f a.txt ] || [ ! -f user.txt ] || test -f mended.txt\n")
    stage.configure(SINGLE)
    stage.script(
        plan_scene(ONE),
        scene("execute", call("bash", command="cp user.txt mended.txt"), say(), unit="Fix:*"),
        scene("execute", write("a.txt"), say()),
        *PASSING,
    )
    stage.plan()
    result = stage.auto(watch=stage.meanwhile("tdd", "user.txt", "the user's\n"))
    assert result.ending == "done"
    assert (stage.root / "mended.txt").read_text() == "the user's\n"


def test_gates_that_fail_only_on_the_merged_tree_send_the_slice_back(stage: Stage) -> None:
    """Each slice is fine alone; together they break the gate."""
    stage.gate(
        "check",
        "#!/bin/sh\n[ -f a.txt ] && [ -f b.txt ] || exit 0\n"
        "[ -f both.txt ] || { echo 'a and b need both'; exit 1; }\n",
    )
    stage.script(
        plan_scene({"title": "A", "tasks": [task("TA")]}, {"title": "B", "tasks": [task("TB")]}),
        scene("execute", write("a.txt"), say(), unit="TA"),
        scene("execute", write("b.txt"), say(), unit="TB"),
        scene("execute", write("both.txt"), say()),
        scene("tdd", write("tests/a.txt"), say(), unit="TA"),
        scene("tdd", write("tests/b.txt"), say(), unit="TB"),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert all((stage.root / name).exists() for name in ("a.txt", "b.txt", "both.txt"))
    for commit in stage.git("rev-list", "--first-parent", "main").splitlines():
        files = stage.git("ls-tree", "--name-only", commit).splitlines()
        assert not ({"a.txt", "b.txt"} <= set(files)) or "both.txt" in files


def test_the_worktrees_are_gone_and_nothing_is_left_behind(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    assert stage.auto().ending == "done"
    assert list(stage.project.worktrees.iterdir()) == []
    assert list((stage.project.dot / "active").iterdir()) == []
    assert len(list((stage.project.dot / "archive").iterdir())) == 3
    assert stage.git("branch", "--format=%(refname:short)") == "main"


def test_what_a_slice_mended_for_its_review_is_not_taken_back_by_the_next(stage: Stage) -> None:
    stage.configure(SINGLE)
    stage.script(
        plan_scene(
            {"title": "A", "tasks": [task("T1")]},
            {"title": "B", "tasks": [task("T2", allowed_areas=["b.txt", "tests"])]},
        ),
        scene("execute", write("a.txt"), say(), unit="T1"),
        scene("execute", write("b.txt"), say(), unit="T2"),
        scene("execute", write("mended.txt"), say(), unit="A"),
        *(scene("tdd", write(f"tests/{name}.txt"), say(), unit=name) for name in ("T1", "T2")),
        scene(
            "review_synthesis",
            call("submit_synthesis", verdict="request_changes", summary="more"),
            unit="A",
            visits=[1],
        ),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert (stage.root / "mended.txt").exists()
    assert not [run for run in runs.of_unit(stage.read, "task/m1/s2/t1") if run.error_code]


def test_a_milestones_conflict_may_be_resolved_by_keeping_what_it_wrote(stage: Stage) -> None:
    stage.configure(SINGLE)
    stage.script(
        plan_scene({"title": "S", "tasks": [task("T")]}),
        scene("execute", write("notes.txt", "agent\n"), say()),
        *PASSING,
    )
    stage.plan()
    edit = stage.meanwhile("merge", "notes.txt", "user\n", unit="milestone/m1")
    assert stage.auto(watch=edit).ending == "done"
    assert stage.git("show", "main:notes.txt") == "agent"
    assert "meanwhile" in stage.git("log", "--format=%s", "main")
