"""Attacks on what lands that once succeeded: lost work, foreign scripts, changes that nobody reviewed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sf.domain import events
from sf.domain.events import Event
from tests.support.stage import (
    CONFIG,
    PASSING,
    SHORT,
    Scene,
    Stage,
    call,
    plan_scene,
    say,
    scene,
    task,
    write,
)

ONE = {"title": "S", "tasks": [task("T")]}
SLICE = "slice/m1/s1"
ASKS = scene(
    "reassess", call("submit_reassessment", outcome="escalate", explanation="?", questions=["which?"])
)
ADHOC_PLAN = scene(
    "plan", call("submit_plan", goal="g", approach="a", deliverables=["x"], verification=["y"])
)


def landed(stage: Stage) -> set[str]:
    return set(stage.git("ls-tree", "-r", "--name-only", "main").splitlines())


def once(phase: str, kind: str, act: Callable[[], object]) -> Callable[[Event], None]:
    """A watcher that acts when a unit of a type first comes to a phase."""
    done: list[bool] = []

    def seen(event: Event) -> None:
        moved = event.name == events.PHASE_CHANGE and event.data["to"] == phase
        if moved and event.data["type"] == kind and not done:
            done.append(True)
            act()

    return seen


def _until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not seen():
        assert time.monotonic() < deadline, "the moment did not come"
        time.sleep(0.01)


def _content(path: Path) -> bytes:
    """What a file holds now; git takes a file away before it writes the new one."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _start(stage: Stage) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "sf", "auto"],
        cwd=stage.root,
        env={**os.environ, "SF_HOME": str(stage.home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("owner", [SLICE, "task/a1"])
def test_work_whose_worktree_vanished_is_brought_back_or_done_again(
    stage: Stage, owner: str, kept: bool
) -> None:
    """`kept`: the snapshot of the run that wrote it is still there."""
    adhoc = owner == "task/a1"
    stage.script(
        ADHOC_PLAN if adhoc else plan_scene(ONE),
        scene("execute", write("a.txt", "the work\n"), say(), visits=[1]),
        scene("execute", write("a.txt", "done again\n"), say()),
        *PASSING,
    )
    stage.plan(adhoc=adhoc)

    def vanish() -> None:
        shutil.rmtree(str(stage.unit(owner).workspace))
        where = ["git", f"--git-dir={stage.project.repository}"]
        listed = [*where, "for-each-ref", "--format=delete %(refname)", "refs/sf/runs"]
        if not kept:
            refs = subprocess.run(listed, capture_output=True, check=True).stdout
            subprocess.run([*where, "update-ref", "--stdin"], input=refs, check=True)

    assert stage.auto(watch=once("verify", "task", vanish)).ending == "done"
    assert (stage.root / "a.txt").read_text() == ("the work\n" if kept else "done again\n")


def test_files_that_vanished_from_a_worktree_are_not_landed_as_deletions(stage: Stage) -> None:
    """As a cleaner of old files does: the folder stays."""
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()))
    unit = stage.plan(adhoc=True, workflow="short")

    def clean() -> None:
        for path in Path(str(stage.unit(unit).workspace)).glob("*.txt"):
            path.unlink()

    stage.auto(watch=once("verify", "task", clean))
    assert landed(stage) == {"notes.txt", "a.txt"}


def test_a_conflict_with_rewritten_history_lands_once_it_is_resolved(stage: Stage) -> None:
    stage.file("notes.txt", "one\n")
    stage.commit("second")
    stage.script(
        plan_scene(ONE),
        scene("execute", write("notes.txt", "agent\n"), say(), unit="T"),
        scene("execute", write("notes.txt", "agent and user\n"), say(), unit="S"),
        *PASSING,
    )
    stage.plan()

    def rewrite() -> None:
        stage.git("reset", "-q", "--hard", "HEAD~1")
        stage.file("notes.txt", "user\n")
        stage.commit("rewritten")

    assert stage.auto(watch=once("review", "slice", rewrite)).ending == "done"
    assert (stage.root / "notes.txt").read_text() == "agent and user\n"
    assert "second" not in stage.git("log", "--format=%s").splitlines()


def test_markers_never_land_when_the_other_side_of_a_conflict_goes_away(stage: Stage) -> None:
    stage.file("x.txt", "one\n")
    stage.commit("second")
    stage.script(
        plan_scene(ONE),
        scene("execute", write("notes.txt", "agent\n"), say(), unit="T"),
        scene("execute", say(), unit="S"),
        ASKS,
        *PASSING,
    )
    stage.plan()
    texts = iter(("user\n", "hello\n"))

    def edit(event: Event) -> None:
        moved = event.name == events.PHASE_CHANGE and event.data["to"] == "review"
        text = next(texts, "") if moved and event.unit_id == SLICE else ""
        if text == "user\n":
            stage.git("reset", "-q", "--hard", "HEAD~1")
        if text:
            stage.file("notes.txt", text)
            stage.commit("an edit")

    stage.auto(watch=edit)
    assert "<<<<<<<" not in (stage.root / "notes.txt").read_text()


@pytest.mark.parametrize(
    "workflow",
    ["feature", "short"],
)
def test_markers_of_a_merge_that_a_kill_forgot_never_land(stage: Stage, workflow: str) -> None:
    """Killed between the conflict laid out in the worktree and the row that says so."""
    reached, go = stage.root.parent / "reached", stage.root.parent / "go"
    waiting = f"touch {reached}; while [ ! -e {go} ]; do sleep 0.02; done"
    stage.hook("meet", f'#!/bin/sh\n[ "$SF_PHASE" = merge ] || exit 0\n{waiting}\n')
    stage.configure(CONFIG + '\n[harness.hooks]\nbefore_run = "./.sf/hooks/meet.sh"\n')
    stage.workflow("short", SHORT)
    stage.script(ADHOC_PLAN, scene("execute", write("notes.txt", "agent\n"), say()), ASKS, *PASSING)
    unit = stage.plan(workflow=workflow, adhoc=True)
    live = _start(stage)
    try:
        _until(reached.exists)
        stage.file("notes.txt", "user\n")
        stage.commit("user")
        held = sqlite3.connect(stage.project.database, isolation_level=None)
        held.execute("BEGIN IMMEDIATE")
        go.touch()
        notes = Path(str(stage.unit(unit).workspace)) / "notes.txt"
        _until(lambda: b"<<<<<<<" in _content(notes))
        live.send_signal(signal.SIGKILL)
    finally:
        live.kill()
        live.wait()
    held.close()
    assert stage.unit(unit).merging is None, "the moment was missed"
    stage.file("notes.txt", "hello\n")
    stage.commit("taken back")
    stage.auto()
    assert "<<<<<<<" not in (stage.root / "notes.txt").read_text()


def _put(path: str, script: str) -> Scene:
    """The agent's scene that makes a script."""
    make = f"mkdir -p $(dirname {path}); printf '{script}' > {path}; chmod +x {path}; echo x > a.txt"
    return scene("execute", call("bash", command=make), say(), unit="one")


def _both(stage: Stage) -> None:
    """Two goals, one after the other: the second meets what the first has landed."""
    stage.workflow("short", SHORT)
    for goal in ("one", "two"):
        stage.plan(goal, adhoc=True, workflow="short")
        stage.auto()


def test_a_hook_of_sfs_folder_is_not_replaced_by_an_agents_file(stage: Stage) -> None:
    mark = stage.root.parent / "mark"
    stage.hook("setup", "#!/bin/sh\nexit 0\n")
    stage.configure(CONFIG + '\n[harness.hooks]\nbefore_run = "hooks/setup.sh"\n')
    stage.script(
        _put("hooks/setup.sh", f"#!/bin/sh\\ntouch {mark}\\n"), scene("execute", write("b.txt"), say())
    )
    _both(stage)
    assert {"hooks/setup.sh", "b.txt"} <= landed(stage)
    assert not mark.exists()


def test_a_script_that_a_hook_hands_to_an_interpreter_is_not_the_agents(stage: Stage) -> None:
    mark = stage.root.parent / "mark"
    stage.file("tools/setup.sh", "true\n")
    stage.commit("a script of the repository")
    stage.configure(CONFIG + '\n[harness.hooks]\nbefore_run = "sh tools/setup.sh"\n')
    stage.script(_put("tools/setup.sh", f"touch {mark}\\n"), scene("execute", write("b.txt"), say()))
    _both(stage)
    assert not mark.exists()


@pytest.mark.parametrize(
    "place",
    [
        ".sf/gates/check.sh",
        "gates/check.sh",
        "check.sh",
    ],
)
def test_a_gate_is_never_the_agents_to_change(stage: Stage, place: str) -> None:
    """In sf's own folder and named without it, or in the repository that the agent works on."""
    gate = (stage.project.dot / "gates/check.sh").read_text()
    name = place.removeprefix(".sf/")
    if name == place:
        stage.project.dot.joinpath("gates/check.sh").unlink()
        stage.file(name, gate).chmod(0o755)
        stage.commit("a gate of the repository")
    stage.configure(CONFIG.replace("./.sf/gates/check.sh", name))
    stage.script(
        _put(name, "#!/bin/sh\\nexit 0\\n"),
        scene("execute", write("b.txt", "BROKEN\n"), say(), unit="two"),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="?")),
    )
    _both(stage)
    assert "b.txt" not in landed(stage)
    if name == place:
        assert stage.git("show", f"main:{name}") == gate.strip()


def test_a_spike_keeps_its_branch_also_beside_a_branch_called_sf(stage: Stage) -> None:
    stage.git("branch", "sf")
    stage.script(ADHOC_PLAN, scene("execute", write("a.txt", "found\n"), say()), *PASSING)
    stage.plan("try it", workflow="spike", adhoc=True)
    assert stage.auto().ending == "done"
    made = set(stage.git("branch", "--format=%(refname:short)").split()) - {"main", "sf"}
    assert len(made) == 1
    assert stage.git("show", f"{made.pop()}:a.txt") == "found"


def test_a_spike_whose_worktree_vanished_keeps_its_branch(stage: Stage) -> None:
    stage.script(ADHOC_PLAN, scene("execute", write("a.txt", "found\n"), say()), *PASSING)
    unit = stage.plan("try it", workflow="spike", adhoc=True)
    gone = once("complete", "task", lambda: shutil.rmtree(str(stage.unit(unit).workspace)))
    assert stage.auto(watch=gone).ending == "done"
    made = set(stage.git("branch", "--format=%(refname:short)").split()) - {"main"}
    assert len(made) == 1


def test_what_is_never_merged_by_lines_lands_in_one_piece(stage: Stage) -> None:
    """Without a checkout git follows no attributes: halves of two lock files were landed as one."""
    lines = [f"line {number}\n" for number in range(30)]
    stage.file(".gitattributes", "*.lock binary\n")
    stage.file("dep.lock", "".join(lines))
    stage.commit("lock")
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("dep.lock", "".join([*lines, "agent\n"])), say()), *PASSING)
    stage.plan("one", workflow="short", adhoc=True)
    result = stage.auto(watch=stage.meanwhile("merge", "dep.lock", "".join(["user\n", *lines])))
    assert result.ending == "waiting", "a conflict that nobody resolves is a question"
    assert stage.git("show", "main:dep.lock") == "".join(["user\n", *lines]).strip()


@pytest.mark.parametrize("how", ["size", "everywhere", "beside"])
def test_markers_never_land_whatever_attributes_say(
    stage: Stage, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were longer than what was looked for, or nothing was shown of the file at all."""
    home = stage.root.parent / "somebody"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    file, line = {
        "size": (stage.root / ".gitattributes", "*.rst conflict-marker-size=32\n"),
        "everywhere": (home / ".config/git/attributes", "*.rst -diff\n"),
        "beside": (stage.root / ".git/info/attributes", "*.rst -diff\n"),
    }[how]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line)
    lines = [f"line {number}\n" for number in range(30)]
    stage.file("doc.rst", "".join(lines))
    stage.commit("doc")
    stage.workflow("short", SHORT)
    stage.script(
        scene("execute", write("doc.rst", "".join([*lines, "agent\n"])), say(), visits=[1]),
        scene("execute", write("more.txt", "nothing about the conflict\n"), say()),
        *PASSING,
    )
    stage.plan("one", workflow="short", adhoc=True)
    result = stage.auto(watch=stage.meanwhile("merge", "doc.rst", "".join([*lines, "user\n"])))
    assert result.ending == "waiting"
    assert "<<<" not in stage.git("show", "main:doc.rst")


def test_artifacts_that_cannot_be_archived_repeat_nothing_else(stage: Stage) -> None:
    heard = stage.root.parent / "heard"
    stage.hook("one", f"#!/bin/sh\ncat >> {heard}\n")
    stage.configure(CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/one.sh"]\n')
    stage.workflow("kept", 'name = "kept"\nphases = ["execute", "complete"]\nneeds_evidence = false\n')
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    unit = stage.plan("one", workflow="kept", adhoc=True)
    archive = stage.root / ".sf" / "archive"
    shutil.rmtree(archive, ignore_errors=True)
    archive.write_text("in the way")
    assert stage.auto().ending == "done"
    stage.git("branch", "-D", "sf/a1-one")
    assert stage.auto().ending == "done"
    [told] = [json.loads(line)["unit"] for line in heard.read_text().splitlines()]
    assert told["id"] == unit and "put_away" not in told["metadata"]
    assert "sf/a1-one" not in stage.git("branch", "--format=%(refname:short)")
    archive.unlink()
    stage.auto()
    assert [path.name.endswith("task_a1") for path in archive.iterdir()] == [True]


def test_a_worktree_that_cannot_be_removed_keeps_no_hook_from_being_told(stage: Stage) -> None:
    heard = stage.root.parent / "heard"
    stage.hook("one", f"#!/bin/sh\ncat >/dev/null\necho $SF_UNIT_ID >> {heard}\n")
    stage.configure(CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/one.sh"]\n')
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    unit = stage.plan("one", workflow="short", adhoc=True)
    folder = stage.project.worktrees / "task_a1"

    def watch(event: Event) -> None:
        if event.name == events.UNIT_CLOSED:
            subprocess.run(["chattr", "+i", str(folder)], check=True)

    try:
        assert stage.auto(watch=watch).ending == "done"
        assert heard.read_text().split() == [unit] and folder.exists()
    finally:
        subprocess.run(["chattr", "-i", str(folder)], check=True)
    assert stage.auto().ending == "done"
    assert heard.read_text().split() == [unit] and not folder.exists()
