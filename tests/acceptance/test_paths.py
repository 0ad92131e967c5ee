"""Given a project and a scripted agent, when the autopilot runs, then repository and database are so."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import subprocess
import time

import msgspec
import pytest

from sf.domain import events
from sf.domain.phases import Phase
from sf.domain.units import HoldKind, Status
from sf.errors import StoreUnusable
from sf.observe import trace
from sf.scheduler.admission import Selection
from sf.store import ledger, records, runs, units
from tests.support.stage import (
    COMPLETE,
    CONFIG,
    PASSING,
    SINGLE,
    Stage,
    call,
    plan_scene,
    say,
    scene,
    task,
    write,
)

ONE = {"title": "S", "tasks": [task("T")]}


def test_a_goal_becomes_merged_commits(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan("make a")
    assert stage.auto().ending == "done"
    assert (stage.root / "a.txt").read_text() == "text\n"
    assert stage.git("status", "--porcelain", "-uno") == ""
    assert "Merge slice/m1/s1: S" in stage.git("log", "--oneline")
    assert stage.path_of("task/m1/s1/t1") == ["execute", "tdd", "verify", "merge", "complete"]
    assert stage.unit("milestone/m1").verdict == "success"


@pytest.mark.conforms("C-85")
def test_a_failed_gate_sends_the_task_back_with_its_output(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt", "BROKEN\n"), say(), visits=[1]),
        scene("execute", write("a.txt", "whole\n"), say(), visits=[2]),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert (stage.root / "a.txt").read_text() == "whole\n"
    assert stage.path_of("task/m1/s1/t1").count("execute") == 2
    results = records.gate_results(stage.read, "task/m1/s1/t1")
    assert [row["passed"] for row in results] == [0, 1]
    second = [run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.EXECUTE][1]
    prompt = msgspec.json.decode(runs.messages(stage.read, second.id)[0]["content"])["text"]
    assert "something is BROKEN" in prompt
    assert "execute: Done (1 file, +1 −0)" in prompt


def test_a_gate_that_never_passes_leads_to_reassess_and_abandon(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt", "BROKEN\n"), say()),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="cannot be done")),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    unit = stage.unit("task/m1/s1/t1")
    assert (unit.verdict, unit.reassess_reason) == ("abandoned", "gate_exhausted")
    assert stage.unit("slice/m1/s1").reassess_reason == "child_abandoned"
    assert not (stage.root / "a.txt").exists()
    assert stage.named(events.GATE_BLOCKED)


@pytest.mark.conforms("C-61")
def test_a_replan_opens_a_new_plan_version_and_can_succeed(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE, unit="do it"),
        scene(
            "plan",
            call(
                "submit_plan",
                goal="another way",
                approach="so",
                deliverables=["d"],
                verification=["v"],
                allowed_areas=["b.txt", "tests"],
            ),
            unit="T",
        ),
        scene("execute", say("It cannot be done so.\n<turn_status>giving_up</turn_status>"), visits=[1]),
        scene("execute", write("b.txt"), say(), visits=[2]),
        scene("reassess", call("submit_reassessment", outcome="replan", explanation="try b")),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    unit = stage.unit("task/m1/s1/t1")
    assert (unit.plan_version, unit.verdict, unit.reassess_reason) == (2, "success", "giving_up")
    assert (stage.root / "b.txt").exists()
    told = "".join(file.read_text() for file in stage.project.dot.glob("archive/*t1*/attempts.md"))
    assert "execute: GaveUp (no file changed) — It cannot be done so." in told


def test_an_agent_that_changes_nothing_is_told_and_then_reassessed(stage: Stage) -> None:
    stage.configure(CONFIG.replace("[harness]", "[harness]\nstale_turns = 2"))
    stage.script(
        plan_scene(ONE, unit="do it"),
        scene(
            "plan",
            call("submit_plan", goal="g", approach="a", deliverables=["d"], verification=["v"]),
            unit="T",
        ),
        scene("execute", *[call("list_files")] * 20, visits=[1]),
        scene("execute", write("b.txt"), say(), visits=[2]),
        scene("reassess", call("submit_reassessment", outcome="replan", explanation="write b")),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    first = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.EXECUTE)
    assert (first.turns, first.error_code) == (4, "stale")
    heard = b"".join(row["content"] for row in runs.messages(stage.read, first.id))
    assert heard.count(b"have changed nothing") == 1
    assert stage.unit("task/m1/s1/t1").reassess_reason == "stale"
    assert (stage.root / "b.txt").exists()
    told = "".join(file.read_text() for file in stage.project.dot.glob("archive/*t1*/attempts.md"))
    assert "execute: WentStale (no file changed) — after the pivot, 2 turns" in told


def test_an_escalation_parks_the_unit_until_a_person_answers(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE, unit="do it"),
        scene(
            "plan",
            call("submit_plan", goal="g", approach="a", deliverables=["d"], verification=["v"]),
            unit="T",
        ),
        scene("execute", say("No.\n<turn_status>giving_up</turn_status>"), visits=[1]),
        scene("execute", write("c.txt"), say(), visits=[2]),
        scene(
            "reassess",
            call("submit_reassessment", outcome="escalate", explanation="?", questions=["a or c?"]),
        ),
        *PASSING,
    )
    stage.plan()
    result = stage.auto()
    assert result.ending == "waiting"
    assert result.held == ("task/m1/s1/t1",)
    assert stage.unit("task/m1/s1/t1").hold_kind is HoldKind.ESCALATED
    assert "a or c?" in (stage.project.active("task/m1/s1/t1") / "human-question.md").read_text()
    stage.submit("reassess_resolve", unit_id="task/m1/s1/t1", answer="take c")
    assert stage.auto().ending == "done"
    assert (stage.root / "c.txt").exists()


@pytest.mark.conforms("C-81")
def test_a_blocked_agent_parks_its_unit_and_goes_on_with_the_answer(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", say("Which name?\n<turn_status>blocked</turn_status>"), visits=[1]),
        scene("execute", write("d.txt"), say(), visits=[2]),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "waiting"
    assert stage.unit("task/m1/s1/t1").hold_kind is HoldKind.BLOCKED
    stage.submit("reassess_resolve", unit_id="task/m1/s1/t1", answer="call it d")
    assert stage.auto().ending == "done"
    assert stage.unit("task/m1/s1/t1").plan_version == 1


def test_changes_outside_the_areas_are_taken_back_and_named(stage: Stage) -> None:
    slices = {"title": "S", "tasks": [task("T", allowed_areas=["ok.txt", "tests"])]}
    stage.script(
        plan_scene(slices),
        scene(
            "execute",
            write("ok.txt"),
            call("bash", command="echo no > outside.txt; echo changed > notes.txt"),
            say(),
            visits=[1],
        ),
        scene("execute", write("ok.txt", "better\n"), say(), visits=[2]),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert not (stage.root / "outside.txt").exists()
    assert (stage.root / "notes.txt").read_text() == "hello\n"
    first = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.EXECUTE)
    assert first.error_code == "outside_areas"
    assert "outside.txt" in first.detail


def test_a_lie_about_work_is_not_believed(stage: Stage) -> None:
    stage.configure(CONFIG.replace("[harness]", "[harness]\nmax_attempts = 2"))
    stage.script(
        plan_scene(ONE),
        scene("execute", say(), say()),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="it only talks")),
        *PASSING,
    )
    stage.plan()
    stage.auto()
    codes = [run.error_code for run in runs.of_unit(stage.read, "task/m1/s1/t1")]
    assert codes[:2] == ["no_product", "no_product"]
    assert stage.unit("task/m1/s1/t1").verdict == "abandoned"


def test_an_agent_that_returns_nothing_ends_as_a_clear_failure(stage: Stage) -> None:
    stage.configure(CONFIG.replace("[harness]", "[harness]\nmax_attempts = 1"))
    stage.script(
        scene("research", say(""), say(""), say("")),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="silent")),
    )
    stage.plan()
    stage.auto()
    first = runs.of_unit(stage.read, "milestone/m1")[0]
    assert (first.error_code, first.detail) == ("no_product", "you replied with nothing")


def test_a_stalled_model_is_a_try_and_the_next_one_goes_on(stage: Stage) -> None:
    stage.configure(CONFIG.replace("[harness]", '[harness]\nstall_timeout = "150ms"'))
    stage.script(
        plan_scene(ONE),
        scene("execute", {"fault": "stall", "seconds": 30.0}, visits=[1]),
        scene("execute", write("a.txt"), say(), visits=[2]),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    first = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.EXECUTE)
    assert (first.outcome, first.error_code) == ("stalled", "stalled")


def test_a_run_that_takes_too_long_is_ended_with_what_it_started(stage: Stage) -> None:
    stage.configure(
        CONFIG.replace("[harness]", '[harness]\ntool_abort_grace = "100ms"\ntool_abort_kill = "100ms"')
        + '[harness.unit_timeout_by_phase]\nexecute = "700ms"\n'
    )
    stage.script(
        plan_scene(ONE),
        scene("execute", call("bash", command="sleep 31.7"), say(), visits=[1]),
        scene("execute", write("a.txt"), say(), visits=[2]),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    first = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.EXECUTE)
    assert (first.outcome, first.error_code) == ("unit_timeout", "unit_timeout")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 31.7" not in listed


def test_a_quota_window_is_a_wait_and_not_a_try(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", {"fault": "rate_limit", "seconds": 300.0}),
        *PASSING,
    )
    stage.plan()
    stage.auto(Selection(most=3))
    unit = stage.unit("task/m1/s1/t1")
    assert unit.status is Status.PENDING
    assert unit.due_at is not None and unit.due_at - unit.updated_at > 200_000
    assert ledger.counts(stage.read, unit).tries == 0
    assert runs.of_unit(stage.read, unit.id)[0].outcome == "interrupted"


@pytest.mark.conforms("C-26", "C-67")
def test_slices_run_side_by_side_and_merge_in_the_order_of_their_dependencies(stage: Stage) -> None:
    stage.script(
        plan_scene(
            {"title": "A", "tasks": [task("TA")]},
            {"title": "B", "tasks": [task("TB")], "code_depends_on": ["C"]},
            {"title": "C", "tasks": [task("TC")]},
        ),
        scene("execute", write("a.txt"), say(), unit="TA"),
        scene("execute", call("read_file", path="c.txt"), write("b.txt"), say(), unit="TB"),
        scene("execute", write("c.txt"), say(), unit="TC"),
        *PASSING[:1],
        scene("tdd", write("tests/a.txt"), say(), unit="TA"),
        scene("tdd", write("tests/b.txt"), say(), unit="TB"),
        scene("tdd", write("tests/c.txt"), say(), unit="TC"),
        *PASSING[2:],
        latency_ms=40,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    a, c = (runs.of_unit(stage.read, name)[0] for name in ("task/m1/s1/t1", "task/m1/s3/t1"))
    assert a.started_at < (c.ended_at or 0) and c.started_at < (a.ended_at or 0)
    merged = stage.git("log", "--first-parent", "--reverse", "--format=%s").splitlines()
    assert merged.index("Merge slice/m1/s3: C") < merged.index("Merge slice/m1/s2: B")
    merging = [
        run
        for name in ("s1", "s2", "s3")
        for run in runs.of_unit(stage.read, f"slice/m1/{name}")
        if run.phase == "merge"
    ]
    merging.sort(key=lambda run: run.started_at)
    assert all((x.ended_at or 0) <= y.started_at for x, y in itertools.pairwise(merging))


@pytest.mark.conforms("C-26")
def test_a_phase_holds_no_more_units_than_its_cap(stage: Stage) -> None:
    stage.configure(CONFIG + "[harness.concurrency.max_agents_by_phase]\nexecute = 1\n")
    names = ("A", "B", "C")
    stage.script(
        plan_scene(*({"title": name, "tasks": [task(f"T{name}")]} for name in names)),
        *(scene("execute", write(f"{name}.txt"), say(), unit=f"T{name}") for name in names),
        *(scene("tdd", write(f"tests/{name}.txt"), say(), unit=f"T{name}") for name in names),
        *PASSING,
        latency_ms=30,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    found = [run for number in (1, 2, 3) for run in runs.of_unit(stage.read, f"task/m1/s{number}/t1")]
    executing = sorted((run for run in found if run.phase is Phase.EXECUTE), key=lambda run: run.started_at)
    assert len(executing) == 3
    assert all((x.ended_at or 0) <= y.started_at for x, y in itertools.pairwise(executing))


@pytest.mark.conforms("C-53", "C-76")
def test_uat_waits_for_a_person_and_merges_only_after_the_word(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan(workflow="release")
    assert stage.auto().ending == "waiting"
    assert stage.unit("slice/m1/s1").hold_kind is HoldKind.UAT
    assert not (stage.root / "a.txt").exists()
    stage.submit("uat_approve", unit_id="slice/m1/s1")
    assert stage.auto().ending == "waiting"
    assert (stage.root / "a.txt").exists()
    stage.submit("uat_approve", unit_id="milestone/m1")
    assert stage.auto().ending == "done"


def test_a_spike_leaves_its_work_on_a_branch_and_merges_nothing(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan(workflow="spike")
    before = stage.git("rev-parse", "main")
    assert stage.auto().ending == "done"
    assert stage.git("rev-parse", "main") == before
    assert stage.git("show", "sf/m1-s1-s:a.txt") == "text"


def test_work_without_any_gate_is_parked_instead_of_merged(stage: Stage) -> None:
    stage.configure(CONFIG.replace('["./.sf/gates/check.sh"]', "[]"))
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    assert stage.auto().ending == "waiting"
    assert stage.unit("slice/m1/s1").hold_kind is HoldKind.NO_EVIDENCE
    stage.configure(CONFIG)
    stage.submit("merge_resolve", unit_id="slice/m1/s1")
    assert stage.auto().ending == "done"
    assert (stage.root / "a.txt").exists()


@pytest.mark.conforms("C-42")
def test_an_adhoc_task_is_gated_reviewed_and_merged_on_its_own(stage: Stage) -> None:
    stage.script(
        scene("plan", call("submit_plan", goal="g", approach="a", deliverables=["d"], verification=["v"])),
        scene("execute", write("a.txt"), say()),
        *PASSING,
    )
    unit_id = stage.plan("add a", adhoc=True)
    assert unit_id == "task/a1"
    assert stage.auto().ending == "done"
    assert "review" in stage.path_of(unit_id)
    assert "Merge task/a1: add a" in stage.git("log", "--oneline")


def test_milestone_per_worktree_merges_once_at_the_end(stage: Stage) -> None:
    stage.configure(SINGLE)
    stage.script(
        plan_scene({"title": "A", "tasks": [task("TA")]}, {"title": "B", "tasks": [task("TB")]}),
        scene("execute", write("a.txt"), say(), unit="TA"),
        scene("execute", write("b.txt"), say(), unit="TB"),
        scene("tdd", write("tests/b.txt"), say(), unit="TB"),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    merges = stage.git("log", "--merges", "--format=%s").splitlines()
    assert merges == ["Merge milestone/m1: do it"]
    assert (stage.root / "a.txt").exists() and (stage.root / "b.txt").exists()


def test_a_milestone_gate_that_fails_gets_one_fix_slice(stage: Stage) -> None:
    stage.gate("final", "#!/bin/sh\ntest -f fixed.txt || { echo 'fixed.txt is missing'; exit 1; }\n")
    stage.configure(
        CONFIG.replace("[harness.gates]", '[harness.gates]\npost_milestone = ["./.sf/gates/final.sh"]')
    )
    stage.script(
        plan_scene(ONE),
        scene("execute", write("fixed.txt"), say(), unit="Fix:*"),
        scene("execute", write("a.txt"), say()),
        scene("tdd", write("tests/fix.txt"), say(), unit="Fix:*"),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    fix = stage.unit("slice/m1/s2")
    assert fix.title.startswith("Fix:") and fix.verdict == "success"
    assert "fixed.txt is missing" in stage.unit("task/m1/s2/t1").description


def test_the_operators_abandon_keeps_the_work_under_a_rescue_ref(stage: Stage) -> None:
    stage.script(
        plan_scene({"title": "A", "tasks": [task("TA"), task("TB", blocked_by=["TA"])]}),
        scene("execute", write("a.txt"), say(), unit="TA"),
        scene("execute", say("?\n<turn_status>blocked</turn_status>"), unit="TB"),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "waiting"
    stage.submit("abandon", unit_id="milestone/m1", reason="changed my mind")
    assert stage.auto().ending == "done"
    assert stage.unit("task/m1/s1/t2").status is Status.CANCELED
    done = stage.git("--git-dir", str(stage.project.repository), "for-each-ref", "--format=%(refname)")
    assert "refs/sf/rescue/" in done
    assert units.open_count(stage.read) == 0


def test_turns_are_not_taken_for_complete_without_the_marker(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), say("I think so."), say("Yes.")),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    first = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.EXECUTE)
    assert first.turns == 3
    assert COMPLETE not in first.detail


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("app/tests.py", "def test_one():\n    assert True\n"),
        ("src/lib.rs", "pub fn one() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {}\n}\n"),
        ("t/one.t", "ok 1;\n"),
    ],
)
def test_a_test_counts_wherever_its_language_has_it(stage: Stage, path: str, content: str) -> None:
    stage.file("src/lib.rs", "pub fn one() {}\n")
    stage.commit("code")
    tests = scene("tdd", write(path, content), say())
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), tests, *PASSING)
    stage.plan()
    assert stage.auto().ending == "done"
    assert stage.path_of("task/m1/s1/t1") == ["execute", "tdd", "verify", "merge", "complete"]


@pytest.mark.parametrize(
    "command", ["echo 1 > tests/data.txt", "rm tests/test_old.py", "echo '// a' >> lib.rs"]
)
def test_what_is_no_test_is_refused_and_the_agent_is_told_what_counts(stage: Stage, command: str) -> None:
    stage.file("tests/test_old.py", "def test_old():\n    assert True\n")
    stage.file("lib.rs", "#[test]\nfn adds() {}\n")
    stage.commit("code")
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), say()),
        scene("tdd", call("bash", command=command), say(), say()),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="no tests")),
        *PASSING,
    )
    stage.plan()
    stage.auto()
    assert stage.unit("task/m1/s1/t1").verdict == "abandoned"
    tried = [run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.TDD]
    assert {run.error_code for run in tried} == {"no_product"}
    assert (
        "no test was written. What counts: a file named as a test" in stage.sf("why", "task/m1/s1/t1").stdout
    )


@pytest.mark.conforms("C-57", "C-40", "C-33", "C-79")
def test_everything_is_where_the_layout_says(stage: Stage) -> None:
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    during: dict[str, bool] = {}

    def look(event: events.Event) -> None:
        if event.name == events.TURN_ENDED and event.unit_id == "task/m1/s1/t1":
            active = stage.project.active("task/m1/s1/t1")
            during["plan"] = (active / "plan.md").exists()
            during["workspace"] = (active / "workspace").resolve().is_dir()
            during["log"] = bool(list(active.glob("run-*.log")))
            during["auto.lock"] = (stage.project.dot / "auto.lock").exists()

    assert stage.auto(watch=look).ending == "done"
    assert during == {"plan": True, "workspace": True, "log": True, "auto.lock": True}
    dot = stage.project.dot
    assert not (dot / "auto.lock").exists()
    assert (dot / "sf.db").is_file() and (dot / "log" / "sf.log").is_file()
    assert (dot / "runtime" / "gate-state.json").is_file()
    traces = list((dot / "trace").glob("trace-*.jsonl"))
    first = msgspec.json.decode(traces[0].read_bytes().splitlines()[0])
    assert (first["_meta"], first["trace_schema_version"]) == (True, 1)
    operations = {span["operation"] for span in trace.read(traces[0])}
    assert operations == {"model_request", "tool_call", "phase_transition", "gate", "run", "unit"}
    archived = [folder.name for folder in (dot / "archive").iterdir()]
    assert sorted(name[11:] for name in archived) == ["milestone_m1", "slice_m1_s1", "task_m1_s1_t1"]


def test_a_session_that_ends_with_an_error_leaves_no_sign_that_it_is_active(stage: Stage) -> None:
    stage.script(*PASSING)
    stage.plan()

    def break_the_store(event: events.Event) -> None:
        if event.name == events.RUN_STARTED:
            with contextlib.closing(sqlite3.connect(stage.project.database)) as connection:
                connection.execute("ALTER TABLE intents RENAME TO lost")

    with pytest.raises(StoreUnusable):
        stage.auto(watch=break_the_store)
    assert not (stage.project.dot / "auto.lock").exists()


@pytest.mark.conforms("C-29")
def test_the_next_phase_follows_at_once_and_not_with_the_tick(stage: Stage) -> None:
    stage.configure(CONFIG.replace('tick = "100ms"', 'tick = "30s"'))
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    started = time.monotonic()
    assert stage.auto().ending == "done"
    assert time.monotonic() - started < 25
    rows = runs.of_unit(stage.read, "task/m1/s1/t1")
    gaps = [later.started_at - (earlier.ended_at or 0) for earlier, later in itertools.pairwise(rows)]
    assert max(gaps) < 1000


def test_an_agents_unknown_tool_and_broken_arguments_do_not_end_its_run(stage: Stage) -> None:
    stage.script(
        plan_scene(ONE),
        scene(
            "execute",
            call("no_such_tool", x=1),
            {"fault": "malformed", "call": [{"tool": "write_file", "arguments": {}}]},
            call("write_file", path="../outside.txt", content="x"),
            call("bash", command="git push origin main"),
            write("a.txt"),
            say(),
        ),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    first = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.EXECUTE)
    said = b"".join(bytes(row["content"]) for row in runs.messages(stage.read, first.id)).decode()
    for expected in ("there is no tool", "not a JSON object", "containment", "denylist"):
        assert expected in said
    assert not (stage.root.parent / "outside.txt").exists()
