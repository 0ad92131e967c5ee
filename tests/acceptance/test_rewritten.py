"""The user rewrites the branch while sf works: what they took away stays away, what came back is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sf.domain import events
from sf.domain.events import Event
from sf.domain.units import HoldKind
from sf.store import records
from tests.support.stage import CONFIG, PASSING, Stage, call, plan_scene, say, scene, task, write

ONE = {"title": "S", "tasks": [task("T")]}
SLICE = "slice/m1/s1"
NEEDS_FIX = "#!/bin/sh\n[ ! -f big.txt ] || [ -f fix.txt ]\n"


def landed(stage: Stage) -> set[str]:
    return set(stage.git("ls-tree", "-r", "--name-only", "main").splitlines())


def in_turn(*acts: tuple[str, Callable[[], object]]) -> Callable[[Event], None]:
    """A watcher that does one act after the other, each when the slice comes to its phase."""
    left = list(acts)

    def watch(event: Event) -> None:
        moved = event.name == events.PHASE_CHANGE and event.unit_id == SLICE
        if moved and left and event.data["to"] == left[0][0]:
            left.pop(0)[1]()

    return watch


def gated(stage: Stage, script: str, *scenes: dict[str, object]) -> None:
    """A goal of one slice whose merged tree must pass a gate."""
    stage.gate("needs-fix", script)
    stage.configure(CONFIG.replace("check.sh", "needs-fix.sh"))
    stage.script(plan_scene(ONE), *scenes, *PASSING)
    stage.plan()


def committed(stage: Stage, message: str, **content: str) -> Callable[[], object]:
    def commit() -> str:
        for name, text in content.items():
            stage.file(f"{name}.txt", text)
        return stage.commit(message)

    return commit


def test_what_the_user_takes_back_while_a_merge_is_mended_stays_away(stage: Stage) -> None:
    """A commit that was amended came back as a parent of the merge, and what it held with it."""
    gated(
        stage,
        NEEDS_FIX,
        scene("execute", write("notes.txt", "agent\n"), say(), unit="T"),
        scene("execute", write("fix.txt"), say(), unit="S"),
    )

    def amend() -> None:
        stage.git("rm", "-q", "secret.txt")
        stage.git("commit", "-q", "--amend", "-m", "without it")

    secret = committed(stage, "with a secret", big="big\n", secret="password\n")
    assert stage.auto(watch=in_turn(("merge", secret), ("execute", amend))).ending == "done"
    assert landed(stage) >= {"notes.txt", "big.txt", "fix.txt"} and "secret.txt" not in landed(stage)
    assert "with a secret" not in stage.git("log", "--format=%s").splitlines()


def test_a_commit_that_is_dropped_while_its_conflict_is_resolved_stays_away(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("notes.txt", "agent\n"), say(), unit="T"),
        scene("execute", write("notes.txt", "agent and user\n"), say(), unit="S"),
        *PASSING,
    )
    stage.plan()
    mine = committed(stage, "to be dropped", notes="user\n", dropped="mine\n")

    def drop() -> None:
        stage.git("reset", "-q", "--hard", "HEAD~1")

    assert stage.auto(watch=in_turn(("merge", mine), ("execute", drop))).ending == "waiting"
    held = stage.unit(SLICE)
    assert held.hold_kind is HoldKind.MERGE_CONFLICT
    # By a person, who knows what was dropped.
    (Path(str(held.workspace)) / "notes.txt").write_text("agent\n")
    stage.submit("merge_resolve", unit_id=SLICE)
    assert stage.auto().ending == "done"
    assert (stage.root / "notes.txt").read_text() == "agent\n"
    assert "dropped.txt" not in landed(stage)
    assert "to be dropped" not in stage.git("log", "--format=%s").splitlines()


def test_what_was_dropped_and_has_come_back_is_not_taken_away_again(stage: Stage) -> None:
    """It was in the history of the unit's branch but not in its tree: as if the unit had deleted it."""
    script = (
        "#!/bin/sh\nif [ -f big.txt ]; then [ -f fix.txt ]; else [ ! -f fix.txt ] || [ -f fix2.txt ]; fi\n"
    )
    gated(
        stage,
        script,
        scene("execute", write("notes.txt", "agent\n"), say(), unit="T"),
        scene("execute", write("fix.txt"), say(), unit="S", visits=[1]),
        scene("execute", write("fix2.txt"), say(), unit="S"),
    )

    def drop() -> None:
        stage.git("tag", "mine")
        stage.git("reset", "-q", "--hard", "HEAD~1")

    def bring_back() -> None:
        stage.git("reset", "-q", "--hard", "mine")

    acts = (("merge", committed(stage, "mine", big="big\n")), ("execute", drop), ("execute", bring_back))
    assert stage.auto(watch=in_turn(*acts)).ending == "done"
    assert landed(stage) >= {"notes.txt", "big.txt", "fix.txt", "fix2.txt"}
    assert stage.git("log", "--format=%s").splitlines() == [f"Merge {SLICE}: S", "mine", "first"]


def test_both_sides_of_an_amended_commit_stay_once_the_user_has_merged_them(stage: Stage) -> None:
    """As `git pull` does after a commit was amended that had been pushed."""
    stage.file("one.txt", "1\n")
    base = stage.commit("one")
    gated(
        stage,
        "#!/bin/sh\n[ ! -f two.txt ] || [ -f fix.txt ]\n",
        scene("execute", write("notes.txt", "agent\n"), say(), unit="T"),
        scene("execute", write("fix.txt"), say(), unit="S"),
    )

    def amend() -> None:
        stage.git("mv", "one.txt", "two.txt")
        stage.git("commit", "-q", "--amend", "-m", "two")

    def pull() -> None:
        stage.git("merge", "-q", "-s", "ours", "--no-commit", base)
        stage.file("one.txt", "1\n")
        stage.commit("both after all")

    assert stage.auto(watch=in_turn(("merge", amend), ("execute", pull))).ending == "done"
    assert landed(stage) >= {"notes.txt", "one.txt", "two.txt", "fix.txt"}


def test_work_that_a_dropped_commit_had_as_well_still_lands(stage: Stage) -> None:
    """Beside that commit the unit had done nothing, so nothing of it was merged, as a success."""
    gated(
        stage,
        NEEDS_FIX,
        scene("execute", write("notes.txt", "agent\n"), write("more.txt", "more\n"), say(), unit="T"),
        scene("execute", write("fix.txt"), say(), unit="S"),
    )
    same = committed(stage, "the same", notes="agent\n", more="more\n", big="big\n")

    def drop() -> None:
        stage.git("reset", "-q", "--hard", "HEAD~1")

    assert stage.auto(watch=in_turn(("merge", same), ("execute", drop))).ending == "done"
    assert landed(stage) >= {"notes.txt", "more.txt", "fix.txt"} and "big.txt" not in landed(stage)
    assert stage.git("show", "main:notes.txt") == "agent"


def test_a_line_that_was_dropped_does_not_come_back_by_the_order_of_a_union(stage: Stage) -> None:
    """What was laid out was merged again the other way round; the difference passed for the unit's."""
    stage.file(".gitattributes", "log.txt merge=union\n")
    stage.file("log.txt", "# log\n")
    stage.commit("base")
    gated(
        stage,
        NEEDS_FIX,
        scene("execute", write("log.txt", "# log\nthe unit's\n"), say(), unit="T"),
        scene("execute", write("fix.txt"), say(), unit="S"),
    )
    mine = committed(stage, "mine", log="# log\nthe user's\n", big="big\n")

    def drop() -> None:
        stage.git("reset", "-q", "--hard", "HEAD~1")

    assert stage.auto(watch=in_turn(("merge", mine), ("execute", drop))).ending == "done"
    assert stage.git("show", "main:log.txt").splitlines() == ["# log", "the unit's"]


def test_what_is_shared_with_a_commit_that_was_amended_twice_still_lands(stage: Stage) -> None:
    script = (
        "#!/bin/sh\n{ [ ! -f big.txt ] || [ -f fix.txt ]; } && { [ ! -f big2.txt ] || [ -f fix2.txt ]; }\n"
    )
    gated(
        stage,
        script,
        scene("execute", write("notes.txt", "agent\n"), write("more.txt", "more\n"), say(), unit="T"),
        scene("execute", write("fix.txt"), say(), unit="S", visits=[1]),
        scene("execute", write("fix2.txt"), say(), unit="S"),
    )

    def amend(name: str) -> Callable[[], object]:
        def do() -> None:
            stage.file(f"{name}.txt", "big\n")
            stage.git("add", f"{name}.txt")
            stage.git("commit", "-q", "--amend", "-m", name)

        return do

    def take_back() -> None:
        stage.git("rm", "-q", "more.txt")
        stage.git("commit", "-q", "--amend", "-m", "without")

    same = committed(stage, "the same", more="more\n", big="big\n")
    acts = (("merge", same), ("merge", amend("big2")), ("execute", take_back))
    assert stage.auto(watch=in_turn(*acts)).ending == "done"
    assert landed(stage) >= {"notes.txt", "more.txt", "fix.txt", "fix2.txt", "big.txt", "big2.txt"}


def test_work_that_an_amended_commit_had_as_well_lands_though_its_conflict_was_resolved(stage: Stage) -> None:
    """Beside that commit it was no work of the unit's, so it was taken away with the commit, as a success."""
    stage.script(
        plan_scene(ONE),
        scene("execute", write("notes.txt", "agent\n"), write("more.txt", "more\n"), say(), unit="T"),
        scene("execute", write("notes.txt", "agent and user\n"), say(), unit="S"),
        *PASSING,
    )
    stage.plan()
    mine = committed(stage, "mine", notes="user\n", more="more\n", secret="password\n")

    def amend() -> None:
        stage.git("rm", "-q", "more.txt", "secret.txt")
        stage.git("commit", "-q", "--amend", "-m", "without")

    assert stage.auto(watch=in_turn(("merge", mine), ("execute", amend))).ending == "done"
    assert stage.git("show", "main:notes.txt") == "agent and user"
    assert "more.txt" in landed(stage) and "secret.txt" not in landed(stage)


def test_work_that_an_amended_commit_had_as_well_lands_though_a_mended_file_was_amended(stage: Stage) -> None:
    """The conflict was in one file, and what was laid out for it had lost another."""
    gated(
        stage,
        "#!/bin/sh\n[ ! -f big.txt ] || grep -q fixed big.txt\n",
        scene("execute", write("notes.txt", "agent\n"), write("more.txt", "more\n"), say(), unit="T"),
        scene("execute", write("big.txt", "big, fixed\n"), say(), unit="S", visits=[1]),
        scene("execute", write("big.txt", "great, fixed\n"), say(), unit="S"),
    )
    mine = committed(stage, "mine", more="more\n", big="big\n")

    def amend() -> None:
        stage.git("rm", "-q", "more.txt")
        stage.file("big.txt", "great\n")
        stage.git("commit", "-q", "-a", "--amend", "-m", "without")

    assert stage.auto(watch=in_turn(("merge", mine), ("execute", amend))).ending == "done"
    assert stage.git("show", "main:big.txt") == "great, fixed"
    assert landed(stage) >= {"notes.txt", "more.txt"}


def test_a_file_of_the_units_that_an_amended_commit_has_otherwise_by_now_is_a_conflict(stage: Stage) -> None:
    """The commit had it just as the unit; beside that the unit had done nothing, and its file was lost."""
    gated(
        stage,
        NEEDS_FIX,
        scene("execute", write("more.txt", "more\n"), say(), unit="T"),
        scene("execute", write("fix.txt"), say(), unit="S", visits=[1]),
        scene("execute", write("more.txt", "more and other\n"), say(), unit="S"),
    )

    def amend() -> None:
        stage.file("more.txt", "other\n")
        stage.git("commit", "-q", "-a", "--amend", "-m", "otherwise")

    mine = committed(stage, "mine", more="more\n", big="big\n")
    assert stage.auto(watch=in_turn(("merge", mine), ("execute", amend))).ending == "done"
    assert len(stage.named(events.MERGE_CONFLICT)) == 1
    assert stage.git("show", "main:more.txt") == "more and other"
    assert "fix.txt" in landed(stage)


def test_a_file_of_the_units_that_an_amended_commit_has_renamed_by_now_is_a_conflict(stage: Stage) -> None:
    """Its two sides lie at two paths: of either, one side had done nothing."""
    lines = [f"{number}\n" for number in range(20)]
    stage.file("old.txt", "".join(lines))
    stage.commit("base")
    both = "".join([*lines[:9], "both\n", *lines[10:]])
    gated(
        stage,
        NEEDS_FIX,
        scene("execute", write("old.txt", both.replace("both", "agent")), say(), unit="T"),
        scene("execute", write("fix.txt"), say(), unit="S", visits=[1]),
        scene("execute", write("new.txt", both), say(), unit="S"),
    )

    def amend() -> None:
        stage.git("mv", "old.txt", "new.txt")
        stage.file("new.txt", both.replace("both", "user"))
        stage.git("commit", "-q", "-a", "--amend", "-m", "renamed")

    acts = (("merge", committed(stage, "mine", big="big\n")), ("execute", amend))
    assert stage.auto(watch=in_turn(*acts)).ending == "done"
    assert len(stage.named(events.MERGE_CONFLICT)) == 1
    assert stage.git("show", "main:new.txt") == both.strip() and "old.txt" not in landed(stage)
    assert landed(stage) >= {"fix.txt", "big.txt"}


def test_what_resolved_a_conflict_lands_though_its_file_was_renamed_for_a_gate_since(stage: Stage) -> None:
    """The renamed file was merged from the head's, in which the unit's lines were not: they were lost."""
    lines = [f"a line that tells where this file has gone: {number}\n" for number in range(20)]
    said = ["".join([*lines[:9], f"{words}\n", *lines[10:]]) for words in ("agent", "user", "agent and user")]
    stage.file("old.txt", "".join(lines))
    stage.commit("base")
    gated(
        stage,
        "#!/bin/sh\n[ ! -f big.txt ] || [ -f new.txt ]\n",
        scene("execute", write("old.txt", said[0]), say(), unit="T"),
        scene("execute", write("old.txt", said[2]), say(), unit="S", visits=[1]),
        scene("execute", call("bash", command="mv old.txt new.txt"), say(), unit="S"),
    )

    def mine() -> None:
        stage.file("old.txt", said[1])
        stage.file("secret.txt", "password\n")
        stage.commit("mine")

    def amend() -> None:
        stage.git("reset", "-q", "--soft", "HEAD~2")
        stage.git("rm", "-q", "--cached", "secret.txt")
        (stage.root / "secret.txt").unlink()
        stage.commit("mine, without it")

    acts = (("merge", mine), ("merge", committed(stage, "big", big="big\n")), ("execute", amend))
    assert stage.auto(watch=in_turn(*acts)).ending == "done"
    assert stage.git("show", "main:new.txt") == said[2].strip()
    assert landed(stage) >= {"big.txt"} and not landed(stage) & {"secret.txt", "old.txt"}


_DIES_AS_IT_HAS_LANDED = """
import os, signal, sys
from sf.scheduler import merging
async def dies(*_): os.kill(os.getpid(), signal.SIGKILL)
merging._record_landing = dies
from sf.surfaces.cli.main import run
sys.exit(run(["auto"]))
"""


@pytest.mark.parametrize("rewritten", [True, False])
def test_what_landed_before_a_kill_and_was_reverted_since_does_not_land_again(
    stage: Stage, rewritten: bool
) -> None:
    stage.file("base.txt", "base\n")
    stage.commit("base")
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say(), unit="T"), *PASSING)
    stage.plan()
    paused = stage.auto(watch=in_turn(("review", lambda: stage.queue("pause", reason="look"))))
    assert paused.ending == "paused"
    if rewritten:
        stage.git("commit", "-q", "--amend", "-m", "base in other words")
    stage.submit("resume")
    env = {**os.environ, "SF_HOME": str(stage.home)}
    killed = subprocess.run([sys.executable, "-c", _DIES_AS_IT_HAS_LANDED], cwd=stage.root, env=env)
    assert killed.returncode == -9 and "a.txt" in landed(stage)
    stage.git("revert", "--no-edit", *([] if rewritten else ["-m", "1"]), "HEAD")
    assert stage.auto().ending == "done"
    assert "a.txt" not in landed(stage) and stage.unit(SLICE).completed
    subjects = stage.git("log", "--format=%s", "--first-parent").splitlines()
    assert subjects[:2] == [f'Revert "Merge {SLICE}: S"', f"Merge {SLICE}: S"]
    left = stage.git("--git-dir", str(stage.project.repository), "for-each-ref", "refs/sf/landing")
    assert not left


def killed_as_it_has_landed(stage: Stage, script: str = _DIES_AS_IT_HAS_LANDED) -> str:
    """Run the autopilot until it is killed between a landing and its record; the commit that landed."""
    env = {**os.environ, "SF_HOME": str(stage.home)}
    killed = subprocess.run([sys.executable, "-c", script], cwd=stage.root, env=env)
    assert killed.returncode == -9 and "a.txt" in landed(stage)
    return stage.git("rev-parse", "main")


def landing_of_one_file(stage: Stage) -> None:
    stage.file("base.txt", "base\n")
    stage.commit("base")
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say(), unit="T"), *PASSING)
    stage.plan()


def amend_landing(stage: Stage) -> None:
    stage.file("a.txt", "text, amended\n")
    stage.git("commit", "-q", "-a", "--amend", "-m", "in other words")


def squash_landing(stage: Stage) -> None:
    """Into the user's own commit before it; no trailer is left."""
    stage.git("reset", "-q", "--soft", "HEAD~2")
    stage.commit("base and all")


def squash_landing_otherwise(stage: Stage) -> None:
    stage.git("reset", "-q", "--soft", "HEAD~2")
    stage.file("a.txt", "text of mine\n")
    stage.commit("base and all")


def flatten_landing(stage: Stage) -> None:
    stage.git("switch", "-q", "-c", "theirs", "main~1")
    stage.file("theirs.txt", "theirs\n")
    stage.commit("theirs")
    stage.git("switch", "-q", "main")
    stage.git("rebase", "-q", "theirs")
    assert "a.txt" in landed(stage) and not stage.git("log", "--merges", "--format=%s")


def drop_landing(stage: Stage) -> None:
    stage.git("reset", "-q", "--hard", "HEAD~1")


def drop_landing_and_go_on(stage: Stage) -> None:
    drop_landing(stage)
    stage.file("a.txt", "mine\n")
    stage.commit("mine")


@pytest.mark.parametrize(
    "rewrite",
    [
        amend_landing,
        squash_landing,
        squash_landing_otherwise,
        flatten_landing,
        drop_landing,
        drop_landing_and_go_on,
    ],
)
def test_what_landed_before_a_kill_and_was_rewritten_since_does_not_land_again(
    stage: Stage, rewrite: Callable[[Stage], None]
) -> None:
    """As a landing that is on record: what the user made of it is theirs, and its commit can be named."""
    landing_of_one_file(stage)
    commit = killed_as_it_has_landed(stage)
    rewrite(stage)
    mine = stage.git("rev-parse", "main")
    assert stage.auto().ending == "done" and stage.unit(SLICE).completed
    assert stage.git("rev-parse", "main") == mine and not stage.named(events.MERGE_CONFLICT)
    (row,) = [row for row in records.evidence(stage.read, SLICE) if row["kind"] == "merge"]
    is_merge = bool(stage.git("log", "--merges", "--format=%s"))
    assert row["commit_id"] == (mine if is_merge else commit)
    told = [str(event.data["detail"]) for event in stage.named(events.WARNING)]
    assert is_merge or any(commit[:12] in detail and "was rewritten" in detail for detail in told)
    assert not stage.git("--git-dir", str(stage.project.repository), "for-each-ref", "refs/sf/landing")


def test_a_replay_that_landed_before_a_kill_and_was_amended_since_does_not_land_again(stage: Stage) -> None:
    landing_of_one_file(stage)
    paused = stage.auto(watch=in_turn(("review", lambda: stage.queue("pause", reason="look"))))
    assert paused.ending == "paused"
    stage.git("commit", "-q", "--amend", "-m", "base in other words")
    stage.submit("resume")
    killed_as_it_has_landed(stage)
    amend_landing(stage)
    mine = stage.git("rev-parse", "main")
    assert stage.auto().ending == "done" and stage.unit(SLICE).completed
    assert stage.git("rev-parse", "main") == mine


_DIES_WITH_ITS_LOCKS = """
import os, signal, sys
from sf.workspaces._journal import Desk
def dies(*_): os.kill(os.getpid(), signal.SIGKILL)
Desk.install_index = dies
from sf.surfaces.cli.main import run
sys.exit(run(["auto"]))
"""


def test_what_landed_as_it_was_killed_does_not_land_again_though_the_user_took_its_locks_away(
    stage: Stage,
) -> None:
    """Its journal cannot tell: the branch has moved on without the commit."""
    landing_of_one_file(stage)
    killed_as_it_has_landed(stage, _DIES_WITH_ITS_LOCKS)
    for name in ("HEAD.lock", "index.lock"):
        (stage.root / ".git" / name).unlink()
    stage.git("reset", "-q", "--hard")
    squash_landing(stage)
    mine = stage.git("rev-parse", "main")
    assert stage.auto().ending == "done" and stage.unit(SLICE).completed
    assert stage.git("rev-parse", "main") == mine


_DIES_BEFORE_IT_LANDS = """
import os, signal, sys
from sf.workspaces._landing import Landing
async def dies(*_): os.kill(os.getpid(), signal.SIGKILL)
Landing._move_files = dies
from sf.surfaces.cli.main import run
sys.exit(run(["auto"]))
"""


def test_what_was_killed_before_it_landed_lands_though_the_branch_was_rewritten_since(stage: Stage) -> None:
    landing_of_one_file(stage)
    env = {**os.environ, "SF_HOME": str(stage.home)}
    killed = subprocess.run([sys.executable, "-c", _DIES_BEFORE_IT_LANDS], cwd=stage.root, env=env)
    assert killed.returncode == -9 and "a.txt" not in landed(stage)
    for name in ("HEAD.lock", "index.lock"):
        (stage.root / ".git" / name).unlink()
    stage.git("reset", "-q", "--hard")
    stage.git("commit", "-q", "--amend", "-m", "base in other words")
    assert stage.auto().ending == "done"
    assert "a.txt" in landed(stage)


@pytest.mark.parametrize("is_there", [True, False])
def test_what_landed_before_a_kill_was_rewritten_and_called_off_counts_as_merged_where_it_is_there(
    stage: Stage, is_there: bool
) -> None:
    landing_of_one_file(stage)
    killed_as_it_has_landed(stage)
    (squash_landing if is_there else drop_landing)(stage)
    stage.submit("abandon", unit_id=SLICE, reason="we do not want that")
    stage.auto()
    assert stage.unit(SLICE).succeeded == is_there
    assert "a.txt" in landed(stage) if is_there else "a.txt" not in landed(stage)
