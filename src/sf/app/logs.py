"""The log as a project's configuration asks for it."""

from __future__ import annotations

from sf.config.schema import Config
from sf.observe.log import Log
from sf.paths import Project


def log_of(project: Project, config: Config) -> Log:
    """The project's log; its file is opened by the first line."""
    settings = config.harness.log
    return Log(
        project.log_file(settings.path),
        max_size=settings.max_size,
        max_files=settings.max_files,
        stderr=settings.stderr,
    )
