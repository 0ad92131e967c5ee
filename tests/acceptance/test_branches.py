"""A person switches branches, stashes and cleans in their checkout meanwhile: sf's rules and state stay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sf.domain import events
from sf.domain.events import Event
from sf.domain.units import HoldKind
from sf.review import places
from sf.store import records
from sf.workspaces.repository import UserRepository
from tests.support.stage import CONFIG, GATE, PASSING, SHORT, Stage, plan_scene, say, scene, task, write


def scripted(stage: Stage, content: str = "fine\n") -> None:
    stage.script(
        plan_scene({"title": "S", "tasks": [task("T")]}),
        scene("execute", write("a.txt", content), say()),
        *PASSING,
    )


def once(to: str, act: Callable[[], object]) -> Callable[[Event], None]:
    """Act when the first unit comes to a phase."""
    left = [act]

    def watch(event: Event) -> None:
        if event.name == events.PHASE_CHANGE and event.data["to"] == to and left:
            left.pop()()

    return watch


def commit_rules(stage: Stage) -> None:
    """The gates are the repository's, the models the user's own."""
    stage.project.global_config.write_text(CONFIG)
    stage.project.config.write_text("")
    stage.git("add", ".sf")
    stage.commit("rules")


def test_the_gates_of_the_branch_that_is_landed_on_decide(stage: Stage) -> None:
    scripted(stage, "x BROKEN x\n")
    stage.gate("check", "#!/bin/sh\nexit 0\n")
    commit_rules(stage)
    stage.git("branch", "old")
    stage.gate("lib", "text=BROKEN\n")
    stage.gate("check", GATE.replace("#!/bin/sh", '#!/bin/sh\n. "$(dirname "$0")/lib.sh"'))
    stage.git("add", ".sf")
    stage.commit("stricter")
    stage.plan()
    result = stage.auto(watch=once("verify", lambda: stage.git("switch", "-q", "old")))
    assert result.ending == "waiting"
    assert "something is BROKEN" in stage.sf("why", "task/m1/s1/t1").stdout
    assert "a.txt" not in stage.git("ls-tree", "--name-only", "main").split()


def test_a_gate_that_was_one_branchs_at_its_start_and_anothers_at_its_end_is_run_again(stage: Stage) -> None:
    scripted(stage, "x BROKEN x\n")
    slow = '#!/bin/sh\nsleep 1\n. "$(dirname "$0")/lib.sh"\n'
    stage.gate("check", slow)
    stage.gate("lib", "exit 0\n")
    commit_rules(stage)
    stage.git("branch", "old")
    stage.gate("lib", "! grep -rn BROKEN . --include='*.txt'\n")
    stage.git("add", ".sf")
    stage.commit("stricter")
    stage.plan()
    switch = threading.Timer(0.6, lambda: stage.git("switch", "-q", "old"))
    stage.auto(watch=once("verify", switch.start))
    switch.join()
    assert {row["passed"] for row in records.gate_results(stage.read, "task/m1/s1/t1")} == {0}
    assert "a.txt" not in stage.git("ls-tree", "--name-only", "main").split()
    assert "it is run again" in (stage.project.dot / "log" / "sf.log").read_text()


def until(path: Path) -> None:
    """Wait until a file is there, but not for ever."""
    end = time.monotonic() + 20
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)


@pytest.mark.parametrize("back", [False, True])
def test_what_another_branch_adds_beside_a_gate_while_it_runs_is_not_the_gates(
    stage: Stage, back: bool
) -> None:
    scripted(stage, "x BROKEN x\n")
    allowed = """#!/bin/sh
    dot="$SF_PROJECT_ROOT/.sf"
    if ! test -e "$dot/begun"; then
        touch "$dot/begun"
        until test -e "$(dirname "$0")/allow"; do sleep 0.02; done
        touch "$dot/seen"
        until test -e "$dot/switched"; do sleep 0.02; done
        exit 0
    fi
    """
    stage.gate("check", GATE.replace("#!/bin/sh\n", allowed))
    commit_rules(stage)
    own = stage.project.global_config
    own.write_text(own.read_text() + '[sandbox]\nprofile = "off"\ngate_profile = "off"\n')
    stage.git("switch", "-q", "-c", "lax")
    stage.file(".sf/gates/allow", "all\n")
    stage.git("add", ".sf")
    stage.commit("lax")
    stage.git("switch", "-q", "main")
    stage.plan()

    def switch() -> None:
        until(stage.project.dot / "begun")
        stage.git("switch", "-q", "lax")
        until(stage.project.dot / "seen")
        if back:
            stage.git("switch", "-q", "main")
        (stage.project.dot / "switched").touch()

    waiting = threading.Thread(target=switch)
    waiting.start()
    stage.auto()
    waiting.join()
    assert {row["passed"] for row in records.gate_results(stage.read, "task/m1/s1/t1")} == {0}
    assert "it is run again" in (stage.project.dot / "log" / "sf.log").read_text()


def test_a_switch_while_a_gate_is_looked_at_brings_no_other_branchs_gate(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.script(scene("execute", write("a.txt", "x BROKEN x\n"), say()), *PASSING)
    stage.gate("check", "#!/bin/sh\nexit 0\n")
    commit_rules(stage)
    stage.git("branch", "old")
    stage.gate("check", GATE)
    stage.git("add", ".sf")
    stage.commit("stricter")
    stage.workflow("short", SHORT)
    unit = stage.plan(adhoc=True, workflow="short")
    listed, left = UserRepository.tracked_files, ["old"]

    async def switched(user: UserRepository) -> list[str]:
        if left and stage.unit(unit).phase == "verify":
            stage.git("switch", "-q", left.pop())
        return await listed(user)

    monkeypatch.setattr(UserRepository, "tracked_files", switched)
    assert stage.auto().ending == "waiting"
    assert not left
    assert {row["passed"] for row in records.gate_results(stage.read, unit)} == {0}


def test_what_is_edited_beside_a_gate_on_its_own_branch_is_that_branchs(stage: Stage) -> None:
    """Who works in their checkout all day must not keep every gate from ever being believed."""
    scripted(stage)
    stage.gate("check", '#!/bin/sh\nsleep 1\n. "$(dirname "$0")/lib.sh"\n')
    stage.gate("lib", "exit 0\n")
    commit_rules(stage)
    stage.plan()

    def change() -> None:
        stage.gate("lib", "exit 0 # the same\n")
        stage.gate("new", "exit 1\n")

    edit = threading.Timer(0.6, change)
    assert stage.auto(watch=once("verify", edit.start)).ending == "waiting", (
        "the edit is in the landing's way"
    )
    edit.join()
    assert [row["passed"] for row in records.gate_results(stage.read, "task/m1/s1/t1")] == [1]
    assert "it is run again" not in (stage.project.dot / "log" / "sf.log").read_text()


def test_work_goes_on_while_a_branch_without_gates_is_checked_out(stage: Stage) -> None:
    scripted(stage)
    stage.git("branch", "old")
    commit_rules(stage)
    stage.plan()
    assert stage.auto(watch=once("verify", lambda: stage.git("switch", "-q", "old"))).ending == "done"
    assert "a.txt" in stage.git("ls-tree", "--name-only", "main").split()


@pytest.mark.parametrize(("phase", "looking"), [("verify", "seen"), ("merge", "seen"), ("merge", "located")])
def test_a_gate_that_goes_with_its_branch_before_it_begins_is_nobodys_failure(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, phase: str, looking: str
) -> None:
    scripted(stage)
    stage.git("branch", "old")
    commit_rules(stage)
    stage.plan()
    looked, left = getattr(places, looking), ["old"]

    async def switched(*asked: Any) -> Any:
        answer = await looked(*asked)
        at = "slice/m1/s1" if phase == "merge" else "task/m1/s1/t1"
        if left and phase in stage.path_of(at):
            stage.git("switch", "-q", left.pop())
        return answer

    monkeypatch.setattr(places, looking, switched)
    own = stage.project.global_config
    own.write_text(own.read_text() + '[sandbox]\nprofile = "off"\ngate_profile = "off"\n')
    assert stage.auto().ending == "done"
    assert not left
    assert "a.txt" in stage.git("ls-tree", "--name-only", "main").split()
    assert not [event for event in stage.named(events.RUN_ENDED) if event.data["outcome"] == "failure"]


def test_a_gate_that_goes_with_its_branch_while_it_is_looked_for_is_no_mistake_in_the_configuration(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(stage)
    stage.git("branch", "old")
    commit_rules(stage)
    stage.plan()
    looked, left = places.problems, ["old"]

    def switched(found: Mapping[str, Path]) -> list[str]:
        if left and "verify" in stage.path_of("task/m1/s1/t1"):
            stage.git("switch", "-q", left.pop())
        return looked(found)

    monkeypatch.setattr(places, "problems", switched)
    assert stage.auto().ending == "done"
    assert not left


def test_a_gate_that_somebody_removes_is_a_mistake_in_the_configuration(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(stage)
    commit_rules(stage)
    stage.plan()
    looked = places.seen

    async def removed(*asked: Any) -> Any:
        answer = await looked(*asked)
        (stage.project.dot / "gates/check.sh").unlink(missing_ok=True)
        return answer

    monkeypatch.setattr(places, "seen", removed)
    stage.auto()
    told = stage.sf("why", "task/m1/s1/t1").stdout
    assert "there is no such file" in told and "internal" not in told, told


def test_a_gate_keeps_its_neighbours_and_one_of_the_operators_its_place(stage: Stage) -> None:
    """Outside `.sf/` too, where agents write: what no branch has is run as it lies there."""
    scripted(stage, "x BROKEN x\n")
    stage.file("ci/lib.sh", "text=BROKEN\n")
    stage.file(
        "ci/full.sh", '#!/bin/sh\n. "$(dirname "$0")/lib.sh"\n! grep -rn "$text" . --include="*.txt"\n'
    )
    (stage.root / "ci/full.sh").chmod(0o755)
    (stage.root / "ci/linked.sh").symlink_to("full.sh")
    stage.file("gates/check.sh", "#!/bin/sh\nexit 0\n")
    (stage.root / "gates/check.sh").chmod(0o755)
    stage.commit("ci")
    stage.git("branch", "same")
    stage.git("branch", "weak")
    stage.git("switch", "-q", "weak")
    stage.file("ci/lib.sh", "text=nothing\n")
    stage.commit("weaker")
    stage.git("switch", "-q", "main")
    listed = '["gates/check.sh", "./ci/linked.sh"]'
    stage.configure(CONFIG.replace('["./.sf/gates/check.sh"]', listed, 1))
    stage.plan()
    stage.gate("check", "#!/bin/sh\nexit 0\n")
    assert stage.auto(watch=once("verify", lambda: stage.git("switch", "-q", "weak"))).ending == "waiting"
    told = stage.sf("why", "task/m1/s1/t1").stdout
    assert "gate linked" in told, told
    stage.gate("check", GATE)
    stage.configure(CONFIG.replace('["./.sf/gates/check.sh"]', '["gates/check.sh"]', 1))
    stage.plan("again")
    stage.auto()
    assert "something is BROKEN" in stage.sf("why", "task/m2/s1/t1").stdout


def test_a_switch_while_gates_run_changes_none_of_them(stage: Stage) -> None:
    scripted(stage, "x BROKEN x\n")
    stage.gate("slow", '#!/bin/sh\ntouch "$SF_PROJECT_ROOT/.sf/begun"; sleep 1\n')
    stage.gate("check", "#!/bin/sh\nexit 0\n")
    commit_rules(stage)
    stage.git("branch", "old")
    stage.gate("check", GATE)
    stage.git("add", ".sf")
    stage.commit("stricter")
    own = stage.project.global_config
    own.write_text(
        own.read_text().replace("post_task = [", 'post_task = ["./.sf/gates/slow.sh", ')
        + '[sandbox]\nprofile = "off"\ngate_profile = "off"\n'
    )
    stage.plan()

    def switch() -> None:
        until(stage.project.dot / "begun")
        stage.git("switch", "-q", "old")

    waiting = threading.Thread(target=switch)
    waiting.start()
    assert stage.auto().ending == "waiting"
    waiting.join()
    assert "something is BROKEN" in stage.sf("why", "task/m1/s1/t1").stdout


def test_what_another_branch_has_beside_a_gate_is_not_the_gates(stage: Stage) -> None:
    scripted(stage, "x BROKEN x\n")
    allowed = '#!/bin/sh\ntest -e "$(dirname "$0")/allow" && exit 0\n'
    stage.gate("check", GATE.replace("#!/bin/sh\n", allowed))
    commit_rules(stage)
    stage.git("switch", "-q", "-c", "lax")
    stage.file(".sf/gates/allow", "all\n")
    stage.git("add", ".sf")
    stage.commit("lax")
    stage.git("switch", "-q", "main")
    stage.plan()
    assert stage.auto(watch=once("verify", lambda: stage.git("switch", "-q", "lax"))).ending == "waiting"
    assert "something is BROKEN" in stage.sf("why", "task/m1/s1/t1").stdout


def switching(stage: Stage, file: Path, content: str) -> Callable[[], None]:
    """What a slow `git switch` does for a while: the files are another branch's, and HEAD is not."""
    lock = stage.root / ".git/index.lock"
    before = file.read_bytes()

    def end() -> None:
        file.write_bytes(before)
        lock.unlink()

    def begin() -> None:
        lock.touch()
        file.write_text(content)
        threading.Timer(0.7, end).start()

    return begin


def test_nothing_is_taken_from_a_checkout_that_git_is_changing(stage: Stage) -> None:
    scripted(stage, "x BROKEN x\n")
    stage.plan()
    weaker = switching(stage, stage.project.dot / "gates/check.sh", "#!/bin/sh\nexit 0\n")
    assert stage.auto(watch=once("verify", weaker)).ending == "waiting"
    assert "something is BROKEN" in stage.sf("why", "task/m1/s1/t1").stdout
    stage.file("a.txt", "")
    scripted(stage)
    stage.plan("again")
    poorer = switching(stage, stage.project.config, CONFIG + "[budget]\nsession_usd = 0.000001\n")
    stage.auto(watch=once("plan", poorer))
    assert not stage.named(events.CONFIG_RELOADED)


def test_a_branch_that_goes_while_its_work_is_judged_stops_nothing_else(stage: Stage) -> None:
    scripted(stage)
    stage.git("branch", "old")
    commit_rules(stage)
    stage.plan()

    def leave() -> None:
        stage.git("switch", "-q", "old")
        stage.git("branch", "-m", "main", "trunk")

    assert stage.auto(watch=once("verify", leave)).ending == "waiting"
    assert "git branch main" in stage.sf("attention").stdout


def test_a_mistake_in_ones_own_file_is_refused_on_any_branch(stage: Stage) -> None:
    scripted(stage)
    commit_rules(stage)
    stage.git("branch", "other")
    stage.plan()

    def mistake() -> None:
        stage.git("switch", "-q", "other")
        own = stage.project.global_config
        own.write_text(own.read_text().replace("gates/check.sh", "gates/chekc.sh"))

    assert stage.auto(watch=once("execute", mistake)).ending == "done"
    warned = [event.data["detail"] for event in stage.named(events.WARNING)]
    assert any("chekc" in detail for detail in warned), warned


def test_the_operators_own_file_is_heard_on_any_branch(stage: Stage) -> None:
    scripted(stage)
    stage.gate("strict", "#!/bin/sh\necho too strict; exit 2\n")
    commit_rules(stage)
    stage.git("branch", "other")
    stage.plan()

    def away() -> None:
        stage.git("switch", "-q", "other")
        own = stage.project.global_config
        own.write_text(own.read_text().replace("gates/check.sh", "gates/strict.sh"))

    assert stage.auto(watch=once("execute", away)).ending == "waiting"
    assert "too strict" in stage.sf("why", "task/m1/s1/t1").stdout


def test_a_start_on_a_branch_without_gates_takes_those_of_the_work(stage: Stage) -> None:
    scripted(stage)
    stage.git("branch", "old")
    commit_rules(stage)
    stage.plan()
    playbook = stage.project.dot / "playbooks" / "test.toml"
    content = playbook.read_text()
    stage.git("switch", "-q", "old")
    playbook.parent.mkdir(exist_ok=True)
    playbook.write_text(content)
    assert stage.auto().ending == "done"
    assert "a.txt" in stage.git("ls-tree", "--name-only", "main").split()


def test_waiting_for_a_branch_that_is_out_elsewhere_uses_up_no_runs(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    stage.git("switch", "-q", "-c", "mine")
    elsewhere = stage.root.parent / "elsewhere"
    stage.git("worktree", "add", "-q", str(elsewhere), "main")
    for _ in range(3):
        assert stage.auto().ending == "waiting"
    held = stage.unit("slice/m1/s1")
    assert held.hold_kind is HoldKind.CHECKOUT_DIRTY
    left = held.run_allowance - held.attempt
    stage.git("worktree", "remove", str(elsewhere))
    assert stage.auto().ending == "done"
    ended = stage.unit("slice/m1/s1")
    assert ended.run_allowance - ended.attempt == left - 1


def test_a_configuration_that_is_gone_leaves_the_one_in_force(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    assert stage.auto(watch=once("verify", stage.project.config.unlink)).ending == "done"
    warned = [event.data["detail"] for event in stage.named(events.WARNING)]
    assert any("is gone" in detail for detail in warned), warned


def test_a_configuration_of_another_branch_leaves_the_one_in_force(stage: Stage) -> None:
    scripted(stage)
    stage.project.global_config.write_text(CONFIG)
    stage.project.config.write_text("[budget]\nsession_usd = 5.0\n")
    stage.git("add", ".sf")
    stage.commit("rules")
    stage.git("switch", "-q", "-c", "old")
    stage.project.config.write_text("[budget]\nsession_usd = 0.000001\n")
    stage.git("commit", "-qam", "poor")
    stage.git("switch", "-q", "main")
    stage.plan()
    assert stage.auto(watch=once("verify", lambda: stage.git("switch", "-q", "old"))).ending == "done"
    warned = [event.data["detail"] for event in stage.named(events.WARNING)]
    assert any("that of old" in detail for detail in warned), warned


@pytest.mark.parametrize("command", [("clean", "-fdq"), ("stash", "-qu"), ("add", "-A")])
def test_sfs_state_is_no_branchs(stage: Stage, command: tuple[str, ...]) -> None:
    scripted(stage)
    stage.git("branch", "old")
    commit_rules(stage)
    goal = stage.plan()
    state = {path.name for path in stage.project.dot.iterdir()} - {"gates", "workflows", "playbooks"}
    stage.git("switch", "-q", "old")
    stage.file("mine.txt", "mine\n")
    stage.git(*command)
    assert not [name for name in stage.git("ls-files").split() if name.startswith(".sf/")]
    stage.git("switch", "-q", "-f", "main")
    assert state <= {path.name for path in stage.project.dot.iterdir()}
    assert goal in stage.sf("status").stdout
    assert stage.auto().ending == "done"


def test_the_users_own_ignore_file_is_added_to_once(stage: Stage) -> None:
    file = stage.root / ".git/info/exclude"
    added = file.read_text()[file.read_text().index("/.sf/") :]
    for before in ("mine", f"mine\n{added[:40]}"):
        file.write_text(before)
        for _ in range(2):
            assert stage.sf("init", "--quick").returncode == 0
        assert file.read_text() == f"{before}\n{added}", "also when it was cut short"
    file.unlink()
    file.symlink_to("/nowhere/at/all")
    assert stage.sf("init", "--quick").returncode == 0


def test_a_database_that_is_made_anew_is_told_with_what_was_left(stage: Stage) -> None:
    scripted(stage)
    stage.plan()
    assert stage.auto().ending == "done"
    for name in ("sf.db", "project-id"):
        (stage.project.dot / name).unlink()
    told = stage.sf("init", "--quick").stdout
    assert ".sf/sf.db" in told and "an earlier sf project of this folder" in told, told


@pytest.mark.parametrize("whose", ["own", "project"])
def test_a_configuration_that_cannot_be_read_leaves_the_one_in_force(stage: Stage, whose: str) -> None:
    scripted(stage)
    stage.plan()
    file = stage.project.global_config if whose == "own" else stage.project.config

    def spoil() -> None:
        file.unlink()
        file.mkdir()

    assert stage.auto(watch=once("verify", spoil)).ending == "done"
    warned = [event.data["detail"] for event in stage.named(events.WARNING)]
    assert any("cannot be read" in detail for detail in warned), warned


def linked_gate(stage: Stage, target: str, gate: str = GATE) -> None:
    """A gate of the repository's that is a link."""
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    stage.configure(CONFIG.replace("./.sf/gates/check.sh", "./ci/check.sh"))
    if not Path(target).is_absolute():
        stage.file(f"ci/{target}", gate).chmod(0o755)
    stage.file("ci/lib.sh", "\n")
    (stage.root / "ci/check.sh").symlink_to(target)
    stage.commit("a gate that is a link")


def test_a_gate_may_be_a_link_within_the_repository(stage: Stage) -> None:
    beside = GATE.replace("#!/bin/sh", '#!/bin/sh\n. "$(dirname "$(readlink -f "$0")")/lib.sh"')
    stage.file("scripts/lib.sh", "\n")
    linked_gate(stage, "../scripts/check.sh", beside)
    stage.plan(adhoc=True, workflow="short")

    def leave() -> None:
        stage.git("switch", "-q", "-c", "other")
        stage.git("rm", "-q", "-r", "scripts")
        stage.file("ci/notes.md", "x\n")
        stage.commit("without what it leads to")

    seen = once("merge", leave)
    assert stage.auto(watch=seen).ending == "done"
    assert [event.data["passed"] for event in stage.named(events.GATE_RESULT)] == [True, True]


@pytest.mark.parametrize("switched", [False, True])
def test_a_gate_that_leads_out_of_the_repository_opens_nothing_there_and_is_named(
    stage: Stage, switched: bool
) -> None:
    outside = stage.file("../outside/check.sh", "#!/bin/sh\nexit 0\n")
    outside.chmod(0o755)
    linked_gate(stage, str(outside.resolve()))
    unit = stage.plan(adhoc=True, workflow="short")
    if switched:
        stage.git("switch", "-q", "-c", "other")
        stage.file("ci/notes.md", "x\n")
        stage.commit("notes")
    done = stage.sf("auto")
    told = done.stdout + done.stderr
    assert done.returncode in (1, 2)
    assert str(outside.resolve()) in told, told
    assert "leads out" in told
    assert not stage.named(events.GATE_RESULT)
    assert not stage.unit(unit).terminal


def test_a_gate_without_a_run_bit_in_git_runs_as_in_the_checkout(stage: Stage) -> None:
    linked_gate(stage, "main.sh")
    stage.git("config", "core.fileMode", "false")
    stage.git("update-index", "--chmod=-x", "ci/main.sh")
    stage.git("commit", "-q", "-m", "no run bit")
    stage.plan(adhoc=True, workflow="short")
    stage.git("switch", "-q", "-c", "other")
    stage.git("rm", "-q", "-r", "ci")
    stage.git("commit", "-q", "-m", "no gates")
    assert stage.auto().ending == "done"


def test_a_gate_that_has_no_run_bit_on_its_branch_is_cured_there(stage: Stage) -> None:
    linked_gate(stage, "main.sh")
    stage.git("update-index", "--chmod=-x", "ci/main.sh")
    stage.git("commit", "-q", "-m", "no run bit")
    stage.plan(adhoc=True, workflow="short")
    stage.git("switch", "-q", "-f", "-c", "other")
    stage.git("rm", "-q", "-r", "-f", "ci")
    stage.git("commit", "-q", "-m", "no gates")
    assert "git update-index --chmod=+x ci/main.sh" in stage.sf("auto").stderr
    stage.git("switch", "-q", "-f", "main")
    stage.git("update-index", "--chmod=+x", "ci/main.sh")
    stage.git("commit", "-q", "-m", "as told")
    stage.git("switch", "-q", "-f", "other")
    assert stage.auto().ending == "done"
