"""Workflow templates: those of the project, and the order in which one is chosen for a unit."""

from __future__ import annotations

import difflib
from pathlib import Path

from sf.domain.workflows import Workflow, parse
from sf.errors import MissingWorkflow
from sf.paths import Project

FEATURE = """\
name = "feature"
phases = ["research", "plan", "execute", "tdd", "verify", "review", "merge", "complete"]
require_tdd = true
require_review = true
require_uat = false
max_retries = 3
max_reassess = 2
"""

RELEASE = """\
name = "release"
phases = ["research", "plan", "execute", "tdd", "verify", "review", "uat", "merge", "complete"]
require_tdd = true
require_review = true
require_uat = true
max_retries = 3
max_reassess = 2
"""

SPIKE = """\
# Finds something out: no gates, no merge. The work is left on a branch of its own.
name = "spike"
phases = ["research", "plan", "execute", "complete"]
require_tdd = false
require_review = false
max_retries = 0
needs_evidence = false
"""

BUILT_IN = {"feature": FEATURE, "release": RELEASE, "spike": SPIKE}


def available(project: Project) -> dict[str, Path]:
    """The project's template files by name."""
    return {file.stem: file for file in sorted(project.workflows.glob("*.toml"))}


def choose(project: Project, explicit: str | None, default: str) -> tuple[Workflow, str]:
    """The workflow for a new unit and its content: asked for, else the project's default, else `feature`."""
    files = available(project)
    name = explicit or default or ("feature" if "feature" in files else next(iter(files), "feature"))
    if name not in files:
        close = difflib.get_close_matches(name, files, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "there are: " + (", ".join(files) or "none")
        raise MissingWorkflow(f"there is no workflow {name!r} in {project.workflows}", hint=hint)
    content = files[name].read_text(encoding="utf-8")
    return parse(content, str(files[name])), content


def read(file: Path) -> Workflow:
    """Parse a template file. Raises InvalidWorkflow."""
    return parse(file.read_text(encoding="utf-8"), str(file))


def check_all(project: Project) -> list[Workflow]:
    """Parse every template. Raises InvalidWorkflow at the first that is wrong."""
    return [read(file) for file in available(project).values()]
