"""The recipes of docs/hooks.md, taken from the page and run; and the hooks that they are wired to."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sf.domain import events
from sf.harness import herald
from sf.store import records, runs
from tests.support.stage import CONFIG, PASSING, SHORT, Stage, call, plan_scene, say, scene, task, write

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"`\.sf/hooks/([\w-]+)\.sh`:\n\n```sh\n(.*?)```", PAGE, re.DOTALL))
GATES = dict(re.findall(r"`\.sf/gates/([\w-]+)\.sh`:\n\n```sh\n(.*?)```", PAGE, re.DOTALL))
ONE = {"title": "S", "tasks": [task("T")]}
NEEDED = ("jq", "curl", "openssl")
needs_tools = pytest.mark.skipif(
    any(shutil.which(name) is None for name in NEEDED), reason=f"the recipes need {', '.join(NEEDED)}"
)


class Receiver:
    """An HTTP server on the loopback that keeps what is posted to it."""

    def __init__(self) -> None:
        self.posted: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posted.append((dict(self.headers), body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def test_the_page_has_the_recipes_that_it_promises() -> None:
    assert set(RECIPES) == {"github", "slack", "webhook", "no-new-dependencies"}
    assert set(GATES) == {"dependencies"}


@needs_tools
def test_the_recipes_tell_whom_they_should(stage: Stage, tmp_path: Path) -> None:
    receiver = Receiver()
    try:
        for name in ("github", "slack", "webhook"):
            stage.hook(name, RECIPES[name])
        stage.configure(
            CONFIG + "[harness.hooks]\n"
            'post_unit = ["./.sf/hooks/github.sh", "./.sf/hooks/webhook.sh"]\n'
            'on_event.held = ["./.sf/hooks/slack.sh"]\n'
        )
        tools = tmp_path / "bin"
        tools.mkdir()
        (tools / "gh").write_text(f'#!/bin/sh\nprintf "%s|" "$@" >> {tmp_path}/gh.txt\n')
        (tools / "gh").chmod(0o755)
        stage.script(
            plan_scene(ONE),
            scene("execute", say("Which one?\n<turn_status>blocked</turn_status>"), visits=[1]),
            scene("execute", write("a.txt"), say()),
            *PASSING,
        )
        stage.plan("do it", link_issue=42)
        environment = {
            "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin",
            "SF_SLACK_WEBHOOK": receiver.url,
            "SF_WEBHOOK": receiver.url,
            "SF_WEBHOOK_KEY": "a key",
        }
        assert stage.sf("auto", env=environment).returncode == 3
        [(_, slack)] = receiver.posted
        assert "sf: T: blocked" in json.loads(slack)["text"] and "Which one?" in json.loads(slack)["text"]
        assert stage.sf("reply", "m1/s1/t1", "this one").returncode == 0
        assert stage.sf("auto", env=environment).returncode == 0
    finally:
        receiver.close()
    told = [(headers, body) for headers, body in receiver.posted if "X-Sf-Signature" in headers]
    assert [json.loads(body)["unit_id"] for _, body in told] == [
        "task/m1/s1/t1",
        "slice/m1/s1",
        "milestone/m1",
    ]
    for headers, body in told:
        signed = hmac.new(b"a key", body, hashlib.sha256).hexdigest()
        assert headers["X-Sf-Signature"] == f"sha256={signed}"
    assert "issue|comment|42|--body|sf: do it: success|" in (tmp_path / "gh.txt").read_text()


_ADDS = "--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+left-pad\n"


@needs_tools
@pytest.mark.parametrize(
    ("arguments", "passes"),
    [
        ({"path": "src/package.json"}, False),
        ({"path": "./requirements-dev.txt/."}, False),
        ({"patch": _ADDS.format("requirements.txt")}, False),
        ({"patch": _ADDS.format("a") + "--- go.mod\t2026\n+++ go.mod\t2026\n@@ -1 +1 @@\n-a\n+b\n"}, False),
        ({"patch": _ADDS.format("a.txt")}, True),
        ({"path": "requirements/notes.txt"}, True),
        ({"command": "true"}, True),
        (None, True),
    ],
)
def test_the_recipe_sees_every_path_that_a_call_names(
    tmp_path: Path, arguments: object, passes: bool
) -> None:
    script = tmp_path / "deps.sh"
    script.write_text(RECIPES["no-new-dependencies"])
    told = json.dumps({"tool": "any", "arguments": arguments})
    done = subprocess.run(["sh", str(script)], input=told, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if passes else 1), done


def test_what_a_shell_command_does_to_dependencies_the_gate_of_the_page_refuses(stage: Stage) -> None:
    stage.gate("check", GATES["dependencies"])
    stage.file("requirements.txt", "one\n")
    stage.commit("dependencies")
    subprocess.run([".sf/gates/check.sh", "write"], cwd=stage.root, check=True, timeout=10)
    stage.workflow("short", SHORT)
    stage.script(
        scene("execute", call("bash", command="mkdir b; cp requirements.txt b"), say(), visits=[1]),
        scene("execute", call("bash", command="rm -r b; echo two >> requirements.txt"), say(), visits=[2]),
        scene("execute", call("bash", command="echo one > requirements.txt"), write("a.txt"), say()),
        *PASSING,
    )
    stage.plan(workflow="short", adhoc=True)
    assert stage.auto().ending == "done"
    assert [row["passed"] for row in records.gate_results(stage.read, "task/a1")] == [0, 0, 1, 1]
    assert (stage.root / "requirements.txt").read_text() == "one\n"


def test_a_hook_before_a_tool_has_the_variables_of_every_hook(stage: Stage) -> None:
    told = stage.root.parent / "told"
    stage.hook("tell", f"#!/bin/sh\nenv | grep ^SF_ > {told}\n")
    stage.configure(CONFIG + '[harness.hooks]\npre_tool_use = ["./.sf/hooks/tell.sh"]\n')
    stage.workflow("short", SHORT)
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan(adhoc=True, workflow="short")
    assert stage.auto().ending == "done"
    names = {line.partition("=")[0] for line in told.read_text().splitlines()}
    documented = {"PROJECT_ROOT", "UNIT_ID", "UNIT_TYPE", "PHASE", "RUN_ID", "WORKSPACE"}
    assert names >= {f"SF_{name}" for name in documented}


@needs_tools
def test_a_hook_can_refuse_a_tool_call_and_the_agent_reads_why(stage: Stage) -> None:
    stage.hook("deps", RECIPES["no-new-dependencies"])
    stage.configure(CONFIG + '[harness.hooks]\npre_tool_use = ["./.sf/hooks/deps.sh"]\n')
    stage.script(
        plan_scene(ONE),
        scene("execute", write("requirements.txt", "left-pad\n"), write("a.txt"), say()),
        *PASSING,
    )
    stage.plan()
    assert stage.auto().ending == "done"
    assert (stage.root / "a.txt").exists() and not (stage.root / "requirements.txt").exists()
    first = next(run for run in runs.of_unit(stage.read, "task/m1/s1/t1") if run.phase == "execute")
    heard = b"".join(row["content"] for row in runs.messages(stage.read, first.id))
    assert b"refused (hook): new dependencies need a person" in heard


def test_a_hook_can_halt_a_run_and_one_that_hangs_refuses(stage: Stage) -> None:
    stage.hook("halt", "#!/bin/sh\necho enough; exit 2\n")
    stage.hook("hang", "#!/bin/sh\nsleep 30\n")
    stage.configure(
        CONFIG.replace("[harness]", "[harness]\nmax_attempts = 1", 1)
        + '[harness.hooks]\npre_tool_use = ["./.sf/hooks/hang.sh"]\n'
        + 'timeouts.pre_tool_use = "200ms"\n'
    )
    stage.script(
        plan_scene(ONE),
        scene("execute", call("list_files"), say("no\n<turn_status>giving_up</turn_status>")),
        scene("reassess", call("submit_reassessment", outcome="abandon", explanation="no")),
        *PASSING,
    )
    stage.plan()
    stage.auto()
    assert stage.unit("milestone/m1").hold_kind is not None, "not even a plan could be submitted"
    stage.configure(stage.project.config.read_text().replace("hang.sh", "halt.sh"))
    stage.plan("another")
    stage.auto()
    [run, *_] = runs.of_unit(stage.read, "milestone/m2")
    codes = {run.error_code for run in runs.of_unit(stage.read, "milestone/m2")}
    assert "hook_failed" in codes, run


def test_events_are_told_in_order_and_their_hooks_can_stop_nothing(stage: Stage, tmp_path: Path) -> None:
    stage.hook("note", f"#!/bin/sh\ncat >> {tmp_path}/told.txt; echo >> {tmp_path}/told.txt; exit 1\n")
    stage.configure(
        CONFIG + "[harness.hooks.on_event]\n"
        'phase_change = ["./.sf/hooks/note.sh"]\nmerge_ready = ["./.sf/hooks/note.sh"]\n'
    )
    stage.script(plan_scene(ONE), scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan()
    assert stage.auto().ending == "done"
    told = [json.loads(line) for line in (tmp_path / "told.txt").read_text().splitlines() if line]
    moved = [(item["unit_id"], item["data"]["to"]) for item in told if item["event"] == "PhaseChange"]
    assert (
        moved
        == [(event.unit_id, event.data["to"]) for event in stage.named(events.PHASE_CHANGE)][-len(moved) :]
    )
    assert [item["unit_id"] for item in told if item["event"] == "MergeReady"] == ["slice/m1/s1"]


@pytest.fixture
def slow(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """One goal that waits for a person in the end, and a hook that is not told of phases in time."""
    monkeypatch.setattr(herald, "_PATIENCE", 0.5)
    stage.hook("slow", "#!/bin/sh\nsleep 20\n")
    stage.hook("held", '#!/bin/sh\nsleep "${1:-0}"; cat >> "$SF_PROJECT_ROOT/../held"\n')
    stage.workflow("short", SHORT)
    stage.gate("check", "#!/bin/sh\nexit 3\n")
    stage.script(scene("execute", write("a.txt"), say()), *PASSING)
    stage.plan(workflow="short", adhoc=True)
    return stage


def test_who_is_waited_for_is_told_first_at_the_end_and_what_was_not_told_is_said(slow: Stage) -> None:
    slow.configure(
        CONFIG + "[harness.hooks.on_event]\n"
        'phase_change = ["./.sf/hooks/slow.sh"]\nheld = ["./.sf/hooks/held.sh 0.6"]\n'
    )
    assert slow.auto().ending == "waiting"
    assert json.loads((slow.root.parent / "held").read_text())["event"] == "Held"
    [said] = [
        e.data["detail"] for e in slow.named(events.WARNING) if "told to their hooks" in e.data["detail"]
    ]
    assert "PhaseChange" in said and "Held" not in said
    assert "event not told to its hooks" in (slow.project.dot / "log" / "sf.log").read_text()
