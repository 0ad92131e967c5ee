"""How many characters of a prompt are fixed: the instructions and the tools' schemas of each phase."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from bench.table import Row
from sf.domain.phases import Phase
from sf.harness.prompts import Prompts
from sf.tools.submissions import MilestonePlan, Reassessment, ReviewNotes, Submit, Synthesis
from sf.tools.toolbox import Toolbox, for_phase

_OTHERS = {
    "Claude Code": 87_000,
    "Codex": 41_000,
    "goose": 19_000,
    "pi": 6_200,
    "mini-swe-agent": 4_100,
}
"""Characters that these sent for one and the same small task; figures measured elsewhere, not by this run."""

_MOST = 8_000
_VARIABLES: dict[str, Any] = {
    "unit_id": "task/m1/s1/t1",
    "unit_type": "task",
    "session_id": "",
    "issue": {"id": "", "type": "task", "title": "", "description": "", "priority": None, "metadata": {}},
    "context": "",
    "attempts": "",
    "research": "",
    "plan": "",
    "gates": [],
    "allowed_areas": (),
    "forbidden_areas": (),
    "folder": "",
    "diff": "",
    "summary": "",
    "chunk": {"number": 1, "count": 1, "diff": ""},
    "findings": "",
    "reason": "",
    "replans_left": 2,
}


def _toolboxes() -> dict[str, Toolbox]:
    def box(phase: Phase, name: str, parameters: type[Any]) -> Toolbox:
        return for_phase(phase, Submit(name, "Hand it in.", parameters))

    return {
        "research": for_phase(Phase.RESEARCH),
        "plan": box(Phase.PLAN, "submit_plan", MilestonePlan),
        "execute": for_phase(Phase.EXECUTE),
        "tdd": for_phase(Phase.TDD),
        "review_context": for_phase(Phase.REVIEW),
        "review_chunk": box(Phase.REVIEW, "submit_review", ReviewNotes),
        "review_synthesis": box(Phase.REVIEW, "submit_synthesis", Synthesis),
        "reassess": box(Phase.REASSESS, "submit_reassessment", Reassessment),
    }


async def measure(scratch: Path) -> list[Row]:
    """One row for each prompt, and execute's against what others send."""
    prompts = Prompts()
    sizes = {}
    for template, toolbox in _toolboxes().items():
        prompt = prompts.phase(template, {**_VARIABLES, "phase": template.partition("_")[0]})
        schemas = msgspec.json.encode(toolbox.specs()).decode()
        sizes[template] = len(prompt.instructions) + len(schemas)
    execute = sizes.pop("execute")
    rows = [Row("fixed prompt of execute", execute, "chars", most=_MOST)]
    rows += [Row(f"fixed prompt of {name}", size, "chars") for name, size in sizes.items()]
    return rows + [Row("fixed prompt of execute", execute, "chars", *other) for other in _OTHERS.items()]
