"""Stating goals: `sf plan`, `sf dispatch` and `.sf/plan.md`."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from sf.app import clones, intake, stores, templates
from sf.app.trust import load_config
from sf.config.schema import Config
from sf.errors import BadUsage, DetachedHead, EmptyRepository
from sf.paths import Project, identify
from sf.store.place import Url
from sf.workspaces.git import Git
from sf.workspaces.repository import UserRepository

_OPTION = re.compile(r"^- (workflow|priority|issue): *(\S+) *$")
_NUMBER = re.compile("[0-9]{1,15}")


def plan(
    project: Project,
    goal: str,
    *,
    workflow: str | None = None,
    link_issue: int | None = None,
    priority: int | None = None,
    adhoc: bool = False,
) -> dict[str, Any]:
    """Add a milestone (or one ad-hoc task) for a goal; its id and title."""
    if not goal.replace("\0", "").strip():
        raise BadUsage("the goal is empty", hint='sf plan "what should be true when it is done"')
    payload = {
        **_common(project, workflow),
        "goal": goal,
        "priority": priority,
        "adhoc": adhoc,
        # What is asked for here and now is done here; a goal is whose autopilot takes it first.
        "station": _station(project) if adhoc else "",
        "metadata": _metadata(workflow, link_issue),
    }
    return intake.submit(project, "plan", payload)


def has_gates(project: Project) -> bool:
    """Whether anything would prove what is merged."""
    gates = load_config(project).harness.gates
    return bool(gates.post_slice or gates.post_task)


def _station(project: Project) -> str:
    """This folder's lasting name where others may share its store; empty where the store is its own file."""
    identify(project)
    return project.key if isinstance(stores.chosen(project, load_config(project)), Url) else ""


def _metadata(workflow: str | None, issue: int | None) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if workflow:
        metadata["workflow"] = workflow
    if issue is not None:
        metadata["gh_issue"] = issue
    return metadata


def _common(project: Project, workflow: str | None) -> dict[str, Any]:
    config = load_config(project)
    chosen, content = templates.choose(project, workflow, config.harness.default_workflow)
    return {
        "workflow": chosen.name,
        "content": content,
        "branch": asyncio.run(_branch(project, config)),
    }


async def _branch(project: Project, config: Config) -> str:
    """The integration branch: configured, else the one that is current now."""
    configured = config.harness.integration_branch
    user = await UserRepository.open(project.root, project.facade, Git())
    head = await user.head()
    if head.commit is None:
        raise EmptyRepository("the repository has no commit yet", hint="git commit something first")
    await clones.require(project, stores.chosen(project, config), user)
    if configured:
        if await user.branch_commit(configured) is None:
            raise BadUsage(f"[harness] integration_branch: there is no branch {configured!r}")
        return configured
    if head.branch is None:
        raise DetachedHead(
            "HEAD is detached, so there is no branch to integrate into",
            hint="git switch a branch, or set [harness] integration_branch",
        )
    return head.branch


def reload(project: Project) -> dict[str, Any]:
    """Bring the milestones that came from this folder's .sf/plan.md into line with it."""
    try:
        text = project.plan_file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadUsage(
            f"there is no {project.plan_file}", hint="docs/workflows.md shows its format"
        ) from None
    except UnicodeDecodeError as error:
        raise BadUsage(f"{project.plan_file} is not UTF-8: {error.reason}") from None
    milestones = []
    for entry in parse_plan_file(text):
        chosen = _common(project, entry.pop("workflow", None))
        milestones.append({**chosen, **entry})
    shared = bool(_station(project))
    payload = {"milestones": milestones, "folder": project.key, "shared": shared}
    return intake.submit(project, "plan_reload", payload)


def parse_plan_file(text: str) -> list[dict[str, Any]]:
    """The milestones of a plan file: a `## title` each, `- key: value` options, then the description."""
    entries: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            if not line[3:].strip():
                raise BadUsage(f".sf/plan.md line {number}: a milestone needs a title")
            entries.append({"goal": line[3:].strip(), "metadata": {}})
        elif entries:
            _read_line(entries[-1], line, number)
    if not entries:
        raise BadUsage(".sf/plan.md has no milestone", hint='write one as a line "## title"')
    titles = [entry["goal"].splitlines()[0] for entry in entries]
    twice = {title for title in titles if titles.count(title) > 1}
    if twice:
        raise BadUsage(f".sf/plan.md names a milestone twice: {', '.join(sorted(twice))}")
    return [{**entry, "goal": entry["goal"].strip()} for entry in entries]


def _read_line(entry: dict[str, Any], line: str, number: int) -> None:
    match = _OPTION.match(line)
    if match is None:
        entry["goal"] += "\n" + line
        return
    key, value = match.groups()
    if key == "workflow":
        entry["workflow"] = value
    elif not _NUMBER.fullmatch(value):
        raise BadUsage(f".sf/plan.md line {number}: {key} must be a number such as 2, not {value[:40]!r}")
    elif key == "priority":
        entry["priority"] = check_priority(int(value))
    else:
        entry["metadata"]["gh_issue"] = int(value)


def check_priority(value: int | None) -> int | None:
    """A priority of 1 to 4, or none."""
    if value is not None and not 1 <= value <= 4:
        raise BadUsage(f"priority {value}: must be 1 (urgent) to 4 (low)")
    return value
