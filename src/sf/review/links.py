"""Gates that are links: what they lead to, in a checkout and in a commit."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sf.paths import Project
from sf.workspaces.extract import Entry, entries, is_link, leads_to
from sf.workspaces.owned import OwnedRepository

_STEPS = 8


def readable(project: Project, gate: Path) -> list[Path]:
    """What must be readable for a gate to run: its folder, and those of what it is a link to.

    One that an agent may have committed opens nothing outside of the repository, or of what was laid out of
    it, nor the whole of a checkout.
    """
    bounds = _bounds(project, gate)
    found = [gate.parent]
    for step in steps(gate)[1:]:
        folder = step.parent.resolve()
        if bounds is None:
            found += [step.parent, step]
        elif not step.resolve().is_relative_to(bounds) or ".git" in folder.parts:
            break
        else:
            found.append(step if folder in (project.root, project.dot) else step.parent)
    return found


def leads_out(project: Project, gate: Path) -> str:
    """Where a gate that an agent may have committed leads to outside of its repository; empty if nowhere."""
    bounds, target = _bounds(project, gate), gate.resolve()
    return "" if bounds is None or target.is_relative_to(bounds) else str(target)


def _bounds(project: Project, gate: Path) -> Path | None:
    """What a gate's links may not lead out of; None for the operator's own, which no agent writes."""
    path, laid_out = Path(os.path.normpath(gate)), project.committed_gates
    if path.is_relative_to(laid_out):
        return (laid_out / path.relative_to(laid_out).parts[0]).resolve()
    inside = path.is_relative_to(project.root) and not path.is_relative_to(project.dot)
    return project.root.resolve() if inside else None


def steps(gate: Path) -> list[Path]:
    """A gate, and what it leads to from link to link."""
    found = [gate]
    while found[-1].is_symlink() and len(found) <= _STEPS:
        last = found[-1]
        found.append(Path(os.path.normpath(last.parent.resolve() / last.readlink())))
    return found


class Followed(msgspec.Struct, frozen=True):
    """The files of a commit that a gate is found by, itself first, and why the last one is none."""

    paths: tuple[str, ...]
    last: Entry | None
    trouble: str = ""


async def followed(owned: OwnedRepository, commit: str, path: str) -> Followed:
    """Follow a gate through the links of a commit, so far as they stay in it."""
    paths: list[str] = []
    told = ""
    for _ in range(_STEPS):
        found = [entry for entry in await entries(owned, commit, [path]) if entry.path == path]
        if not found:
            return Followed(tuple(paths), None, f"is a link to {path}, which is no file of the branch")
        paths.append(path)
        if not is_link(found[0]):
            return Followed(tuple(paths), found[0])
        path, told = await leads_to(owned, found[0])
        if not path:
            return Followed(tuple(paths), None, f"is a link to {told}, which leads out of the branch")
    return Followed(tuple(paths), None, f"is a link to {told}, which leads from link to link")
