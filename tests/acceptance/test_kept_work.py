"""What people and agents leave where sf works is kept, whatever becomes of the unit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sf.app.initialise import initialise
from sf.domain import events
from sf.domain.events import Event
from tests.support.stage import CONFIG, GATE, PASSING, Stage, call, plan_scene, say, scene, task, write

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


def test_what_a_person_changed_before_they_approved_is_parked_and_told(one: Stage) -> None:
    one.workflow("accepted", UAT)
    one.plan(workflow="accepted")
    assert one.auto().ending == "waiting"
    (_workspace(one) / "handmade.txt").write_text("by hand\n")
    one.submit("uat_approve", unit_id=SLICE)
    one.auto()
    assert one.unit(SLICE).succeeded
    assert [ref for ref, files in _parked(one).items() if "handmade.txt" in files]
    warned = [str(event.data["detail"]) for event in one.named(events.WARNING)]
    assert any("sf rescue list" in detail for detail in warned)


def test_what_was_committed_and_stashed_inside_a_worktree_is_parked(one: Stage) -> None:
    one.workflow("accepted", UAT)
    one.plan(workflow="accepted")
    assert one.auto().ending == "waiting"
    folder = _workspace(one)
    _git(folder, "switch", "-q", "-c", "try-one")
    (folder / "helper.txt").write_text("two hours of work\n")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", "careful")
    _git(folder, "switch", "-q", "-")
    (folder / "a.txt").write_text("an idea\n")
    _git(folder, "stash", "push", "-q")
    one.submit("abandon", unit_id="milestone/m1", reason="enough")
    one.auto()
    subjects = {_git(one.project.repository, "show", "-s", "--format=%s", ref) for ref in _parked(one)}
    assert "careful" in subjects and any("WIP on" in subject for subject in subjects)
    assert any("helper.txt" in files for files in _parked(one).values())


def test_a_git_inside_that_cannot_be_read_is_set_aside_whole(one: Stage) -> None:
    one.workflow("accepted", UAT)
    one.plan(workflow="accepted")
    assert one.auto().ending == "waiting"
    inner = _workspace(one) / ".git"
    _git(_workspace(one), "switch", "-q", "-c", "broken")
    (_workspace(one) / "b.txt").write_text("b\n")
    _git(_workspace(one), "add", "-A")
    _git(_workspace(one), "commit", "-q", "-m", "b")
    _git(_workspace(one), "switch", "-q", "-")
    blob = _git(_workspace(one), "rev-parse", "broken:b.txt")
    (inner / "objects" / blob[:2] / blob[2:]).unlink()
    one.submit("uat_approve", unit_id=SLICE)
    one.auto()
    assert one.unit(SLICE).succeeded
    assert _aside(one, "broken")


def test_an_agents_links_out_of_its_git_are_not_followed(one: Stage) -> None:
    other = one.root.parent / "other"
    other.mkdir()
    _git(other, "init", "-q")
    (other / "secret.txt").write_text("secret\n")
    _git(other, "add", "-A")
    _git(other, "commit", "-q", "-m", "secret")
    commit = _git(other, "rev-parse", "HEAD")
    one.workflow("accepted", UAT)
    one.plan(workflow="accepted")
    assert one.auto().ending == "waiting"
    inner = _workspace(one) / ".git"
    (inner / "objects/info/alternates").write_text(f"{other / '.git/objects'}\n")
    (inner / "objects" / commit[:2]).symlink_to(other / ".git/objects" / commit[:2])
    (inner / "refs/heads/mine").write_text(f"{commit}\n")
    one.submit("uat_approve", unit_id=SLICE)
    one.auto()
    assert one.unit(SLICE).succeeded
    assert not any("secret.txt" in files for files in _parked(one).values())


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


def test_work_is_parked_although_its_branch_was_renamed(one: Stage) -> None:
    one.workflow("accepted", UAT)
    one.plan(workflow="accepted")
    assert one.auto().ending == "waiting"
    one.git("branch", "-m", "main", "trunk")
    one.submit("abandon", unit_id="milestone/m1", reason="no")
    one.auto()
    assert not list(one.project.worktrees.iterdir())
    ((ref, files),) = _parked(one).items()
    assert "a.txt" in files and "first" in _git(one.project.repository, "log", "--format=%s", ref)


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
