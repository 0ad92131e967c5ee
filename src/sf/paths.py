"""Where a project keeps its things. The layout is stable: history, archive and tools rely on it."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from sf import files
from sf.domain.ids import folder_name
from sf.errors import NotAProject

DRIFT_FILE = "config-drift.json"
"""In `.sf/runtime/`: keys whose file differs from what the running session uses."""

_IDENTITY = "project-id"


class Project(msgspec.Struct, frozen=True):
    """The paths of one project and of the user's sf home."""

    root: Path
    home: Path

    @property
    def dot(self) -> Path:
        """`.sf/`"""
        return self.root / ".sf"

    @property
    def database(self) -> Path:
        """`.sf/sf.db`"""
        return self.dot / "sf.db"

    @property
    def lock(self) -> Path:
        """`.sf/run.lock`"""
        return self.dot / "run.lock"

    @property
    def config(self) -> Path:
        """`.sf/config.toml`"""
        return self.dot / "config.toml"

    @property
    def global_config(self) -> Path:
        """`~/.sf/config.toml`"""
        return self.home / "config.toml"

    @property
    def workflows(self) -> Path:
        """`.sf/workflows/`"""
        return self.dot / "workflows"

    @property
    def trace(self) -> Path:
        """`.sf/trace/`"""
        return self.dot / "trace"

    @property
    def runtime(self) -> Path:
        """`.sf/runtime/`"""
        return self.dot / "runtime"

    @property
    def plan_file(self) -> Path:
        """`.sf/plan.md`"""
        return self.dot / "plan.md"

    @property
    def survey(self) -> Path:
        """`.sf/survey.json`: what the last deep scan found."""
        return self.dot / "survey.json"

    @property
    def key(self) -> str:
        """A name for this project under the user's sf home; it stays when the folder is moved."""
        known = _read_identity(self)
        return known[0] if known else _named_by_path(self.root)

    @property
    def repository(self) -> Path:
        """sf's own repository for this project."""
        return self.home / "repos" / f"{self.key}.git"

    @property
    def facade(self) -> Path:
        """Where the façade for the user's repository is kept: named by the folder, not by what is in it."""
        return self.home / "repos" / f"{_named_by_path(self.root)}.user"

    @property
    def worktrees(self) -> Path:
        """Where worktrees are made: outside the project, because test runners look upwards."""
        return self.home / "worktrees" / self.key

    def active(self, unit_id: str) -> Path:
        """The artifacts of a unit in progress."""
        return self.dot / "active" / folder_name(unit_id)

    def archived(self, unit_id: str, at: int) -> Path:
        """The artifacts of a unit that ended."""
        day = datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d")
        return self.dot / "archive" / f"{day}-{folder_name(unit_id)}"

    def log_file(self, configured: str) -> Path:
        """The log: as configured, else in the project."""
        return Path(configured).expanduser() if configured else self.dot / "log" / "sf.log"


def _named_by_path(root: Path) -> str:
    return f"{folder_name(root.name)}-{hashlib.sha256(str(root).encode()).hexdigest()[:8]}"


def _read_identity(project: Project) -> tuple[str, str] | None:
    """The project's name under sf's home, and the folder it was given for."""
    try:
        lines = (project.dot / _IDENTITY).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        # Nothing else: one that cannot be read must not be replaced by another.
        return None
    return (folder_name(lines[0]), lines[1]) if len(lines) == 2 and lines[0] else None


def identify(project: Project) -> None:
    """Give the project its lasting name, made by chance so that nothing old is ever taken for its own.

    A moved folder keeps it; a copy beside the original gets a new one.
    """
    known = _read_identity(project)
    if known and known[1] == str(project.root):
        return
    moved = known is not None and not (Path(known[1]) / ".sf" / _IDENTITY).exists()
    fresh_name = f"{folder_name(project.root.name)}-{os.urandom(6).hex()}"
    key = known[0] if known and moved else fresh_name
    files.put(project.dot / _IDENTITY, f"{key}\n{project.root}\n")


def sf_home(environ: dict[str, str] | None = None) -> Path:
    """The user's sf home: $SF_HOME or ~/.sf. The one place where the environment names it."""
    named = (os.environ if environ is None else environ).get("SF_HOME")
    return Path(named).expanduser().resolve() if named else Path.home() / ".sf"


def find_project(start: Path) -> Project:
    """The project at or above a folder. Raises NotAProject."""
    home = sf_home()
    for folder in (start, *start.parents):
        if (folder / ".sf").is_dir() and (folder / ".sf") != home:
            return Project(root=folder.resolve(), home=home)
    raise NotAProject(f"no .sf/ in {start} or above", hint="run sf init in the root of your repository")
