"""What an agent or a repository must not get, tried from outside."""

from __future__ import annotations

import msgspec
import pytest

from sf.domain import events
from sf.domain.phases import Phase
from sf.domain.units import HoldKind
from sf.store import records, runs
from tests.support.stage import CONFIG, PASSING, Stage, call, plan_scene, say, scene, task, write

ONE = {"title": "S", "tasks": [task("T")]}
HOSTILE = (
    "mkdir -p other .sf/hooks; echo evil > other/evil.txt; echo 'echo pwned' > .sf/hooks/h.sh;"
    " echo '[submodule]' > .gitmodules; ln -s /etc/passwd link"
)


def _landed(stage: Stage) -> set[str]:
    return set(stage.git("ls-tree", "-r", "--name-only", "main").splitlines())


@pytest.mark.parametrize("phase", ["execute", "tdd"])
def test_what_a_failed_run_left_behind_is_judged_too(stage: Stage, phase: str) -> None:
    """The run that made the changes ends abnormally, so the next one must not inherit them."""
    slices = {"title": "S", "tasks": [task("T", allowed_areas=["src/**", "tests/**"])]}
    failing = scene(phase, call("bash", command=HOSTILE), {"fault": "server_error"}, visits=[1])
    stage.script(
        plan_scene(slices),
        failing,
        scene("execute", write("src/a.txt"), say()),
        scene("tdd", write("tests/test_a.txt"), say()),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert _landed(stage) == {"notes.txt", "src/a.txt", "tests/test_a.txt"}


def test_forbidden_areas_bind_a_slices_own_fix_too(stage: Stage) -> None:
    slices = {"title": "S", "tasks": [task("T", forbidden_areas=["secrets/**"])]}
    stage.script(
        plan_scene(slices),
        scene("execute", write("a.txt"), say(), unit="T"),
        scene(
            "execute",
            call("bash", command="mkdir secrets; echo x > secrets/k"),
            write("b.txt"),
            say(),
            visits=[1],
        ),
        scene("execute", write("b.txt", "again\n"), say()),
        scene(
            "review_synthesis",
            call("submit_synthesis", verdict="request_changes", summary="more"),
            visits=[1],
        ),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert not any(name.startswith("secrets") for name in _landed(stage))
    assert "b.txt" in _landed(stage)


def test_a_task_plans_within_the_areas_that_it_was_given(stage: Stage) -> None:
    entry = {"title": "T", "allowed_areas": ["src/**"]}
    wide = call(
        "submit_plan", goal="g", approach="a", deliverables=["d"], verification=["v"], allowed_areas=["**"]
    )
    fine = call(
        "submit_plan",
        goal="g",
        approach="a",
        deliverables=["d"],
        verification=["v"],
        allowed_areas=["src/a.txt"],
    )
    stage.script(
        plan_scene({"title": "S", "tasks": [entry]}, unit="do it"),
        scene("plan", wide, fine, unit="T"),
        scene("execute", write("src/a.txt"), say()),
        scene("tdd", say("No tests here.\n<turn_status>giving_up</turn_status>")),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="x")),
        *PASSING,
    )
    stage.plan()
    stage.auto()
    planned = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.PLAN)
    said = b"".join(bytes(row["content"]) for row in runs.messages(stage.read, planned.id)).decode()
    assert "is wider than the plan above" in said
    plan = stage.unit("task/m1/s1/t1").plan or {}
    assert plan["allowed_areas"] == ["src/a.txt"]


def test_ignored_files_do_not_help_a_gate_to_pass_what_lands(stage: Stage) -> None:
    stage.file(".gitignore", "build/\n")
    stage.commit("ignore")
    stage.gate(
        "check",
        "#!/bin/sh\n[ -f build/made.txt ] || [ ! -f a.txt ] || { echo 'made.txt is missing'; exit 1; }\n",
    )
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), write("build/made.txt"), say()),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="x")),
        *PASSING,
    )
    stage.plan()
    stage.auto()
    assert "a.txt" not in _landed(stage)
    refused = [row for row in records.gate_results(stage.read, "slice/m1/s1") if not row["passed"]]
    assert refused and all(row["clean"] for row in refused)


def test_what_a_gate_changes_while_it_runs_is_not_what_is_committed(stage: Stage) -> None:
    stage.gate("scan", "#!/bin/sh\n! grep -r FORBIDDEN . --include='*.txt'\n")
    stage.gate("check", "#!/bin/sh\n[ -f a.txt ] && echo FORBIDDEN > a.txt\nexit 0\n")
    both = '["./.sf/gates/scan.sh", "./.sf/gates/check.sh"]'
    stage.configure(CONFIG.replace('["./.sf/gates/check.sh"]', both))
    stage.script(plan_scene(ONE), scene("execute", write("a.txt", "fine\n"), say()), *PASSING)
    stage.plan()
    assert stage.auto().ending == "done"
    assert (stage.root / "a.txt").read_text() == "fine\n"
    merged = [row for row in records.evidence(stage.read, "slice/m1/s1") if row["kind"] == "merge"][-1]
    assert merged["tree"] == stage.git("rev-parse", "main^{tree}")
    clean = [row for row in records.gate_results(stage.read, "slice/m1/s1") if row["clean"]]
    assert {row["tree"] for row in clean} == {merged["tree"]}


def test_the_worktrees_git_works_inside_the_sandbox(stage: Stage) -> None:
    stage.gate("check", "#!/bin/sh\ngit status --short && git log --oneline | grep -q first\n")
    stage.script(
        plan_scene(ONE),
        scene(
            "execute", write("a.txt"), call("bash", command="git status --short; git log --oneline"), say()
        ),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    run = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.EXECUTE)
    said = b"".join(bytes(row["content"]) for row in runs.messages(stage.read, run.id)).decode()
    assert "?? a.txt" in said and "first" in said


def test_work_that_was_called_off_during_its_merge_does_not_land(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), say()),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="x")),
        *PASSING,
    )
    stage.plan()

    def call_off(event: events.Event) -> None:
        if event.name == events.GATE_RESULT and event.unit_id == "slice/m1/s1" and event.data["clean"]:
            row = stage.read.one("SELECT phase FROM units WHERE id = 'slice/m1/s1'")
            assert row is not None and row["phase"] == "merge"
            stage.queue("abandon", unit_id="slice/m1/s1", reason="no")

    stage.gate("slow", "#!/bin/sh\nsleep 0.3\n")
    both = '["./.sf/gates/check.sh", "./.sf/gates/slow.sh"]'
    stage.configure(CONFIG.replace('post_slice = ["./.sf/gates/check.sh"]', f"post_slice = {both}"))
    stage.auto(watch=call_off)
    assert "a.txt" not in _landed(stage)
    assert stage.unit("slice/m1/s1").status == "canceled"


def test_an_answer_comes_with_its_question_and_with_what_was_still_unread(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt", "BROKEN\n"), say(), visits=[1]),
        scene("execute", say("Blue or red?\n<turn_status>blocked</turn_status>"), visits=[2]),
        scene("execute", write("a.txt", "blue\n"), say()),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "waiting"
    stage.submit("reassess_resolve", unit_id="task/m1/s1/t1", answer="blue")
    assert stage.auto().ending == "done"
    third = [run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.EXECUTE][2]
    prompt = msgspec.json.decode(runs.messages(stage.read, third.id)[0]["content"])["text"]
    for expected in ("Blue or red?", "The operator answered: blue", "something is BROKEN"):
        assert expected in prompt


def test_a_plan_with_repeated_dependencies_or_unprintable_titles(stage: Stage) -> None:
    bad = call(
        "submit_plan",
        goal="g",
        approach="a",
        deliverables=["d"],
        slices=[{"title": "a\tb", "tasks": [task("x")]}],
    )
    good = call(
        "submit_plan",
        goal="# Looks like a heading",
        approach="a",
        deliverables=["d"],
        slices=[
            {"title": "A", "tasks": [task("TA"), task("TB", blocked_by=["TA", "TA"])]},
            {"title": "B", "tasks": [task("TC")], "code_depends_on": ["A", "A"]},
        ],
    )
    stage.script(
        scene("plan", bad, good),
        *(scene("execute", write(f"{name}.txt"), say(), unit=name) for name in ("TA", "TB", "TC")),
        *(scene("tdd", write(f"tests/{name}.txt"), say(), unit=name) for name in ("TA", "TB", "TC")),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert {"TA.txt", "TB.txt", "TC.txt"} <= _landed(stage)


def test_a_reset_forgets_a_half_resolved_merge_so_that_nothing_landed_is_reverted(stage: Stage) -> None:
    """B conflicts with A, gives up, is re-planned: what A landed must still be there at the end."""
    stage.script(
        plan_scene(
            {"title": "A", "tasks": [task("TA")]}, {"title": "B", "tasks": [task("TB")]}, unit="do it"
        ),
        scene(
            "plan",
            call("submit_plan", goal="g", approach="a", deliverables=["d"], tasks=[task("again")]),
            unit="*",
        ),
        scene("execute", write("notes.txt", "from A\n"), write("a_only.txt"), say(), unit="TA"),
        scene("execute", write("notes.txt", "from B\n"), say(), unit="TB"),
        scene("execute", write("notes.txt", "from A and B\n"), write("b_only.txt"), say(), unit="again"),
        scene("execute", say("no\n<turn_status>giving_up</turn_status>"), visits=[1]),
        scene("execute", write("notes.txt", "from A and B\n"), say()),
        scene("reassess", call("submit_reassessment", outcome="replan", explanation="again")),
        scene("tdd", write("tests/a.txt"), say(), unit="TA"),
        scene("tdd", write("tests/b.txt"), say(), unit="TB"),
        scene("tdd", write("tests/c.txt"), say(), unit="again"),
        *PASSING,
    )
    stage.plan()
    stage.auto()
    assert {"a_only.txt", "notes.txt"} <= _landed(stage)
    assert "<<<<" not in stage.git("show", "main:notes.txt")


def test_an_unresolved_conflict_is_not_landed_by_merge_resolve(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("notes.txt", "ours\n"), say()), *PASSING)
    stage.plan()
    edits = iter(("user one\n", "user two\n"))

    def edit(event: events.Event) -> None:
        to_merge = event.name == events.PHASE_CHANGE and event.data["to"] == "merge"
        if to_merge and event.unit_id == "slice/m1/s1":
            text = next(edits, "")
            if text:
                stage.file("notes.txt", text)
                stage.commit("an edit")

    stage.script(
        plan_scene(ONE),
        scene("execute", write("notes.txt", "ours\n"), say(), unit="T"),
        scene("execute", write("notes.txt", "resolved once\n"), say()),
        *PASSING,
    )
    assert stage.auto(watch=edit).ending == "waiting"
    assert stage.unit("slice/m1/s1").hold_kind is HoldKind.MERGE_CONFLICT
    stage.submit("merge_resolve", unit_id="slice/m1/s1")
    assert stage.auto().ending == "waiting"
    assert stage.git("show", "main:notes.txt") == "user two"
    worktree = stage.project.worktrees / "slice_m1_s1"
    (worktree / "notes.txt").write_text("both\n")
    stage.submit("merge_resolve", unit_id="slice/m1/s1")
    assert stage.auto().ending == "done"
    assert stage.git("show", "main:notes.txt") == "both"


def test_a_configuration_that_arrives_with_a_pull_is_not_taken_for_the_users_own(stage: Stage) -> None:
    """It was the user's own file when the session began; a commit makes it the repository's."""
    stage.hook("mine", "#!/bin/sh\ntouch ran-by-the-repository\n")
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    came: list[bool] = []

    def pull(event: events.Event) -> None:
        if event.name == events.PHASE_CHANGE and event.data["to"] == "tdd" and not came:
            came.append(True)
            stage.configure(CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/mine.sh"]\n')
            stage.git("add", "-f", ".sf/config.toml")
            stage.git("commit", "-q", "-m", "pulled")

    assert stage.auto(watch=pull).ending == "done"
    assert not (stage.root / "ran-by-the-repository").exists()
    assert any("not reloaded" in event.data["detail"] for event in stage.named(events.WARNING))
