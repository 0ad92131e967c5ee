"""Prompts: strict templates, and what each render says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sf.domain import outcomes as o
from sf.domain.decide import Counter
from sf.errors import InvalidPrompt, PromptFailed
from sf.harness import artifacts
from sf.harness.prompts import VARIABLES, Prompts
from sf.paths import Project
from sf.store import ledger, records
from tests.support.ground import Ground

PHASES = (
    "research",
    "plan",
    "execute",
    "tdd",
    "reassess",
    "review_context",
    "review_chunk",
    "review_synthesis",
)
FIRST: dict[str, Any] = {
    "unit_id": "task/m1/s1/t1",
    "unit_type": "task",
    "phase": "execute",
    "attempt": None,
    "session_id": "01J00000000000000000000000",
    "issue": {"title": "Add a command", "description": "It prints the time."},
    "last_error": None,
    "context": "A clock › The command line",
    "attempts": "",
    "research": "There is one module.",
    "plan": "# Goal\nA command.",
    "gates": ["test.sh"],
    "allowed_areas": ("src/**", "tests/**"),
    "forbidden_areas": ("src/secret/**",),
    "folder": "/project/.sf/active/task_m1_s1_t1",
    "diff": "diff --git a/x b/x",
    "summary": "Adds a command.",
    "chunk": {"number": 1, "count": 2, "diff": "diff --git a/x b/x"},
    "findings": "- none",
    "reason": "gate_exhausted",
    "replans_left": 1,
    "chapters": "- execute: under way when it was cut off",
}
RETRY = {
    **FIRST,
    "attempt": 1,
    "last_error": "gate unit failed:\n1 failed",
    "attempts": "- run 1, execute: Failed",
}


@pytest.mark.conforms("C-06")
def test_an_unknown_variable_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "execute.md").write_text("hello {{ unit_id }}\n=====\n{{ titel }}")
    with pytest.raises(InvalidPrompt, match="titel") as refused:
        Prompts(tmp_path)
    assert refused.value.code == "invalid_prompt"
    (tmp_path / "execute.md").write_text("{% if x %}\n=====\n")
    with pytest.raises(InvalidPrompt, match=r"execute\.md"):
        Prompts(tmp_path)


@pytest.mark.conforms("C-06")
def test_an_unknown_field_of_a_known_variable_fails_the_render_and_is_not_left_blank(tmp_path: Path) -> None:
    (tmp_path / "execute.md").write_text("x\n=====\n{{ issue.titel }}")
    with pytest.raises(PromptFailed) as refused:
        Prompts(tmp_path).phase("execute", FIRST)
    assert refused.value.code == "prompt_render_failed"


def test_the_shipped_templates_are_sound_and_use_what_they_are_given() -> None:
    prompts = Prompts()
    for name in PHASES:
        prompt = prompts.phase(name, FIRST)
        assert prompt.instructions
        assert prompt.task
        assert "{{" not in prompt.instructions + prompt.task
    assert set(FIRST) == VARIABLES


@pytest.mark.conforms("C-07")
def test_a_first_dispatch_has_no_attempt_and_no_error_and_a_retry_has_both() -> None:
    first = Prompts().phase("execute", FIRST).task
    assert "attempt" not in first.lower().replace("attempts", "")
    assert "went wrong" not in first
    retry = Prompts().phase("execute", RETRY).task
    assert "This is attempt 2." in retry
    assert "gate unit failed:\n1 failed" in retry
    finding = Prompts().phase("execute", {**RETRY, "attempt": None}).task
    assert "1 failed" in finding, "a gate's finding is told although no try was charged"
    assert "This is attempt" not in finding


@pytest.mark.conforms("C-07", "C-55")
def test_what_a_prompt_is_told_follows_tries_and_feedback(ground: Ground) -> None:
    """The number is of abnormal ends in this phase; the error is whatever the last run left behind."""
    ground.plant(adhoc=True)

    def told() -> tuple[int, str]:
        unit = ground.unit("task/a1")
        tries = ledger.count(ground.read, unit, Counter("tries", unit.phase.value))
        return tries, records.unread_feedback(ground.read, unit.id)[0]

    assert told() == (0, "")
    ground.run("task/a1", o.Interrupted("paused"))
    assert told() == (0, ""), "a pause is no try"
    ground.run("task/a1", o.Failed("turn_failed", "dropped"))
    assert told() == (1, "turn_failed: dropped")


@pytest.mark.conforms("C-05", "C-55")
def test_a_continuation_repeats_neither_task_nor_error() -> None:
    text = Prompts().continuation("no file has changed.")
    assert "no file has changed." in text
    assert len(text) < 300
    source = (Path(artifacts.__file__).parent / "prompts" / "continuation.md").read_text()
    assert not any(name in source for name in ("last_error", "issue", "plan"))


def test_a_fresh_window_has_the_task_what_was_done_and_the_change() -> None:
    text = Prompts().compaction(prompt="THE TASK", chapter="- read a file", diff="diff --git")
    assert text.index("THE TASK") < text.index("- read a file") < text.index("diff --git")


@pytest.mark.conforms("C-74")
def test_a_long_error_is_cut_for_the_prompt_and_kept_whole_in_a_file(tmp_path: Path) -> None:
    project = Project(root=tmp_path, home=tmp_path / "home")
    text = "start " + "x" * 10_000 + " end"
    shown = artifacts.error_for_prompt(project, "task/a1", text)
    file = tmp_path / ".sf" / "active" / "task_a1" / "last-error-full.txt"
    assert file.read_text() == text
    assert str(file) in shown
    assert shown.startswith("start ")
    assert shown.endswith(" end")
    assert len(shown) < 4096 + 200
    assert artifacts.error_for_prompt(project, "task/a1", "") == ""
