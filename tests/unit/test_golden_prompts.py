"""Every prompt as a model sees it, compared with a golden file; `make golden` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sf.domain.phases import Phase
from sf.harness.prompts import Prompts
from sf.tools.base import schema_of
from sf.tools.submissions import MilestonePlan
from sf.tools.toolbox import for_phase

GOLDEN = Path(__file__).parent.parent / "snapshots" / "prompts"

BASE: dict[str, Any] = {
    "unit_id": "task/m1/s2/t3",
    "unit_type": "task",
    "phase": "execute",
    "attempt": None,
    "session_id": "01J0000000000000000000000A",
    "issue": {"title": "Keep slugs unique", "description": "Add -2, -3, … until the slug is free."},
    "last_error": None,
    "context": "Give textkit slugs › Slugs",
    "attempts": "",
    "research": "## What is there\n`words(text)` splits.",
    "plan": "# Goal\nSlugs are unique.\n",
    "gates": ["run-tests.sh"],
    "allowed_areas": ("textkit/slugs.py", "tests/test_slugs.py"),
    "forbidden_areas": (),
    "folder": "/project/.sf/active/task_m1_s2_t3",
}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "research": ("research", {"unit_type": "milestone", "phase": "research", "plan": "", "research": ""}),
    "plan-milestone": ("plan", {"unit_type": "milestone", "phase": "plan", "plan": ""}),
    "plan-slice": ("plan", {"unit_type": "slice", "phase": "plan", "plan": ""}),
    "plan-task": ("plan", {"phase": "plan", "plan": ""}),
    "execute": ("execute", {}),
    "execute-retry": (
        "execute",
        {
            "attempt": 1,
            "last_error": "gate run-tests failed:\nexit code 1\nFAIL: test_ties",
            "attempts": "- run 1, execute: Done\n- run 2, verify: GateFailed — gate run-tests",
        },
    ),
    "tdd": ("tdd", {"phase": "tdd"}),
    "review-context": ("review_context", {"phase": "review", "diff": "diff --git a/x b/x\n+new"}),
    "review-chunk": (
        "review_chunk",
        {"phase": "review", "summary": "It adds x.", "chunk": {"number": 1, "count": 2, "diff": "+new"}},
    ),
    "review-synthesis": (
        "review_synthesis",
        {"phase": "review", "summary": "It adds x.", "findings": "- [major] x: wrong. Do: mend it"},
    ),
    "reassess": (
        "reassess",
        {
            "phase": "reassess",
            "reason": "gate_exhausted",
            "replans_left": 1,
            "diff": "+new",
            "last_error": "boom",
        },
    ),
    "reassess-last": (
        "reassess",
        {"phase": "reassess", "reason": "stale", "replans_left": 0, "diff": "", "last_error": None},
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_a_prompt_is_as_its_golden_file(name: str) -> None:
    template, changes = CASES[name]
    prompt = Prompts().phase(template, {**BASE, **changes})
    text = f"{prompt.instructions}\n=====\n{prompt.task}\n"
    file = GOLDEN / f"{name}.md"
    if os.environ.get("SF_WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), "make golden writes it anew"


def test_no_golden_file_is_left_over() -> None:
    assert {file.stem for file in GOLDEN.glob("*.md")} == set(CASES)


def test_the_fixed_part_of_an_execute_turn_stays_lean() -> None:
    prompt = Prompts().phase("execute", BASE)
    tools = for_phase(Phase.EXECUTE).specs()
    schemas = sum(len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in tools)
    assert len(prompt.instructions) + schemas <= 8_000


def test_a_milestones_plan_schema_names_every_field_it_checks() -> None:
    schema = schema_of(MilestonePlan)
    assert {"goal", "approach", "deliverables", "slices"} <= set(schema["required"])
    task = schema["$defs"]["TaskEntry"]["properties"]
    assert {"title", "deliverables", "verification", "allowed_areas", "blocked_by"} <= set(task)
