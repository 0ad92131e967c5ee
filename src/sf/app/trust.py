"""The one way to the configuration: what came with the repository is held to tightening, whoever asks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from sf.app import templates
from sf.config.load import load
from sf.config.schema import Config
from sf.domain.phases import Phase
from sf.domain.workflows import Workflow
from sf.errors import UnsafeConfig
from sf.harness.artifacts import LINKS
from sf.paths import Project
from sf.workspaces.git import Git
from sf.workspaces.repository import UserRepository

PROJECT_FILE = ".sf/config.toml"
_FILES = (".sf/.gitignore", PROJECT_FILE, ".sf/plan.md")
_FOLDERS = (".sf/workflows/", ".sf/gates/", ".sf/hooks/", ".sf/playbooks/")


def load_config(project: Project) -> Config:
    """The configuration in force, for a command that has no loop of its own."""
    return asyncio.run(_load(project))


def is_tracked(project: Project, file: Path) -> bool:
    """Whether git tracks a file of the project's: then it came with the repository."""

    async def tracked() -> list[str]:
        return await (await UserRepository.open(project.root, project.facade, Git())).tracked_files()

    return str(file.relative_to(project.root)) in asyncio.run(tracked())


async def _load(project: Project) -> Config:
    return await load_trusted(project, await UserRepository.open(project.root, project.facade, Git()))


async def load_trusted(
    project: Project, user: UserRepository, *, taken: tuple[Path, bool] | None = None
) -> Config:
    """The configuration in force. Raises InvalidConfig or UnsafeConfig with every problem.

    With `taken`, by that file in the place of the project's, which git tracks or not.
    """
    tracked = set(await user.tracked_files())
    require_own_folder(project.dot, tracked)
    file, came_along = taken or (project.config, PROJECT_FILE in tracked)
    config = load(project.global_config, file, project_file_is_tracked=came_along)
    for file in templates.available(project).values():
        workflow = templates.read(file)
        if f".sf/workflows/{file.name}" in tracked:
            _refuse_lax(workflow, str(file))
    return config


def require_own_folder(dot: Path, tracked: Collection[str] = ()) -> None:
    """Raise UnsafeConfig unless `.sf` is this project's own: no link in it, no state that came along."""
    foreign = [
        name for name in tracked if name == ".sf" or (name.startswith(".sf/") and not _may_come_along(name))
    ]
    links = [str(path) for path in _links(dot)]
    if foreign or links or (dot / ".git").exists():
        raise UnsafeConfig(
            f"{dot} holds what is not sf's own: {', '.join([*foreign, *links][:5]) or 'a repository'}",
            hint="remove it (from the repository too) and run sf init",
        )


def _may_come_along(name: str) -> bool:
    return name in _FILES or name.startswith(_FOLDERS)


def _links(dot: Path) -> Iterator[Path]:
    """Symbolic links at and below `.sf`, but for those of sf's own; the archive is never opened again."""
    if dot.is_symlink():
        yield dot
        return
    for here, folders, files in os.walk(dot, followlinks=False):
        folders[:] = [
            name for name in folders if Path(here, name) != dot / "archive" or Path(here, name).is_symlink()
        ]
        for name in (*folders, *files):
            path = Path(here, name)
            if path.is_symlink() and not (name in LINKS and path.parent.parent == dot / "active"):
                yield path


def _refuse_lax(workflow: Workflow, file: str) -> None:
    """A template that came with the repository must review and prove whatever it merges."""
    if not workflow.has(Phase.MERGE):
        return
    missing = [phase.value for phase in (Phase.VERIFY, Phase.REVIEW) if not workflow.has(phase)]
    if missing:
        raise UnsafeConfig(
            f"{file} came with the repository and merges without {' and '.join(missing)}",
            hint="add the phases, or stop tracking the file",
        )


def gates_of(config: Config) -> tuple[str, ...]:
    """Every configured gate."""
    scripts = config.harness.gates
    return (*scripts.post_task, *scripts.post_slice, *scripts.post_milestone)
