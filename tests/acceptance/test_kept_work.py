"""What people and agents leave where sf works is kept, whatever becomes of the unit."""

from __future__ import annotations

import errno
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from sf import files
from sf.app.initialise import initialise
from sf.domain import events
from sf.domain.events import Event
from sf.store import runs
from tests.support.stage import (
    CONFIG,
    GATE,
    PASSING,
    SHORT,
    SINGLE,
    Stage,
    call,
    plan_scene,
    say,
    scene,
    task,
    write,
)

ONE = {"title": "One", "tasks": [task("A")]}
SLICE = "slice/m1/s1"
UAT = """name = "accepted"
phases = ["research", "plan", "execute", "tdd", "verify", "review", "uat", "merge", "complete"]
max_retries = 3
max_reassess = 2
require_uat = true
"""
PLANNED = call("submit_plan", goal="g", approach="a", deliverables=["x"], verification=["y"])


def _workspace(stage: Stage) -> Path:
    return Path(str(stage.unit(SLICE).workspace))


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=T", "-c", "user.email=t@localhost", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def _parked(stage: Stage) -> dict[str, list[str]]:
    """The rescue refs and the files in each."""
    repository = stage.project.repository
    refs = _git(repository, "for-each-ref", "--format=%(refname)", "refs/sf/rescue").split()
    return {ref: _git(repository, "ls-tree", "-r", "--name-only", ref).split() for ref in refs}


def _aside(stage: Stage, name: str) -> list[Path]:
    return list(stage.project.repository.with_suffix(".aside").rglob(name))


@pytest.fixture
def one(stage: Stage) -> Stage:
    """A milestone with one slice of one task."""
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say(), unit="A"), *PASSING)
    return stage


def test_what_a_person_changed_before_they_approved_is_parked_and_told(waiting: Stage) -> None:
    (_workspace(waiting) / "handmade.txt").write_text("by hand\n")
    waiting.submit("uat_approve", unit_id=SLICE)
    waiting.auto()
    assert waiting.unit(SLICE).succeeded
    assert [ref for ref, files in _parked(waiting).items() if "handmade.txt" in files]
    warned = [str(event.data["detail"]) for event in waiting.named(events.WARNING)]
    assert any("sf rescue list" in detail for detail in warned)


@pytest.fixture
def waiting(one: Stage) -> Stage:
    """The same, where the slice waits for acceptance."""
    one.workflow("accepted", UAT)
    one.plan(workflow="accepted")
    assert one.auto().ending == "waiting"
    return one


def _subjects(stage: Stage) -> list[str]:
    return [_git(stage.project.repository, "show", "-s", "--format=%s", ref) for ref in _parked(stage)]


def test_what_was_committed_and_stashed_inside_a_worktree_is_parked(waiting: Stage) -> None:
    folder = _workspace(waiting)
    _git(folder, "switch", "-q", "-c", "try-one")
    (folder / "helper.txt").write_text("two hours of work\n")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", "careful")
    _git(folder, "switch", "-q", "-")
    (folder / "a.txt").write_text("an idea\n")
    _git(folder, "stash", "push", "-q")
    waiting.submit("abandon", unit_id="milestone/m1", reason="enough")
    waiting.auto()
    subjects = _subjects(waiting)
    assert "careful" in subjects and any("WIP on" in subject for subject in subjects)
    assert any("helper.txt" in files for files in _parked(waiting).values())


def test_a_git_inside_that_cannot_be_read_is_set_aside_whole(waiting: Stage) -> None:
    inner = _workspace(waiting) / ".git"
    _git(_workspace(waiting), "switch", "-q", "-c", "broken")
    (_workspace(waiting) / "b.txt").write_text("b\n")
    _git(_workspace(waiting), "add", "-A")
    _git(_workspace(waiting), "commit", "-q", "-m", "b")
    _git(_workspace(waiting), "switch", "-q", "-")
    blob = _git(_workspace(waiting), "rev-parse", "broken:b.txt")
    (inner / "objects" / blob[:2] / blob[2:]).unlink()
    waiting.submit("uat_approve", unit_id=SLICE)
    waiting.auto()
    assert waiting.unit(SLICE).succeeded
    assert _aside(waiting, "broken")


def test_an_agents_links_out_of_its_git_are_not_followed(waiting: Stage) -> None:
    other = waiting.root.parent / "other"
    other.mkdir()
    _git(other, "init", "-q")
    (other / "secret.txt").write_text("secret\n")
    _git(other, "add", "-A")
    _git(other, "commit", "-q", "-m", "secret")
    commit = _git(other, "rev-parse", "HEAD")
    inner = _workspace(waiting) / ".git"
    (inner / "objects/info/alternates").write_text(f"{other / '.git/objects'}\n")
    (inner / "objects" / commit[:2]).symlink_to(other / ".git/objects" / commit[:2])
    (inner / "refs/heads/mine").write_text(f"{commit}\n")
    waiting.submit("uat_approve", unit_id=SLICE)
    waiting.auto()
    assert waiting.unit(SLICE).succeeded
    assert not any("secret.txt" in files for files in _parked(waiting).values())


def test_a_repository_inside_a_worktree_is_set_aside(stage: Stage) -> None:
    made = "mkdir pkg && cd pkg && git init -q . && echo precious > work.txt"
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), call("bash", command=made), say(), unit="A"),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert _aside(stage, "work.txt")


def test_what_lies_below_a_submodule_is_refused_and_set_aside(stage: Stage) -> None:
    library = stage.root.parent / "library"
    library.mkdir()
    _git(library, "init", "-q")
    _git(library, "commit", "-q", "--allow-empty", "-m", "first")
    stage.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    stage.commit("submodule")
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), write("lib/parser.txt"), say(), visits=[1]),
        scene("execute", write("a.txt"), write("parser.txt"), say()),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert "parser.txt" in stage.git("ls-tree", "--name-only", "main").split()
    assert _aside(stage, "parser.txt")


def test_commits_of_a_worktree_that_was_deleted_by_hand_are_parked(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "One", "tasks": [task("A"), task("B", blocked_by=["A"])]}),
        *(scene("execute", write(f"{name}.txt"), say(), unit=name) for name in ("A", "B")),
        *PASSING,
    )
    stage.plan()

    def watch(event: Event) -> None:
        if event.name == events.UNIT_CLOSED and event.unit_id == "task/m1/s1/t1":
            stage.queue("pause", reason="x")

    assert stage.auto(watch=watch).ending == "paused"
    shutil.rmtree(stage.project.worktrees)
    stage.submit("abandon", unit_id="milestone/m1", reason="no")
    stage.submit("resume")
    stage.auto()
    assert [files for files in _parked(stage).values() if "A.txt" in files]
    parked = _parked(stage)
    stage.auto()
    assert _parked(stage) == parked


def test_what_lies_where_a_new_units_folder_is_to_be_is_parked(one: Stage) -> None:
    """The rows are gone, and other work is planned under the same names: the folder was another unit's."""
    one.plan()
    one.file("notes.txt", "not committed\n")
    assert one.auto().ending == "waiting"
    (_workspace(one) / "mine.txt").write_text("a day's work\n")
    for file in one.project.dot.glob("sf.db*"):
        file.unlink()
    one.git("checkout", "-q", "notes.txt")
    one.script(
        plan_scene({"title": "Another", "tasks": [task("A")]}),
        scene("execute", write("b.txt"), say()),
        *PASSING,
    )
    one.plan()
    assert one.auto().ending == "done"
    assert any("mine.txt" in files for files in _parked(one).values())


def test_work_is_parked_although_its_branch_was_renamed(waiting: Stage) -> None:
    waiting.git("branch", "-m", "main", "trunk")
    waiting.submit("abandon", unit_id="milestone/m1", reason="no")
    waiting.auto()
    assert not list(waiting.project.worktrees.iterdir())
    ((ref, files),) = _parked(waiting).items()
    assert "a.txt" in files and "first" in _git(waiting.project.repository, "log", "--format=%s", ref)


def test_a_spike_leaves_the_users_commits_on_its_branch_alone(stage: Stage) -> None:
    for number in ("one", "two"):
        stage.script(scene("plan", PLANNED), scene("execute", write("a.txt", f"{number}\n"), say()), *PASSING)
        stage.plan("try it", workflow="spike", adhoc=True)
        assert stage.auto().ending == "done"
        if number == "one":
            stage.git("checkout", "-q", "sf/a1-try-it")
            stage.file("mine.txt", "a day of work\n")
            mine = stage.commit("mine")
            stage.git("checkout", "-q", "main")
            shutil.rmtree(stage.project.dot)
            initialise(stage.root)
            stage.gate("check", GATE)
            stage.configure(CONFIG)
    assert stage.git("rev-parse", "sf/a1-try-it") == mine
    assert stage.git("show", "sf-a1-try-it:a.txt") == "two"


def test_a_file_that_cannot_be_deleted_is_parked_once_and_told(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say(), unit="A"), *PASSING)
    held: list[Path] = []

    def watch(event: Event) -> None:
        if event.name == events.PHASE_CHANGE and event.unit_id == SLICE and event.data["to"] == "merge":
            path = _workspace(stage) / ".git" / "held"
            path.write_text("held\n")
            if subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False).returncode == 0:
                held.append(path)

    stage.plan()
    stage.auto(watch=watch)
    if not held:
        pytest.skip("files cannot be made immutable here")
    (folder,) = stage.project.worktrees.iterdir()
    try:
        assert stage.unit(SLICE).succeeded and folder.name.startswith(".")
        assert stage.auto().ending == "done"
        assert any("cannot be removed" in str(event.data) for event in stage.named(events.WARNING))
        assert _parked(stage) == {}
    finally:
        for path in folder.rglob("held"):
            subprocess.run(["chattr", "-i", str(path)], check=True)


def test_a_revert_leaves_alone_what_another_clone_merged_under_the_same_name(stage: Stage) -> None:
    def work(place: Stage, name: str) -> None:
        place.script(
            plan_scene({"title": f"The {name}", "tasks": [task(name)]}),
            scene("execute", write(f"{name}.txt"), say()),
            scene("tdd", write(f"tests/{name}.txt"), say()),
            *PASSING,
        )
        place.plan(f"goal {name}")
        assert place.auto().ending == "done"

    work(stage, "theirs")
    shutil.rmtree(stage.project.dot)
    initialise(stage.root)
    stage.gate("check", GATE)
    stage.configure(CONFIG)
    work(stage, "mine")
    assert stage.sf("revert", SLICE, "--yes").returncode == 0
    assert (stage.root / "theirs.txt").exists() and not (stage.root / "mine.txt").exists()


@pytest.mark.parametrize("elsewhere", [["--detach"], ["-b", "experiment"]])
def test_commits_on_the_branch_that_is_not_checked_out_any_more_are_parked(
    waiting: Stage, elsewhere: list[str]
) -> None:
    folder = _workspace(waiting)
    (folder / "helper.txt").write_text("two hours of work\n")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", "careful")
    _git(folder, "checkout", "-q", *elsewhere, "HEAD~1")
    waiting.submit("abandon", unit_id="milestone/m1", reason="no")
    waiting.auto()
    assert "careful" in _subjects(waiting)


def test_what_was_fetched_inside_a_worktree_does_not_hide_what_was_made_there(waiting: Stage) -> None:
    remote, folder = waiting.root.parent / "remote", _workspace(waiting)
    remote.mkdir()
    _git(remote, "init", "-q", "-b", "one")
    for name in ("one", "two"):
        _git(remote, "checkout", "-q", "-B", name)
        _git(remote, "commit", "-q", "--allow-empty", "-m", name)
    _git(folder, "fetch", "-q", str(remote), "refs/heads/*:refs/remotes/origin/*")
    (folder / "a.txt").write_text("an idea\n")
    _git(folder, "stash", "push", "-q")
    waiting.submit("abandon", unit_id="milestone/m1", reason="no")
    waiting.auto()
    subjects = _subjects(waiting)
    assert any("WIP on" in subject for subject in subjects)
    assert not {"one", "two"} & set(subjects)


def test_a_tag_on_no_commit_is_set_aside_and_hides_nothing(waiting: Stage) -> None:
    folder = _workspace(waiting)
    (folder / "key.pub").write_text("a key\n")
    _git(folder, "tag", "signing-key", _git(folder, "hash-object", "-w", "key.pub"))
    (folder / "key.pub").unlink()
    waiting.submit("abandon", unit_id="milestone/m1", reason="no")
    waiting.auto()
    listed = waiting.sf("rescue", "list")
    assert listed.returncode == 0 and ".aside" in listed.stdout, listed.stderr
    assert _aside(waiting, "signing-key")


@pytest.mark.parametrize(
    "trick",
    [
        "mv .git/refs .git/old && ln -s /usr .git/refs",
        "cd .git/refs && python3 -c \"import os\nfor n in range(1100): os.mkdir('d'), os.chdir('d')\"",
    ],
    ids=["a link out", "very deep"],
)
def test_what_an_agent_puts_into_its_git_stops_nothing(stage: Stage, trick: str) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", call("bash", command=trick), write("a.txt"), say(), unit="A"),
        *PASSING,
    )
    stage.plan()
    began = time.monotonic()
    assert stage.auto().ending == "done"
    assert time.monotonic() - began < 30


def test_what_hooks_and_gates_leave_is_nobodys_work(stage: Stage) -> None:
    stage.workflow("short", SHORT)
    stage.gate("check", "#!/bin/sh\ngit init -q fixture && echo $$ > fixture/f.txt && date +%N > junit.xml\n")
    stage.hook("report", "#!/bin/sh\ndate +%s%N > report.txt\n")
    stage.configure(f'{CONFIG}[harness.hooks]\nafter_run = "./.sf/hooks/report.sh"\n')
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan(workflow="short", adhoc=True)
    assert stage.auto().ending == "done"
    assert _parked(stage) == {} and _aside(stage, "*") == []
    assert not [event for event in stage.named(events.WARNING) if "undone" in str(event.data)]


def test_a_disk_that_refuses_one_sync_throws_no_finished_run_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like a git that had no room, it gets a second try: the run was an internal error, and was repeated."""
    stage.workflow("short", SHORT)
    stage.hook("after", "#!/bin/sh\ndate +%s%N > formatted.txt\n")
    stage.configure(f'{CONFIG}[harness.hooks]\nafter_run = "./.sf/hooks/after.sh"\n')
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    unit = stage.plan(workflow="short", adhoc=True)
    sync_all = files.sync_all
    refused: list[Sequence[str]] = []

    def refuse_once(root: Path, paths: Sequence[str]) -> None:
        if "formatted.txt" in paths and not refused:
            refused.append(paths)
            raise OSError(errno.ENOSPC, "no room", str(root))
        sync_all(root, paths)

    monkeypatch.setattr(files, "sync_all", refuse_once)
    assert stage.auto().ending == "done" and refused
    made = runs.of_unit(stage.read, unit)
    assert [run.error_code for run in made] == [None] * len(made) and stage.unit(unit).succeeded


def test_a_slice_that_landed_with_its_milestone_is_reverted_whole(stage: Stage) -> None:
    stage.configure(SINGLE)
    wanted = call("submit_synthesis", verdict="request_changes", summary="more")
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), say(), unit="A"),
        scene("execute", write("fix.txt"), say(), unit="One"),
        scene("review_synthesis", wanted, unit="One", visits=[1]),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert (stage.root / "fix.txt").exists()
    assert stage.sf("revert", SLICE, "--yes").returncode == 0
    assert not (stage.root / "fix.txt").exists() and not (stage.root / "a.txt").exists()
