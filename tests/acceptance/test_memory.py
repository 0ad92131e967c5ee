"""What one piece of work taught is told to the next; a memory that is away changes nothing but a warning."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sf.domain.clock import Instant
from sf.domain.events import Event
from sf.domain.knowledge import GLOBAL_BANK, AntiPattern
from sf.harness import lessons
from sf.harness.rules import Rules
from sf.store import chapters, knowledge, units
from sf.store.connection import transact
from singularity_memory.engine import Engine
from singularity_memory.model import Query
from tests.support.stage import PASSING, SHORT, Stage, call, say, scene, write

WORDS = "Parsing of dates lives in dates.py; it takes ISO strings only. <turn_status>complete</turn_status>"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage(tmp_path / "project", tmp_path / "home" / ".sf")
    made.workflow("short", SHORT)
    made.remember()
    return made


def spans(stage: Stage, operation: str) -> list[dict[str, Any]]:
    """The attributes of the trace's spans of one kind."""
    lines = [
        line for file in sorted(stage.project.trace.glob("*.jsonl")) for line in file.read_text().splitlines()
    ]
    return [span["attrs"] for span in map(json.loads, lines) if span.get("operation") == operation]


def work(stage: Stage, goal: str, *turns: dict[str, Any]) -> str:
    """State and do one task."""
    stage.script(scene("execute", *turns), *PASSING)
    unit_id = stage.plan(goal, workflow="short", adhoc=True)
    result = stage.auto()
    assert result.ending == "done", result
    return unit_id


@pytest.mark.conforms("K-01", "K-02", "C-87")
def test_the_second_run_is_told_what_the_first_one_learned(stage: Stage) -> None:
    work(stage, "Parse dates", write("dates.py", "x = 1\n"), say(WORDS))
    assert knowledge.waiting(stage.read).count == 0, "delivered by the end of the session"
    work(stage, "Format dates for people", write("format.py", "y = 1\n"), say())
    told = spans(stage, "recall")
    assert told[0]["memories"] == [], "there was nothing to know at first"
    assert "dates.py; it takes ISO strings only" in told[-1]["memories"][0]["text"]
    assert told[-1]["bank"].startswith("project/") and told[-1]["degraded"] == ""


@pytest.mark.conforms("K-03")
def test_a_mistake_is_told_to_the_next_try_and_to_later_work(stage: Stage) -> None:
    broken, mended = write("a.txt", "BROKEN\n"), write("a.txt", "whole\n")
    stage.script(
        scene("execute", broken, say(), visits=[1]),
        scene("execute", mended, say("I wrote whole text. <turn_status>complete</turn_status>"), visits=[2]),
        *PASSING,
    )
    stage.plan("Write the text", workflow="short", adhoc=True)
    assert stage.auto().ending == "done"
    first, second = [each for each in spans(stage, "recall") if each["phase"] == "execute"]
    assert first["anti_patterns"] == []
    assert "something is BROKEN" in second["anti_patterns"][0]
    (mistake,) = knowledge.mirrored(stage.read)
    assert mistake.correct_path == "I wrote whole text."
    found = json.loads(stage.sf("memory", "recall", "BROKEN text", "--json").stdout)
    warning = next(each for each in found if "is_negative:true" in each["tags"])
    assert "Instead: I wrote whole text." in warning["content"]


@pytest.mark.conforms("K-06", "C-51")
def test_a_memory_that_is_away_changes_nothing_but_a_warning_and_the_queue(stage: Stage) -> None:
    file = stage.home / "memory" / "memory.db"
    file.mkdir(parents=True)
    unit_id = work(stage, "Parse dates", write("dates.py", "x = 1\n"), say(WORDS))
    assert units.get(stage.read, unit_id).succeeded
    warnings = [event.data["detail"] for event in stage.named("Warning")]
    assert len(warnings) == 1 and "memory" in warnings[0], "said once"
    waits = knowledge.waiting(stage.read)
    assert waits.count == 1 and waits.error
    file.rmdir()
    transact(stage.project.database, lambda tx: tx.run("UPDATE pending_retain SET next_retry_at = 0"))
    assert stage.auto().ending == "done"
    assert knowledge.waiting(stage.read).count == 0
    assert "ISO strings only" in stage.sf("memory", "recall", "parse dates").stdout


def test_the_memory_is_told_of_an_end_before_the_users_hooks(stage: Stage) -> None:
    (stage.home / "memory" / "memory.db").mkdir(parents=True)
    waiting: list[int] = []

    def watch(event: Event) -> None:
        if event.name == "PostUnit":
            waiting.append(knowledge.waiting(stage.read).count)

    stage.script(scene("execute", write("dates.py", "x = 1\n"), say(WORDS)), *PASSING)
    stage.plan("Parse dates", workflow="short", adhoc=True)
    assert stage.auto(watch=watch).ending == "done"
    assert waiting == [1]


@pytest.mark.conforms("K-06")
def test_the_mirror_of_mistakes_is_told_while_the_memory_is_away(stage: Stage) -> None:
    (stage.home / "memory" / "memory.db").mkdir(parents=True)
    mistake = AntiPattern("anti-1", "Dates were parsed by hand.", "dates", "Use dates.py.")
    transact(stage.project.database, lambda tx: knowledge.mirror(tx, mistake, "x", Instant(1)))
    work(stage, "Parse dates", write("dates.py", "x = 1\n"), say())
    told = spans(stage, "recall")[0]
    assert told["anti_patterns"] == ["Dates were parsed by hand. When: dates Instead: Use dates.py."]
    assert told["degraded"]


@pytest.mark.conforms("C-51")
@pytest.mark.parametrize("by", ["the autopilot", "sf clean"])
def test_lessons_that_nobody_took_for_a_week_are_archived(stage: Stage, by: str) -> None:
    (stage.home / "memory" / "memory.db").mkdir(parents=True)
    work(stage, "Parse dates", write("dates.py", "x = 1\n"), say(WORDS))
    week = 7 * 24 * 3600 * 1000 + 1
    age = f"UPDATE pending_retain SET created_at = created_at - {week}"
    transact(stage.project.database, lambda tx: tx.run(age))
    if by == "the autopilot":
        assert stage.auto().ending == "done"
    else:
        assert "archive lessons" in stage.sf("clean", "--dry-run").stdout
        assert knowledge.waiting(stage.read).count == 1
        assert stage.sf("clean").returncode == 0
    assert knowledge.waiting(stage.read).count == 0
    (line,) = (stage.project.dot / "archive" / "lost-learnings.jsonl").read_text().splitlines()
    assert "ISO strings only" in json.loads(line)["lesson"]["content"]


def test_no_secret_waits_for_the_memory(stage: Stage) -> None:
    (stage.home / "memory" / "memory.db").mkdir(parents=True)
    key = "ghp_" + "a1B2" * 9
    done = f"The client logs in with {key} for now. <turn_status>complete</turn_status>"
    stage.script(
        scene("execute", write("a.txt", f"BROKEN {key}\n"), say(), visits=[1]),
        scene("execute", write("a.txt", "whole\n"), say(done), visits=[2]),
        *PASSING,
    )
    stage.plan(f"Log in with {key}", workflow="short", adhoc=True)
    assert stage.auto().ending == "done"
    waiting = [row["payload"] for row in stage.read.all("SELECT payload FROM pending_retain")]
    assert len(waiting) > 1 and "[secret]" in "".join(waiting)
    mirrored = [repr(each) for each in knowledge.mirrored(stage.read)]
    assert key not in "".join(waiting + mirrored + [repr(each) for each in spans(stage, "recall")])


def test_a_path_that_is_no_text_undoes_no_end(stage: Stage) -> None:
    unit_id = work(stage, "Parse dates", write("dates.py", "x = 1\n"), say(WORDS))
    unit, rules = units.get(stage.read, unit_id), Rules(bank="project/odd")
    transact(
        stage.project.database, lambda tx: lessons.unit_ended(tx, unit, ["caf\udce9.py"], rules, Instant(1))
    )
    (row,) = stage.read.all("SELECT payload FROM pending_retain")
    assert "caf" in json.loads(row["payload"])["content"]


def test_an_archive_that_cannot_be_written_stops_nothing_and_loses_nothing(stage: Stage) -> None:
    (stage.home / "memory" / "memory.db").mkdir(parents=True)
    work(stage, "Parse dates", write("dates.py", "x = 1\n"), say(WORDS))
    transact(stage.project.database, lambda tx: tx.run("UPDATE pending_retain SET created_at = 0"))
    lost = stage.project.dot / "archive" / "lost-learnings.jsonl"
    lost.mkdir(parents=True)
    assert stage.auto().ending == "done"
    assert knowledge.waiting(stage.read).count == 1


def test_a_memory_of_every_project_is_judged_in_its_own_bank(stage: Stage) -> None:
    stage.sf("memory", "retain", "--everywhere", "Dates are parsed in dates.py and must be ISO strings")
    work(stage, "Parse dates with dates.py", write("dates.py", "x = 1\n"), say(WORDS))
    (told,) = stage.read.all("SELECT DISTINCT bank FROM recalls")
    assert told["bank"] == GLOBAL_BANK


def test_what_an_agent_says_of_its_memories_counts_once_its_work_is_proven(stage: Stage) -> None:
    work(stage, "Parse dates", write("dates.py", "x = 1\n"), say(WORDS))
    (entry,) = json.loads(stage.sf("memory", "recall", "parse dates", "--json").stdout)
    praise = f'It helped. <memory helped="{entry["id"]} unknown"/> <turn_status>complete</turn_status>'
    work(stage, "Format dates", write("format.py", "y = 1\n"), say(praise))
    with Engine.open(stage.home / "memory" / "memory.db", embedder="static") as engine:
        (bank,) = [each for each in engine.banks() if each.bank.startswith("project/")]
        hit = engine.recall(Query(bank.bank, "ISO strings dates.py", top_k=1)).entries[0]
    assert hit.id == entry["id"] and hit.explanation.age_days < 1
    assert "memory helped" not in stage.sf("memory", "recall", "format dates").stdout


def test_a_memory_that_is_off_is_neither_asked_nor_told(stage: Stage) -> None:
    stage.remember("off")
    work(stage, "Parse dates", write("dates.py", "x = 1\n"), say(WORDS))
    assert spans(stage, "recall") == []
    assert knowledge.waiting(stage.read).count == 0
    assert not (stage.home / "memory").exists()
    ended = stage.sf("memory", "stats")
    assert ended.returncode == 2 and "switched off" in ended.stderr


def test_the_commands_keep_find_and_forget(stage: Stage) -> None:
    kept = stage.sf("memory", "retain", "Dates are parsed in dates.py", "--tag", "area:dates").stdout.split()[
        -1
    ]
    stage.sf("memory", "retain", "--everywhere", "Prefer pathlib over os.path in new code")
    found = json.loads(stage.sf("memory", "recall", "where are dates parsed", "--json").stdout)
    assert found[0]["id"] == kept and found[0]["tags"] == ["area:dates"]
    stats = json.loads(stage.sf("memory", "stats", "--json").stdout)
    assert sorted(each["bank"].split("/")[0] for each in stats["banks"]) == ["global", "project"]
    refused = stage.sf("memory", "retain", "the key is AKIA" + "ABCDEFGHIJKLMNOP")
    assert refused.returncode == 1 and "a secret" in refused.stderr
    assert stage.sf("memory", "forget", kept).returncode == 0
    assert stage.sf("memory", "forget", kept).returncode == 1


def test_an_agent_may_ask_for_itself(stage: Stage) -> None:
    stage.sf("memory", "retain", "Dates are parsed in dates.py and must be ISO strings")
    asks = call("recall", query="how are dates parsed")
    work(stage, "Write the text", asks, write("a.txt", "whole\n"), say())
    (answer,) = [span for span in spans(stage, "tool_call") if span["tool"] == "recall"]
    assert answer["success"] and "from memory" in answer["output"]


@pytest.mark.conforms("C-34")
def test_chapters_are_kept_and_told_to_who_goes_on_after_a_crash(stage: Stage) -> None:
    opened = call("chapter_open", name="look for every caller of parse")
    stage.script(scene("execute", opened, write("a.txt", "whole\n"), say()), *PASSING, latency_ms=400)
    stage.plan("Rename parse", workflow="short", adhoc=True)
    live = subprocess.Popen(
        [sys.executable, "-m", "sf", "auto"],
        cwd=stage.root,
        env={**os.environ, "SF_HOME": str(stage.home), "HOME": str(stage.home.parent)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not any(each.name.startswith("look") for each in chapters.of_unit(stage.read, "task/a1")):
        assert time.monotonic() < deadline and live.poll() is None
        time.sleep(0.02)
    os.killpg(live.pid, signal.SIGKILL)
    live.wait()
    stage.script(scene("execute", write("a.txt", "whole\n"), say(WORDS)), *PASSING)
    assert stage.auto().ending == "done"
    first, cut_off, again = chapters.of_unit(stage.read, "task/a1")
    assert (first.name, first.outcome, len(first.spans)) == ("execute", "pivot", 0)
    assert cut_off.outcome is None
    assert (again.outcome, len(again.spans)) == ("success", 1)
    told = stage.read.all("SELECT content FROM messages WHERE run_id = :run", run=again.run_id)
    prompt = b"".join(bytes(row["content"]) for row in told).decode()
    assert "look for every caller of parse: under way when it was cut off" in prompt
    assert "takes ISO strings only" in stage.sf("memory", "recall", "--json", "dates ISO").stdout


class Server:
    """A memory server of its own process, on a port that stays its own."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._process: subprocess.Popen[str] | None = None
        self.url = self.start(0)

    def start(self, port: int) -> str:
        """Serve; the address."""
        command = ["singularity_memory", "serve", "--port", str(port), "--data", str(self._data)]
        command += ["--embedder", "static"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        return next(word for word in self._process.stdout.readline().split() if word.startswith("http"))

    def again(self) -> None:
        """Start where it was."""
        self.start(int(self.url.rsplit(":", 1)[1]))

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "served")
    yield made
    made.kill()


@pytest.mark.conforms("C-87", "C-95", "K-06")
def test_killing_the_server_in_the_middle_changes_nothing_but_a_warning_and_the_queue(
    stage: Stage, server: Server, tmp_path: Path
) -> None:
    stage.remember("remote", url=server.url, api_key=f"$(cat {tmp_path}/served/token)")
    work(stage, "Parse dates", write("dates.py", "x = 1\n"), say(WORDS))
    assert knowledge.waiting(stage.read).count == 0
    stage.script(scene("execute", write("format.py", "y = 1\n"), say("It uses dates.py. " * 5)), *PASSING)

    def until_told(event: Event) -> None:
        if event.name == "TurnEnded":
            server.kill()

    unit_id = stage.plan("Format dates", workflow="short", adhoc=True)
    assert stage.auto(watch=until_told).ending == "done"
    assert units.get(stage.read, unit_id).succeeded
    assert "ISO strings only" in spans(stage, "recall")[-1]["memories"][0]["text"]
    assert knowledge.waiting(stage.read).count == 1
    server.again()
    transact(stage.project.database, lambda tx: tx.run("UPDATE pending_retain SET next_retry_at = 0"))
    assert stage.auto().ending == "done"
    assert knowledge.waiting(stage.read).count == 0
    assert "Done: Format dates." in stage.sf("memory", "recall", "format dates").stdout


def test_a_server_that_does_not_take_the_token_leaves_every_lesson_in_the_queue(
    stage: Stage, server: Server, tmp_path: Path
) -> None:
    stage.remember("remote", url=server.url, api_key="$(echo revoked)")
    work(stage, "Parse dates", write("dates.py", "x = 1\n"), say(WORDS))
    waits = knowledge.waiting(stage.read)
    assert waits.count == 1 and "unauthorised" in waits.error
    stage.remember("remote", url=server.url, api_key=f"$(cat {tmp_path}/served/token)")
    transact(stage.project.database, lambda tx: tx.run("UPDATE pending_retain SET next_retry_at = 0"))
    assert stage.auto().ending == "done"
    assert knowledge.waiting(stage.read).count == 0
    assert "ISO strings only" in stage.sf("memory", "recall", "parse dates").stdout
