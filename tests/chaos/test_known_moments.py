"""Moments at which a kill once did harm, each met on purpose."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.chaos.ground import Blow, Ground
from tests.chaos.invariants import git
from tests.chaos.plays import UNIT
from tests.chaos.sweep import strike

MOMENTS = (
    Blow("a ref of sf's repository is locked", "kill-all", place=".git/refs/heads/sf/", calls=("rename",)),
    Blow("the same, git alone is killed", "kill-one", place=".git/refs/heads/sf/", calls=("rename",)),
    Blow("the base is locked while a unit is put away", "kill-one", place="packed-refs.lock", program="git"),
    Blow("a file of the agent is half written", "kill-all", place="/.sf-new-", calls=("renameat",)),
    Blow("the workspace link is not in its place", "kill-all", place="/.workspace.new", calls=("rename",)),
    Blow("sf's repository is half made", "kill-all", place="/objects/", calls=("link", "linkat", "mkdir")),
    Blow("the pack has arrived, the landing not begun", "kill-all", place="tmp_pack_", calls=("unlink",)),
    Blow("the guard of the pack bears no name yet", "kill-all", place=".keep", calls=("write",)),
    Blow("the same guard, git alone is killed", "kill-one", place=".keep", calls=("write",)),
    Blow(
        "git is killed before it wrote into the ref's lock",
        "kill-one",
        place="heads/main.lock",
        calls=("write",),
    ),
    Blow(
        "the worktree is gone, its index not",
        "kill-all",
        place="/task_a1-",
        calls=("unlink",),
        program="python",
        moment=7,
    ),
    Blow(
        "the worktree is gone, its branch not", "kill-all", place="git/logs/refs/heads/sf", calls=("unlink",)
    ),
    Blow(
        "git is killed before it locks the branch that is done with",
        "kill-one",
        place="refs/heads/sf/a1-make-it.lock",
        calls=("openat",),
        program="git update-ref",
        moment=3,
    ),
    Blow(
        "the ref's lock holds half of its value", "tear", place="heads/main.lock", calls=("write", "pwrite64")
    ),
    Blow(
        "the disk is full for the moment in which a branch goes",
        "fail",
        place="packed-refs.lock",
        calls=("openat",),
        program="git update-ref",
        moment=2,
    ),
    Blow(
        "the lock of the checkout cannot be read when it is given back",
        "fail",
        error="EMFILE",
        kind="descriptors",
        place="/project/.git/HEAD.lock",
        program="python",
        calls=("openat",),
    ),
    Blow(
        "the event loop gets no descriptor",
        "fail",
        error="EMFILE",
        kind="descriptors",
        program="python",
        calls=("epoll_create1",),
    ),
    *(
        Blow(
            f"the {name} of a worktree is not removed",
            "fail",
            place="/worktrees/task_a1-",
            program="python",
            calls=("unlink",),
            moment=moment,
        )
        for moment, name in enumerate(("mark", "note", "index"), 8)
    ),
    Blow("the index of the user is not installed", "kill-all", place="-index", calls=("rename",)),
)


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name.replace(" ", "-"))
def test_a_kill_at_a_known_moment_does_no_harm(tracer: None, ground: Ground, moment: Blow) -> None:
    report, problems = strike(ground, moment, moment.moment)
    assert report.acted, "the moment did not come"
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("call", ["write", "rename", "unlink"])
def test_a_branch_that_is_not_checked_out_is_moved_once(tracer: None, ground: Ground, call: str) -> None:
    git(ground.root, "switch", "-q", "-c", "elsewhere")
    place = "tmp_pack_" if call == "unlink" else "refs/heads/main.lock"
    ended, report = ground.traced(Blow("away", "kill-all", place=place, calls=(call,), program="git"), at=1)
    assert report.acted and ended.code == 137
    again = ground.sf("auto")
    assert again.code == 0, again.stdout + again.stderr
    subjects = git(ground.root, "log", "--first-parent", "--format=%s", "main").splitlines()
    assert subjects == [f"Merge {UNIT}: make it", "first"]
    assert git(ground.root, "status", "--porcelain") in ("", "?? .sf/")
    assert git(ground.root, "log", "--format=%s", "elsewhere") == "first"
    left = [*(ground.root / ".git").rglob("*.lock"), *(ground.root / ".git").rglob("*.keep")]
    assert not left


def test_a_git_that_is_killed_while_a_run_is_kept_is_asked_again(tracer: None, ground: Ground) -> None:
    blow = Blow("kept", "kill-one", place="/objects/", program="git commit-tree")
    ended, report = ground.traced(blow, at=1)
    assert report.acted and ended.code == 0, ended.stdout + ended.stderr
    with closing(sqlite3.connect(ground.project.database)) as connection:
        query = "SELECT id, tree FROM runs WHERE phase = 'execute' ORDER BY id"
        ((run, tree),) = connection.execute(query).fetchall()
    assert git(ground.project.repository, "rev-parse", f"refs/sf/runs/{run}^{{tree}}") == tree
