"""The gate protocol, the hooks and their time limits, over real scripts."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from sf.domain import events
from sf.domain.decide import Counter
from sf.domain.phases import Phase
from sf.domain.units import HoldKind
from sf.observe import trace
from sf.scheduler import upkeep
from sf.store import ledger, records, runs, sessions
from tests.support.stage import (
    CONFIG,
    PASSING,
    SHORT,
    Stage,
    call,
    plan_scene,
    say,
    scene,
    start_sf,
    task,
    write,
)

ONE = {"title": "S", "tasks": [task("T")]}


def _ready(stage: Stage, config: str = CONFIG) -> None:
    stage.configure(config)
    stage.script(
        plan_scene(ONE),
        scene("execute", write("a.txt"), say()),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="no way")),
        *PASSING,
    )
    stage.plan("make a", link_issue=42)


@pytest.mark.conforms("C-84")
def test_a_gate_gets_its_variables_and_the_unit_on_stdin(stage: Stage) -> None:
    stage.gate("check", "#!/bin/sh\nenv | grep ^SF_ | sort > seen.env\ncat > seen.json\nexit 0\n")
    stage.file(".gitignore", "seen.*\n")
    stage.commit("ignore")
    seen: dict[str, str] = {}

    def look(event: events.Event) -> None:
        if event.name == events.GATE_RESULT and event.unit_id == "task/m1/s1/t1":
            folder = stage.project.worktrees / "slice_m1_s1"
            seen["env"] = (folder / "seen.env").read_text()
            seen["json"] = (folder / "seen.json").read_text()

    _ready(stage)
    assert stage.auto(watch=look).ending == "done"
    variables = dict(line.split("=", 1) for line in seen["env"].splitlines())
    assert variables["SF_UNIT_ID"] == "task/m1/s1/t1"
    assert variables["SF_PHASE"] == "verify"
    assert (variables["SF_GATE_NAME"], variables["SF_GATE_RETRY"]) == ("check", "0")
    assert variables["SF_PROJECT_ROOT"] == str(stage.root)
    assert variables["SF_WORKSPACE"].endswith("slice_m1_s1")
    assert {"SF_RUN_ID", "SF_ATTEMPT", "SF_HOME", "SF_TRACE_FILE"} <= set(variables)
    assert seen["json"].count("\n") == 1
    told = json.loads(seen["json"])
    assert (told["unit_id"], told["unit"]["metadata"]["gh_issue"]) == ("task/m1/s1/t1", 42)


@pytest.mark.conforms("C-84")
def test_exit_2_goes_to_reassess_at_once_and_exit_3_does_not_apply(stage: Stage) -> None:
    stage.gate("check", '#!/bin/sh\n[ "$SF_UNIT_TYPE" = task ] && exit 2\nexit 3\n')
    _ready(stage)
    stage.auto()
    unit = stage.unit("task/m1/s1/t1")
    assert (unit.reassess_reason, unit.verdict) == ("gate_exhausted", "abandoned")
    assert len(records.gate_results(stage.read, unit.id)) == 1


def test_a_gate_and_an_agent_take_their_programs_from_the_user_and_not_from_sfs_own_environment(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with sf's folder first on PATH, or its environment activated, for the sake of `sf` alone."""
    own = Path(sys.prefix)
    assert own != Path(sys.base_prefix)
    monkeypatch.setenv("VIRTUAL_ENV", str(own))
    monkeypatch.setenv("PATH", f"{own / 'bin'}:{os.environ['PATH']}")
    mine = f'test "$(command -v python3)" != {own}/bin/python3'
    stage.gate("check", f"#!/bin/sh\n{mine} && test -f seen.txt\n")
    stage.configure(CONFIG)
    seen = call("bash", command=f"{mine} && echo 1 > seen.txt")
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), seen, say()), *PASSING)
    stage.plan()
    assert stage.auto().ending == "done"


def test_a_skipped_gate_is_no_evidence(stage: Stage) -> None:
    stage.gate("check", "#!/bin/sh\nexit 3\n")
    _ready(stage)
    assert stage.auto().ending == "waiting"
    assert stage.unit("slice/m1/s1").hold_kind is HoldKind.NO_EVIDENCE
    assert not (stage.root / "a.txt").exists()


@pytest.mark.conforms("C-84")
def test_a_gate_that_hangs_is_killed_and_its_output_is_cut(stage: Stage) -> None:
    stage.gate("check", "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x\nsleep 60\n")
    _ready(
        stage, CONFIG + '[harness.gates.timeouts]\ncheck = "300ms"\n[harness.gates.max_retries]\ncheck = 1\n'
    )
    started = time.monotonic()
    stage.auto()
    assert time.monotonic() - started < 40
    row = records.gate_results(stage.read, "task/m1/s1/t1")[0]
    assert (row["passed"], row["exit_code"]) == (0, None)
    assert len(row["output"].encode()) < 8192 + 100
    failed = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase is Phase.VERIFY)
    assert failed.error_code == "gate_timeout"


def test_a_limit_and_a_deadline_of_zero_are_none(stage: Stage) -> None:
    stage.workflow("short", SHORT)
    stage.gate("check", "#!/bin/sh\nsleep 0.2\n")
    stage.configure(
        CONFIG.replace("[harness]", '[harness]\ntool_timeout = "0"', 1)
        + '[harness.gates.timeouts]\ncheck = "0"\n'
        + '[attention]\ndefaults.blocked = "go on"\ndeadlines.blocked = "0"\n'
    )
    stage.script(
        scene("execute", say("Which?\n<turn_status>blocked</turn_status>"), visits=[1]),
        scene("execute", call("git_diff"), write("a.txt"), say()),
        *PASSING,
    )
    unit = stage.plan(adhoc=True, workflow="short")
    assert stage.auto().ending == "waiting"
    assert stage.sf("reply", unit, "this one").returncode == 0
    assert stage.auto().ending == "done"
    assert [row["passed"] for row in records.gate_results(stage.read, unit)] == [1, 1]


@pytest.mark.conforms("C-15", "C-16", "C-23")
def test_hooks_run_in_their_order_with_the_unit_on_stdin(stage: Stage) -> None:
    log = stage.root.parent / "hooks.log"
    for name in ("after-create", "before-run", "after-run", "before-remove", "pre-dispatch", "post-unit"):
        stage.hook(
            name, f'#!/bin/sh\necho "{name} $SF_UNIT_ID $SF_PHASE $(pwd)" >> {log}\ncat >> {log}.json\n'
        )
    _ready(
        stage,
        CONFIG
        + "[harness.hooks]\n"
        + 'after_create = "./.sf/hooks/after-create.sh"\nbefore_run = "./.sf/hooks/before-run.sh"\n'
        + 'after_run = "./.sf/hooks/after-run.sh"\nbefore_remove = "./.sf/hooks/before-remove.sh"\n'
        + 'pre_dispatch = ["./.sf/hooks/pre-dispatch.sh"]\npost_unit = ["./.sf/hooks/post-unit.sh"]\n',
    )
    assert stage.auto().ending == "done"
    lines = [line.split() for line in log.read_text().splitlines()]
    of_task = [line[0] for line in lines if line[1] == "task/m1/s1/t1" and line[2] == "execute"]
    assert of_task == ["pre-dispatch", "after-create", "before-run", "after-run"]
    assert all(
        line[3].endswith("slice_m1_s1") for line in lines if line[0] == "before-run" and "/s1" in line[1]
    )
    ends = [line[1] for line in lines if line[0] == "post-unit"]
    assert ends == ["task/m1/s1/t1", "slice/m1/s1", "milestone/m1"]
    assert "before-remove" in {line[0] for line in lines if line[1] == "slice/m1/s1"}
    spans = [span for file in stage.project.trace.glob("trace-*.jsonl") for span in trace.read(file)]
    whole = {span["span_id"]: span for span in spans if span["operation"] == "unit"}
    assert set(whole) == {"task/m1/s1/t1", "slice/m1/s1", "milestone/m1"}
    below = [span for span in spans if span.get("attrs", {}).get("hook") == "post_unit"]
    assert [span["parent_span_id"] for span in below] == ends
    for span in below:
        unit = whole[span["parent_span_id"]]
        assert unit["started_at"] <= span["started_at"] <= unit["started_at"] + unit["duration_ms"]
    told = [json.loads(line) for line in (log.parent / "hooks.log.json").read_text().splitlines()]
    last = [item for item in told if item.get("verdict") == "success"][-1]
    assert {"unit_id", "unit_type", "phase", "verdict", "duration_ms", "cost_usd", "model"} <= set(last)
    assert {
        events.PRE_DISPATCH,
        events.POST_UNIT,
        events.PHASE_CHANGE,
        events.AUTO_LOOP,
        events.WORKTREE_CREATE,
        events.WORKTREE_DELETE,
        events.MERGE_READY,
    } <= {event.name for event in stage.events}


@pytest.mark.conforms("C-23")
def test_before_run_is_fatal_and_after_run_is_not(stage: Stage) -> None:
    flag = stage.root.parent / "flag"
    stage.hook("before", f"#!/bin/sh\n[ -f {flag} ] && exit 0\ntouch {flag}; echo not yet; exit 7\n")
    stage.hook("after", "#!/bin/sh\nexit 9\n")
    _ready(
        stage,
        CONFIG
        + '[harness.hooks]\nbefore_run = "./.sf/hooks/before.sh"\nafter_run = "./.sf/hooks/after.sh"\n',
    )
    assert stage.auto().ending == "done"
    first = runs.of_unit(stage.read, "milestone/m1")[0]
    assert first.error_code == "hook_failed"
    assert "not yet" in first.detail
    assert first.turns == 0


@pytest.mark.conforms("C-17")
def test_a_post_unit_hook_that_refuses_stops_the_session(stage: Stage) -> None:
    stage.hook("post", "#!/bin/sh\nexit 1\n")
    _ready(stage, CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/post.sh"]\n')
    result = stage.auto()
    assert result.ending == "failed"
    assert "PostUnit" in result.detail
    assert stage.unit("slice/m1/s1").verdict is None


def test_a_post_unit_hook_that_cannot_be_run_is_refused_before_a_unit_ends(stage: Stage) -> None:
    """It would be told of no unit that ends until it is mended, and not of those afterwards either."""
    _ready(stage, CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/post.sh"]\n')
    refused = stage.sf("auto")
    assert refused.returncode == 2
    assert "post.sh': there is no such file" in refused.stderr
    assert stage.unit("milestone/m1").attempt == 0
    stage.hook("post", '#!/bin/sh\necho $SF_UNIT_ID >> "$SF_PROJECT_ROOT/../told"\n')
    assert stage.auto().ending == "done"
    told = (stage.root.parent / "told").read_text().split()
    assert sorted(told) == ["milestone/m1", "slice/m1/s1", "task/m1/s1/t1"]


def test_of_a_unit_that_one_post_unit_hook_refuses_the_others_are_told(stage: Stage) -> None:
    stage.hook("one", "#!/bin/sh\nexit 1\n")
    stage.hook("two", '#!/bin/sh\necho $SF_UNIT_ID >> "$SF_PROJECT_ROOT/../told"\nexit 4\n')
    _ready(stage, CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/one.sh", "./.sf/hooks/two.sh"]\n')
    result = stage.auto()
    assert result.ending == "failed"
    assert "one.sh" in result.detail, "the first refusal is the session's"
    assert (stage.root.parent / "told").read_text() == "task/m1/s1/t1\n"


def test_a_post_unit_hook_that_could_not_be_started_is_told_at_the_next_start_and_no_other(
    stage: Stage,
) -> None:
    heard = stage.root.parent / "heard"
    for name in ("one", "two"):
        stage.hook(name, f"#!/bin/sh\ncat >/dev/null\necho {name} $SF_UNIT_ID >> {heard}\n")
    _ready(stage, CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/one.sh", "./.sf/hooks/two.sh"]\n')
    with (stage.root / ".sf" / "hooks" / "two.sh").open("r+"):
        # The kernel runs no file that somebody is writing.
        ended = stage.auto()
    assert ended.ending == "failed" and "could not be told" in ended.detail
    assert [line.split()[0] for line in heard.read_text().splitlines()] == ["one"]
    assert stage.auto().ending == "done"
    lines = heard.read_text().splitlines()
    assert len(lines) == len(set(lines)), "each is told once of each unit"
    told = [{line.split()[1] for line in lines if line.startswith(name)} for name in ("one", "two")]
    assert told[0] == told[1] == {"task/m1/s1/t1", "slice/m1/s1", "milestone/m1"}


def test_a_kill_repeats_no_post_unit_hook_but_the_one_under_way(stage: Stage) -> None:
    """What was told was written down with the next claims, after the hooks of all that had ended."""
    heard, slow = stage.root.parent / "heard", stage.root.parent / "slow"
    stage.hook("one", f"#!/bin/sh\ncat >/dev/null\necho one $SF_UNIT_ID >> {heard}\n")
    waits = f"[ $SF_UNIT_ID = milestone/m2 ] && [ -e {slow} ] && {{ touch {slow}-begun; sleep 20; }}"
    stage.hook("two", f"#!/bin/sh\ncat >/dev/null\n{waits}\necho two $SF_UNIT_ID >> {heard}\n")
    _ready(stage, CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/one.sh", "./.sf/hooks/two.sh"]\n')
    stage.plan("more")
    for unit_id in ("milestone/m1", "milestone/m2"):
        stage.submit("abandon", unit_id=unit_id, reason="not needed")
    slow.touch()
    live = start_sf(stage.root, stage.home, "auto")
    deadline = time.monotonic() + 30
    while not slow.with_name("slow-begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    live.kill()
    live.communicate()
    slow.unlink()
    assert stage.auto().ending == "done"
    told = [f"{name} milestone/m{number}" for number in (1, 2) for name in ("one", "two")]
    assert heard.read_text().splitlines() == told


def test_a_post_unit_hook_that_is_listed_twice_is_told_twice(stage: Stage) -> None:
    heard = stage.root.parent / "heard"
    stage.hook("one", f"#!/bin/sh\necho $SF_UNIT_ID >> {heard}\n")
    _ready(stage, CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/one.sh", "./.sf/hooks/one.sh"]\n')
    assert stage.auto().ending == "done"
    assert sorted(heard.read_text().split()) == sorted(["task/m1/s1/t1", "slice/m1/s1", "milestone/m1"] * 2)


def test_what_came_before_a_hook_that_could_not_be_told_is_not_done_again(stage: Stage) -> None:
    """A branch that was kept came back after the user had deleted it."""
    stage.hook("late", "#!/bin/sh\n")
    stage.configure(CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/late.sh"]\n')
    stage.workflow("kept", 'name = "kept"\nphases = ["execute", "complete"]\nneeds_evidence = false\n')
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan("one", workflow="kept", adhoc=True)
    with (stage.root / ".sf" / "hooks" / "late.sh").open("r+"):
        assert stage.auto().ending == "failed"
        branch = "sf/a1-one"
        assert branch in stage.git("branch", "--format=%(refname:short)").split()
        stage.git("branch", "-D", branch)
        assert stage.auto().ending == "failed"
    assert stage.auto().ending == "done"
    assert stage.git("branch", "--format=%(refname:short)").split() == ["main"]


def test_a_run_that_cannot_be_noted_counts_all_the_same(stage: Stage) -> None:
    """It had done its work, and was paid for and done again."""
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    unit = stage.plan("one", workflow="short", adhoc=True)
    notes = stage.project.dot / "active" / unit.replace("/", "_") / "attempts.md"

    def watch(event: events.Event) -> None:
        # What cannot be written to, as root too.
        if event.name == events.TOOL_CALLED:
            notes.mkdir(parents=True)
        if event.name == events.RUN_ENDED and notes.is_dir():
            notes.rmdir()

    assert stage.auto(watch=watch).ending == "done"
    assert [run.error_code for run in runs.of_unit(stage.read, unit) if run.phase is Phase.EXECUTE] == [None]


@pytest.mark.conforms("C-17")
@pytest.mark.parametrize("kind", ["post_unit", "pre_dispatch"])
def test_a_refusal_interrupts_what_runs_and_charges_nothing(stage: Stage, kind: str) -> None:
    stage.hook("no", '#!/bin/sh\n[ "$SF_UNIT_ID" != task/a2 ] || [ "$SF_PHASE" = execute ]\n')
    quickly = CONFIG.replace("[harness]", '[harness]\ntool_abort_grace = "100ms"', 1)
    stage.configure(f'{quickly}[harness.hooks]\n{kind} = ["./.sf/hooks/no.sh"]\n')
    stage.workflow("short", SHORT)
    quick = scene("execute", write("b.txt"), say(), unit="quick")
    stage.script(scene("execute", call("bash", command="sleep 30"), say(), unit="long"), quick, *PASSING)
    stage.plan("long", adhoc=True, workflow="short")
    stage.plan("quick", adhoc=True, workflow="short")
    started = time.monotonic()
    result = stage.auto()
    assert result.ending == "failed" and "refused task/a2" in result.detail
    assert time.monotonic() - started < 15
    [run] = runs.of_unit(stage.read, "task/a1")
    assert run.outcome == "interrupted"
    assert ledger.count(stage.read, stage.unit("task/a1"), Counter("interruptions", "execute")) == 0
    stage.configure(CONFIG)
    stage.script(scene("execute", write("a.txt"), say(), unit="long"), quick, *PASSING)
    assert stage.auto().ending == "done", "the next session goes on with it"


def test_a_pause_while_a_hook_is_asked_lets_nothing_more_begin(stage: Stage) -> None:
    stage.hook("ask", "#!/bin/sh\nsleep 0.2\n")
    stage.workflow("short", SHORT)
    stage.configure(CONFIG + '[harness.hooks]\npre_dispatch = ["./.sf/hooks/ask.sh"]\n')
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    for goal in ("one", "two", "three"):
        stage.plan(goal, adhoc=True, workflow="short")

    def pause(event: events.Event) -> None:
        if event.name == events.PRE_DISPATCH and event.unit_id == "task/a2":
            stage.queue("pause")

    assert stage.auto(watch=pause).ending == "paused"
    assert [bool(runs.of_unit(stage.read, f"task/a{number}")) for number in (1, 2, 3)] == [True, False, False]


def test_what_was_paused_stays_paused_when_a_hook_refuses(stage: Stage) -> None:
    stage.hook("post", "#!/bin/sh\necho no >&2; exit 1\n")
    _ready(stage, CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/post.sh"]\n')

    def pause(event: events.Event) -> None:
        if event.name == events.UNIT_CLOSED:
            stage.queue("pause")

    assert stage.auto(watch=pause).ending == "failed"
    session = sessions.current(stage.read)
    assert session is not None and session["status"] == "paused"
    stage.configure(CONFIG)
    assert stage.auto().ending == "paused", "only sf resume lifts it"


@pytest.mark.conforms("C-17")
def test_a_post_unit_hook_that_hangs_is_killed_and_the_work_goes_on(stage: Stage) -> None:
    stage.hook("post", "#!/bin/sh\nsleep 60\n")
    _ready(
        stage,
        CONFIG
        + '[harness.hooks]\npost_unit = ["./.sf/hooks/post.sh"]\n'
        + '[harness.hooks.timeouts]\npost_unit = "100ms"\n',
    )
    started = time.monotonic()
    assert stage.auto().ending == "done"
    assert time.monotonic() - started < 30


@pytest.mark.conforms("C-17")
def test_a_pre_dispatch_hook_that_hangs_is_killed_and_the_next_one_is_asked(stage: Stage) -> None:
    stage.hook("hang", "#!/bin/sh\nsleep 60\n")
    stage.hook("next", '#!/bin/sh\n[ -f "$SF_PROJECT_ROOT/../asked" ] && exit 1\ntouch ../asked\n')
    _ready(
        stage,
        CONFIG
        + '[harness.hooks]\npre_dispatch = ["./.sf/hooks/hang.sh", "./.sf/hooks/next.sh"]\n'
        + 'timeouts.pre_dispatch = "100ms"\n',
    )
    result = stage.auto()
    assert result.ending == "failed" and "next.sh" in result.detail
    assert stage.unit("milestone/m1").attempt == 1, "dispatched once, then refused"
    assert any("took longer" in event.data["detail"] for event in stage.named(events.WARNING))


@pytest.mark.conforms("C-62")
def test_pre_dispatch_can_veto_and_phase_change_cannot(stage: Stage) -> None:
    stage.hook("pre", "#!/bin/sh\nexit 1\n")
    _ready(stage, CONFIG + '[harness.hooks]\npre_dispatch = ["./.sf/hooks/pre.sh"]\n')
    result = stage.auto()
    assert (result.ending, stage.unit("milestone/m1").attempt) == ("failed", 0)


@pytest.mark.conforms("C-25", "C-73")
def test_configuration_is_reloaded_live_and_a_bad_one_keeps_the_last_good(stage: Stage) -> None:
    _ready(stage)
    seen: list[str] = []

    def meddle(event: events.Event) -> None:
        if event.name == events.PHASE_CHANGE and event.unit_id == "task/m1/s1/t1":
            if event.data["to"] == "tdd":
                stage.configure("this is not TOML")
            if event.data["to"] == "verify":
                changed = CONFIG.replace(
                    "[harness]", "[harness]\ncontext_compact_at = 0.5\nmax_attempts = 2", 1
                )
                stage.configure(changed)
            if event.data["to"] == "complete":
                seen.append(stage.sf("status").stdout)

    assert stage.auto(watch=meddle).ending == "done"
    warnings = [event.data["detail"] for event in stage.named(events.WARNING)]
    assert any("not valid TOML" in text for text in warnings)
    assert stage.named(events.CONFIG_RELOADED)
    assert "config drift detected — restart to apply: harness.context_compact_at" in seen[0]


def test_a_hook_may_be_a_script_longer_than_a_name_can_be(stage: Stage) -> None:
    stage.configure(f"{CONFIG}[harness.hooks]\nbefore_run = \"sh -c 'true {'x' * 300}'\"\n")
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan(workflow="short", adhoc=True)
    assert stage.auto().ending == "done"


_SECOND_TIME = """#!/bin/sh
echo x >> "$SF_PROJECT_ROOT/../tries"
[ $(wc -l < "$SF_PROJECT_ROOT/../tries") -gt 1 ]
"""


def test_after_create_is_run_until_it_has_come_to_its_end(stage: Stage) -> None:
    stage.hook("set-up", _SECOND_TIME)
    stage.configure(f'{CONFIG}[harness.hooks]\nafter_create = "./.sf/hooks/set-up.sh"\n')
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan(workflow="short", adhoc=True)
    assert stage.auto().ending == "done"
    assert (stage.root.parent / "tries").read_text() == "x\nx\n"


def test_claims_are_renewed_while_a_hook_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks of several units take longer than a claim lasts: another folder took the run for a dead one's."""
    monkeypatch.setattr(upkeep, "_RENEW_MS", 100)
    stage.workflow("short", SHORT)
    stage.hook("slow", "#!/bin/sh\nsleep 1\n")
    stage.configure(CONFIG + '[harness.hooks]\npost_unit = ["./.sf/hooks/slow.sh"]\n')
    stage.script(
        scene("execute", call("bash", command="sleep 8"), write("a.txt"), say(), unit="long"),
        scene("execute", write("b.txt"), say(), unit="quick"),
        *PASSING,
    )
    long, quick = (stage.plan(name, workflow="short", adhoc=True) for name in ("long", "quick"))
    until: list[int | None] = []

    def watch(event: events.Event) -> None:
        begins = event.name == events.POST_UNIT and event.unit_id == quick
        if begins or (event.name == events.AUTO_LOOP and len(until) == 1):
            until.append(stage.unit(long).claim_until)

    assert stage.auto(watch=watch).ending == "done"
    before, after = until
    assert before is not None and after is not None and after > before
