"""The files that a unit hands on (research.md, plan.md, attempts.md, …), archived by rename."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sf import files
from sf.domain.clock import Instant
from sf.domain.excerpt import last_error
from sf.domain.ids import folder_name
from sf.domain.utf8 import escaped
from sf.paths import Project

RESEARCH = "research.md"
PLAN = "plan.md"
ATTEMPTS = "attempts.md"
FULL_ERROR = "last-error-full.txt"
DECISION = "decision.md"
QUESTION = "human-question.md"
_WORKSPACE = "workspace"
_FRESH_WORKSPACE = ".workspace.new"
LINKS = frozenset({_WORKSPACE, _FRESH_WORKSPACE})
"""The links in a unit's folder that are sf's own; the second one stays when sf is killed half-way."""


def write(project: Project, unit_id: str, name: str, text: str) -> Path:
    """Write an artifact in one step."""
    folder = project.active(unit_id)
    folder.mkdir(parents=True, exist_ok=True)
    files.put(folder / name, escaped(text), sync=True)
    return folder / name


def read(project: Project, unit_id: str, name: str, limit: int = 12_000) -> str:
    """An artifact within a budget; empty when there is none."""
    try:
        text = (project.active(unit_id) / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    return text if len(text) <= limit else text[:limit] + "\n... [cut] ..."


def append_line(project: Project, unit_id: str, name: str, line: str) -> None:
    """Add a line to an artifact."""
    folder = project.active(unit_id)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(line.rstrip("\n") + "\n")


def error_for_prompt(project: Project, unit_id: str, text: str) -> str:
    """The error as a prompt shows it; the whole of it is kept beside."""
    if not text:
        return ""
    full = write(project, unit_id, FULL_ERROR, text)
    return last_error(text, str(full))


def run_log(run_id: str) -> str:
    """The name of a run's own log."""
    return f"run-{run_id}.log"


def link_workspace(project: Project, unit_id: str, folder: Path) -> None:
    """`active/<unit>/workspace` points to where the work is done."""
    link = project.active(unit_id) / _WORKSPACE
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and Path(os.readlink(link)) == folder:  # noqa: PTH115
        return
    fresh = link.with_name(_FRESH_WORKSPACE)
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder)
    fresh.replace(link)


def archive(project: Project, unit_id: str, now: Instant) -> Path | None:
    """Move the unit's folder to the archive by one rename; None when it has none."""
    try:
        os.stat(project.active_name(unit_id))  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    return archive_folder(project, project.active(unit_id), now)


def archive_folder(project: Project, source: Path, now: Instant) -> Path:
    """Move a folder of artifacts to the archive by one rename, beside whatever has its name; where it is."""
    first = project.archived(source.name, now)
    first.parent.mkdir(parents=True, exist_ok=True)
    target, number = first, 1
    while target.exists():
        number += 1
        target = first.with_name(f"{first.name}.{number}")
    source.rename(target)
    return target


def restore(project: Project, unit_id: str) -> Path | None:
    """Move the unit's newest archived folder back by one rename; None when it has none, or an active one."""
    target = project.active(unit_id)
    shape = re.compile(rf"(\d{{4}}-\d\d-\d\d)-{re.escape(folder_name(unit_id))}(?:\.(\d+))?")
    found = []
    for folder in (project.dot / "archive").glob(f"*-{folder_name(unit_id)}*"):
        match = shape.fullmatch(folder.name)
        if match and folder.is_dir() and not folder.is_symlink():
            found.append(((match[1], int(match[2] or 1)), folder))
    if not found or target.exists():
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    max(found)[1].rename(target)
    for name in LINKS:
        # Where the work was done is gone.
        (target / name).unlink(missing_ok=True)
    return target
