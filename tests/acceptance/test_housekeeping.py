"""Housekeeping from outside: sessions, start-up, room on the disk, doctor and clean."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sf.app import tidying
from sf.domain import events
from sf.domain.events import Event
from sf.domain.units import Status
from sf.errors import InvalidConfig
from sf.observe import disk
from sf.scheduler.lock import ProjectLock
from sf.store import attention, sessions, spending
from tests.support.stage import CONFIG, PASSING, SHORT, Stage, plan_scene, run_sf, say, scene, task, write

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


def pass_days(stage: Stage, days: int) -> None:
    """Have all that was done in the project so many days more behind it."""
    for table, column in (
        ("sessions", "updated_at"),
        ("intents", "applied_at"),
        ("attention", "closed_at"),
        ("runs", "started_at"),
        ("runs", "ended_at"),
    ):
        alter(stage, f"UPDATE {table} SET {column} = {column} - {days * 86_400_000}")


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


@pytest.mark.parametrize(("days", "sessions_in_all"), [(29, 1), (31, 2)])
def test_a_session_in_which_nothing_was_done_for_a_month_is_followed_by_another(
    stage: Stage, days: int, sessions_in_all: int
) -> None:
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    unit_id = stage.plan("it", adhoc=True, workflow="short")
    pass_days(stage, days)
    assert stage.auto().ending == "done"
    assert len(sessions.listed(stage.read)) == sessions_in_all
    assert stage.unit(unit_id).session_id == sessions.listed(stage.read)[-1]["id"]


def test_an_answer_given_after_a_month_belongs_to_the_session_that_asked(stage: Stage) -> None:
    scripted(stage, price={"input": 1000, "output": 1000})
    stage.configure(CONFIG + "[budget]\nsession_usd = 0.5\n")
    stage.plan()
    assert stage.auto().ending == "budget"
    pass_days(stage, 31)
    [question] = attention.waiting(stage.read)
    stage.submit("reply", question_id=question.id, answer="20000")
    assert stage.auto().ending == "done"
    assert len(sessions.listed(stage.read)) == 1


@pytest.mark.parametrize("forced", [False, True])
def test_open_work_keeps_its_branch_in_the_next_session_whatever_is_checked_out(
    stage: Stage, forced: bool
) -> None:
    scripted(stage)
    stage.git("branch", "old")
    stage.project.global_config.write_text(CONFIG + '[memory]\nmode = "off"\n')
    stage.project.config.write_text("")
    stage.git("add", ".sf")
    stage.commit("rules")
    stage.plan()
    stage.git("switch", "-q", "old")
    scripted(stage)
    if forced:
        assert stage.sf("session", "end", "--force").returncode == 0
    else:
        pass_days(stage, 31)
    assert stage.auto().ending == "done"
    first, second = sessions.listed(stage.read)
    assert first["integration_branch"] == second["integration_branch"] == "main"
    assert "a.txt" in stage.git("ls-tree", "--name-only", "main").split()
    assert stage.sf("session", "end").returncode == 0
    with pytest.raises(InvalidConfig, match="gate"):
        stage.auto()
    assert sessions.listed(stage.read)[-1]["integration_branch"] == "old", "no work is left for main"


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
    stage.sf("auto")
    assert stage.unit("milestone/m2").attempt > 0
    assert "nothing new is begun" not in stage.sf("status").stdout


def test_what_is_shared_by_hard_links_costs_the_repository_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "shared").hardlink_to(tmp_path / "a")
    empty, _ = disk.size(tmp_path / "own", own=True)
    counted, _ = disk.size(tmp_path / "own")
    assert counted - empty >= 100_000
    assert disk.size(tmp_path / "own", deadline=0)[1] is False


# --- clean ---


def age(stage: Stage, days: int) -> None:
    """Let everything that has ended have ended so long ago."""
    alter(stage, f"UPDATE units SET archived_at = archived_at - {days * 86_400_000}")


def alter(stage: Stage, statement: str) -> None:
    """Change rows behind sf's back."""
    connection = sqlite3.connect(stage.project.database)
    connection.execute(statement)
    connection.commit()
    connection.close()


def refs(stage: Stage, prefix: str) -> dict[str, str]:
    """The refs of sf's own repository."""
    done = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname) %(objectname)", prefix],
        cwd=stage.project.repository,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split() for line in done.stdout.splitlines())


def fsck(stage: Stage) -> None:
    done = subprocess.run(
        ["git", "fsck", "--no-dangling", "--connectivity-only"],
        cwd=stage.project.repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "missing" not in done.stdout
    assert "broken" not in done.stdout


def cleaned(stage: Stage, *flags: str) -> list[dict[str, Any]]:
    said = stage.sf("clean", "--json", *flags)
    assert said.returncode == 0, said.stdout + said.stderr
    found: list[dict[str, Any]] = json.loads(said.stdout)
    return found


def whole(stage: Stage) -> set[str]:
    """Every path below the project's state and sf's home, but for what any command may touch."""
    spared = ("sf.db", "run.lock", "sf.log", "facade", "exclude")
    return {
        str(path.relative_to(stage.root.parent))
        for top in (stage.project.dot, stage.home)
        for path in top.rglob("*")
        if not any(word in str(path) for word in spared)
    }


def test_clean_shows_first_and_then_does_exactly_that(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    assert stage.auto().ending == "done"
    old = stage.project.trace / "trace-2020-01-31.jsonl"
    old.write_text('{"_meta":true}\n')
    recent = [file for file in stage.project.trace.glob("trace-*.jsonl") if file != old]
    stranger = stage.project.worktrees / "stranger"
    stranger.mkdir()
    (stranger / "work.txt").write_text("nobody knows this\n")
    (stage.project.worktrees / "merge-XYZ").mkdir()
    before = whole(stage)
    shown = cleaned(stage, "--dry-run")
    assert whole(stage) == before
    done = cleaned(stage)
    assert [(step["what"], step["subject"]) for step in shown] == [
        (step["what"], step["subject"]) for step in done
    ]
    assert {step["what"] for step in done} >= {"archive trace", "park and remove", "remove leftover"}
    assert not old.exists()
    assert (stage.project.dot / "archive" / "trace" / old.name).exists()
    assert recent
    assert all(file.exists() for file in recent)
    assert list(stage.project.worktrees.iterdir()) == []
    parked = [ref for ref in refs(stage, "refs/sf/rescue/") if "stranger" in ref]
    assert parked
    content = subprocess.run(
        ["git", "show", f"{parked[0]}:work.txt"],
        cwd=stage.project.repository,
        capture_output=True,
        text=True,
        check=True,
    )
    assert content.stdout == "nobody knows this\n"
    fsck(stage)
    assert not [step for step in cleaned(stage) if step["what"] not in ("pack", "vacuum")]
    assert checks(stage)["leftovers"] == ("pass", "none")


def test_what_no_commit_can_hold_is_moved_out_of_the_worktrees_and_counted(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    assert stage.auto().ending == "done"
    among = stage.project.worktrees
    (among / "notes.txt").write_text("mine\n")
    (among / "link").symlink_to("/nowhere")
    subprocess.run(["git", "init", "-q", "inner/deeper"], cwd=among, check=True)
    (among / "inner/deeper/work.txt").write_text("not committed\n")
    subprocess.run(["git", "clone", "-q", stage.root, "clone"], cwd=among, check=True)
    (stage.root / "later.txt").write_text("later\n")
    subprocess.run(["git", "fetch", "-q", stage.root, f"{stage.commit('later')}:later"], cwd=among / "clone")
    stage.git("reset", "-q", "--hard", "HEAD~1")
    assert checks(stage)["leftovers"][0] == "warn"
    assert {step["what"] for step in cleaned(stage)} >= {"park and remove"}
    assert checks(stage)["leftovers"] == ("pass", "none")
    kept = json.loads(stage.sf("rescue", "list", "--json").stdout)["set_aside"]
    assert len(kept) == 4
    there = {path.name for folder in kept for path in Path(folder).rglob("*")}
    assert {"notes.txt", "link", "work.txt", "later"} <= there, "a clone is kept with its branches"
    assert "set aside" in stage.sf("status").stdout


def test_snapshots_go_only_when_their_unit_landed_long_ago(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    assert stage.auto().ending == "done"
    stage.script(scene("plan", say()), scene("execute", write("b.txt", "half\n"), say("stuck")), *PASSING)
    lost = stage.plan("never ends", adhoc=True)
    stage.auto()
    stage.submit("abandon", unit_id=lost, reason="enough")
    stage.auto()
    taken = refs(stage, "refs/sf/runs/")
    assert taken
    assert not [step for step in cleaned(stage, "--dry-run") if step["what"] == "forget snapshots of"]
    age(stage, 31)
    cleaned(stage)
    left = refs(stage, "refs/sf/runs/")
    rows = stage.read.all("SELECT id, unit_id_snap FROM runs")
    owners = {f"refs/sf/runs/{row['id']}": row["unit_id_snap"] for row in rows}
    assert {owners[name] for name in taken} - {owners[name] for name in left} == {T}
    assert {owners[name] for name in left} <= {lost}
    fsck(stage)


def test_snapshots_stay_when_the_branch_was_rewritten_without_the_work(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    base = stage.git("rev-parse", "HEAD")
    assert stage.auto().ending == "done"
    taken = refs(stage, "refs/sf/runs/")
    stage.git("reset", "-q", "--hard", base)
    age(stage, 31)
    cleaned(stage)
    assert refs(stage, "refs/sf/runs/") == taken


def test_a_worktree_left_of_an_ended_unit_is_parked_with_what_no_commit_has(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    for _ in range(3):
        stage.sf("next")
    folder = stage.project.worktrees / "slice_m1_s1"
    copied = stage.root.parent / "kept"
    shutil.copytree(folder, copied, symlinks=True)
    stage.submit("abandon", unit_id=M, reason="no")
    stage.auto()
    assert not folder.exists()
    shutil.copytree(copied, folder, symlinks=True)
    (folder / "late.txt").write_text("written by a person\n")
    steps = cleaned(stage)
    assert not folder.exists()
    note = next(step["note"] for step in steps if step["what"] == "remove worktree of slice/m1/s1")
    ref = note.rpartition(" ")[2]
    shown = subprocess.run(
        ["git", "show", f"{ref}:late.txt"],
        cwd=stage.project.repository,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "written by a person\n"


def test_a_worktree_whose_integration_branch_was_renamed_is_parked_with_its_commits(stage: Stage) -> None:
    scripted(stage)
    stage.plan()

    def meddle(event: Event) -> None:
        if event.name == events.UNIT_CLOSED and event.unit_id == T:
            stage.queue("abandon", unit_id=M, reason="no")
            stage.git("branch", "-m", "main", "trunk")
            shutil.copytree(folder, copied, symlinks=True)

    folder, copied = stage.project.worktrees / "slice_m1_s1", stage.root.parent / "kept"
    stage.auto(watch=meddle)
    if not folder.exists():
        copied.rename(folder)
    tip = refs(stage, "refs/heads/sf/m1-s1-s")["refs/heads/sf/m1-s1-s"]
    tidying.clean(stage.project)
    assert not folder.exists()
    assert set(refs(stage, "refs/sf/rescue/").values()) == {tip}, (
        "the commit itself, not files without history"
    )


def test_a_ref_of_no_unit_is_kept_under_another_name(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    assert stage.auto().ending == "done"
    tip = stage.git("rev-parse", "HEAD")
    commit = subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@x", "commit-tree", "-m", "x", f"{tip}^{{tree}}"],
        cwd=stage.project.repository,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for name, value in (("heads/sf/lost", commit), ("sf/runs/LOST", tip)):
        subprocess.run(["git", "update-ref", f"refs/{name}", value], cwd=stage.project.repository, check=True)
    assert checks(stage)["leftovers"][0] == "warn"
    cleaned(stage)
    assert commit in refs(stage, "refs/sf/rescue/").values()
    assert "refs/heads/sf/lost" not in refs(stage, "refs/heads/")
    assert "refs/sf/runs/LOST" not in refs(stage, "refs/sf/")
    assert checks(stage)["leftovers"][0] == "pass"


def test_the_archive_is_kept_for_ever_unless_told_otherwise(stage: Stage) -> None:
    old = stage.project.dot / "archive" / "2020-01-01-task_a1"
    old.mkdir(parents=True)
    (old / "plan.md").write_text("old\n")
    young = stage.project.dot / "archive" / "2999-01-01-task_a2"
    young.mkdir()
    assert not [step for step in cleaned(stage) if step["what"] == "remove archived"]
    stage.configure(CONFIG + '[housekeeping]\nkeep_archive = "365d"\n')
    trace = stage.project.dot / "archive" / "trace" / "trace-2020-01-01.jsonl"
    trace.parent.mkdir()
    trace.write_text("{}\n")
    cleaned(stage)
    assert not old.exists()
    assert young.exists()
    assert trace.exists(), "of an old day, but it was archived just now"


def test_clean_and_fix_wait_for_nobody_while_an_autopilot_runs(stage: Stage) -> None:
    with ProjectLock(stage.project.lock, "autopilot"):
        for command in (("clean",), ("doctor", "fix"), ("session", "end")):
            refused = stage.sf(*command)
            assert refused.returncode == 5, command
            assert "project_locked" in refused.stderr


# --- doctor ---


def test_doctor_fix_says_what_it_does_does_it_once_and_logs_it(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    alter(stage, "UPDATE units SET open_children = 3, phase_rank = 7")
    assert checks(stage)["units"][0] == "fail"
    shown = stage.sf("doctor", "fix", "--dry-run")
    assert shown.returncode == 0
    assert shown.stdout.count("would repair") == 2
    assert checks(stage)["units"][0] == "fail"
    fixed = stage.sf("doctor", "fix")
    assert fixed.stdout.replace("repaired  ", "would repair  ") == shown.stdout
    assert "open_children is 3" in stage.project.log_file("").read_text()
    assert checks(stage)["units"][0] == "pass"
    assert stage.sf("doctor", "fix").stdout == "nothing to repair\n"
    assert stage.auto().ending == "done"


def _landing(stage: Stage) -> None:
    journal = {"landing_id": "ab", "branch": "main", "old": "0" * 40, "new": "1" * 40, "step": "preparing"}
    (stage.project.facade / "landing.json").write_text(json.dumps(journal))
    (stage.root / ".git" / "HEAD.lock").write_text("ab\n")


def test_a_landing_that_was_cut_off_is_seen_and_ended_after_the_folder_was_moved(stage: Stage) -> None:
    stage.script(*PASSING)
    _landing(stage)
    moved = stage.root.rename(stage.root.with_name("renamed"))
    assert "FAIL  landing        interrupted" in run_sf(moved, stage.home, "doctor").stdout
    assert run_sf(moved, stage.home, "auto").returncode == 0
    assert not (moved / ".git" / "HEAD.lock").exists()


def _playbook(stage: Stage) -> None:
    (stage.project.dot / "playbooks" / "test.toml").unlink()


def _branch(stage: Stage) -> None:
    stage.git("branch", "-m", "main", "trunk")


def _repository(stage: Stage) -> None:
    for _ in range(3):
        stage.sf("next")
    shutil.rmtree(stage.project.repository)


def _hook(stage: Stage) -> None:
    stage.configure(CONFIG + '[harness.hooks]\nbefore_run = "./no/such.sh"\n')


def _hooks_of_lists(stage: Stage) -> None:
    hooks = 'pre_tool_use = ["./.sf/hooks/nope.sh"]\non_event.held = ["./.sf/hooks/gone.sh"]\n'
    stage.configure(f"{CONFIG}[harness.hooks]\n{hooks}")


def _interpreter(stage: Stage) -> None:
    stage.hook("post", "#!/no/such/thing\n")
    stage.configure(CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/post.sh"]\n')


def _run_bit(stage: Stage) -> None:
    stage.hook("after", "#!/bin/sh\n")
    (stage.project.dot / "hooks" / "after.sh").chmod(0o644)
    stage.configure(CONFIG + '[harness.hooks]\nafter_run = "./hooks/after.sh"\n')


def _filter(stage: Stage) -> None:
    stage.file(".gitattributes", "*.bin filter=lfs diff=lfs -text\n")
    stage.commit("attributes")


def _empty_database(stage: Stage) -> None:
    stage.project.database.write_bytes(b"")


def _foreign_database(stage: Stage) -> None:
    stage.project.database.unlink()
    alter(stage, "CREATE TABLE schema_migrations (version TEXT)")
    alter(stage, "INSERT INTO schema_migrations VALUES ('none of yours')")


def _other_program(stage: Stage) -> None:
    stage.project.database.unlink()
    alter(stage, "CREATE TABLE contacts (name TEXT)")


@pytest.mark.parametrize(
    ("damage", "name", "verdict", "words"),
    [
        (_landing, "landing", "fail", "HEAD.lock; sf auto ends it"),
        (_playbook, "models", "fail", "there is no playbook"),
        (_branch, "branches", "fail", "there is no branch 'main'"),
        (_repository, "work", "fail", "is gone, and with it the work of"),
        (_hook, "hooks", "fail", "there is no such file"),
        (_hooks_of_lists, "hooks", "fail", "nope.sh"),
        (_hooks_of_lists, "hooks", "fail", "gone.sh"),
        (_interpreter, "hooks", "fail", "/no/such/thing"),
        (_run_bit, "hooks", "fail", "has no run bit"),
        (_filter, "attributes", "warn", "filter=lfs"),
        (_empty_database, "database", "fail", "is empty"),
        (_foreign_database, "database", "fail", "another program"),
        (_other_program, "database", "fail", "another program"),
    ],
)
def test_doctor_finds(
    stage: Stage, damage: Callable[[Stage], None], name: str, verdict: str, words: str
) -> None:
    scripted(stage)
    stage.plan()
    assert {said for said, _ in checks(stage).values()} == {"pass"}
    damage(stage)
    found = checks(stage)
    assert found[name][0] == verdict, found
    assert words in found[name][1]


def test_doctor_tries_the_gates_on_a_fresh_checkout_as_a_merge_does_and_leaves_nothing(stage: Stage) -> None:
    scripted(stage)
    stage.file(".gitignore", "installed.txt\n")
    stage.commit("ignore")
    stage.file("installed.txt", "dep\n")
    stage.gate(
        "check", "#!/bin/sh\ncat >/dev/null\necho started\necho BUILT > notes.txt\ntest -f installed.txt\n"
    )
    stage.gate("second", "#!/bin/sh\ngrep -q hello notes.txt && ! test -e /tmp/escape\n")
    both = '["./.sf/gates/check.sh", "./.sf/gates/second.sh"]'
    config = CONFIG.replace('post_slice = ["./.sf/gates/check.sh"]', f"post_slice = {both}")
    stage.configure(config)
    assert stage.sf("doctor").returncode == 0
    before = sorted(path for path in stage.home.rglob("*") if "facade" not in path.parts)
    failed = stage.sf("doctor", "--gates")
    assert failed.returncode == 1
    assert "FAIL  gates as run   check fails on the code as it is: started" in failed.stdout
    assert "ok    gates as run   second passes on the code as it is" in failed.stdout
    assert failed.stdout.count("gates as run") == 2
    stage.configure(config + '[harness.hooks]\nafter_create = "touch installed.txt"\n')
    passed = stage.sf("doctor", "--gates")
    assert passed.returncode == 0, passed.stdout
    stage.configure(config + '[harness.hooks]\nafter_create = "ls nothing-here"\n')
    refused = stage.sf("doctor", "--gates")
    assert re.search(
        r"FAIL  after_create +after_create 'ls nothing-here' exited with 2 in the sandbox", refused.stdout
    )
    assert sorted(path for path in stage.home.rglob("*") if "facade" not in path.parts) == before
    assert stage.git("status", "--porcelain", "--", ".", ":!.sf") == ""


def test_doctor_looks_at_the_disk_of_sfs_home_too_and_names_what_is_full(stage: Stage) -> None:
    scripted(stage)
    verdict, detail = checks(stage)["disk"]
    assert verdict == "pass"
    assert f"free in {stage.project.dot}" in detail
    assert f"free in {stage.home}" in detail
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(stage.home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is refused")
    try:
        assert checks(stage)["disk"][0] == "warn"
        with contextlib.suppress(OSError):
            (stage.home / "filler").write_bytes(bytes(32 << 20))
        said = stage.sf("doctor").stdout
        assert re.search(rf"FAIL  disk .*no room at all in {stage.home}", said), said
        assert stage.sf("plan", "x").returncode == 0, "a goal is a row in the project"
        refused = stage.sf("auto").stderr
        assert re.search(rf"No space left on device: {stage.home}\S+ \[disk_unusable\]", refused), refused
    finally:
        subprocess.run(["umount", "-l", str(stage.home)], check=True)


@pytest.mark.parametrize("damage", [_empty_database, _foreign_database, _other_program])
def test_a_database_that_is_not_sfs_is_told_in_one_line_and_left_alone(
    stage: Stage, damage: Callable[[Stage], None]
) -> None:
    damage(stage)
    before = stage.project.database.read_bytes()
    for command in (["status"], ["auto"], ["plan", "x"], ["pause"], ["clean"], ["session", "list"]):
        said = stage.sf(*command)
        assert said.returncode != 0, command
        assert len(said.stderr.splitlines()) == 1, said.stderr
        assert "[store_unusable]" in said.stderr
    assert stage.project.database.read_bytes() == before
