"""Where a project keeps its things. The layout is stable: history, archive and tools rely on it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from sf import files
from sf.domain.ids import folder_name
from sf.domain.utf8 import escaped
from sf.errors import NotAProject

LOCK_FILE = "run.lock"
DRIFT_FILE = "config-drift.json"
"""In `.sf/runtime/`: keys whose file differs from what the running session uses."""

_IDENTITY = "project-id"
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR)


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
        return self.dot / LOCK_FILE

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
        own = known is not None and _origin(self, known) != "copied"
        return known[0] if known and own else _named_by_path(self.root)

    @property
    def repository(self) -> Path:
        """sf's own repository for this project."""
        return self.home / "repos" / f"{self.key}.git"

    @property
    def aside(self) -> Path:
        """Where lies what was found in a worktree and no commit can hold."""
        return beside(self.repository)

    @property
    def committed_gates(self) -> Path:
        """Where gates lie as branches have them that are not checked out: `.sf` itself holds no links."""
        return self.repository.with_suffix(".gates")

    @property
    def facade(self) -> Path:
        """Where the façade for the user's repository is kept: named by the folder, not by what is in it."""
        return _facade_of(self.home, self.root)

    @property
    def worktrees(self) -> Path:
        """Where worktrees are made: outside the project, because test runners look upwards."""
        return self.home / "worktrees" / self.key

    def active(self, unit_id: str) -> Path:
        """The artifacts of a unit in progress."""
        return Path(self.dot, "active", folder_name(unit_id))

    def active_name(self, unit_id: str) -> str:
        """The same as text, for who only asks whether it is there: no path needs to be made for that."""
        return f"{self.root}/.sf/active/{folder_name(unit_id)}"

    def archived(self, unit_id: str, at: int) -> Path:
        """The artifacts of a unit that ended."""
        day = datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d")
        return self.dot / "archive" / f"{day}-{folder_name(unit_id)}"

    def log_file(self, configured: str) -> Path:
        """The log: as configured, else in the project."""
        return Path(configured).expanduser() if configured else self.dot / "log" / "sf.log"


def beside(repository: Path) -> Path:
    """The folder beside a repository of sf's that holds what no commit can."""
    return repository.with_suffix(".aside")


def _named_by_path(root: Path) -> str:
    return f"{folder_name(root.name)}-{hashlib.sha256(str(root).encode()).hexdigest()[:8]}"


def _facade_of(home: Path, root: Path) -> Path:
    return home / "repos" / f"{_named_by_path(root)}.user"


def _read_identity(project: Project) -> tuple[str, str] | None:
    """The project's name under sf's home, and the folder it was given for."""
    try:
        lines = (project.dot / _IDENTITY).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        # Nothing else: one that cannot be read must not be replaced by another.
        return None
    return (folder_name(lines[0]), lines[1]) if len(lines) == 2 and lines[0] else None


def _origin(project: Project, known: tuple[str, str]) -> Literal["here", "copied", "moved"]:
    """How the folder came by the name that it has: a copy is one whose original still goes by it."""
    if known[1] == str(project.root):
        return "here"
    # Of several copies of a folder that has moved on, the first that comes has the name.
    roots = [root for root in (known[1], _holder(project.home, known[0])) if root]
    for original in (Project(root=Path(root), home=project.home) for root in roots):
        try:
            there = _read_identity(original)
            if there is not None and original.dot.samefile(project.dot):
                return "here"
        except (OSError, UnicodeError):
            # Something is there that cannot be looked at: a name of its own harms nobody.
            return "copied"
        if there is not None and there[0] == known[0]:
            return "copied"
    return "moved"


def _holder(home: Path, key: str) -> str:
    """The folder that goes by a name, as far as sf's home knows."""
    try:
        return (home / "repos" / f"{key}.folder").read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _hold(project: Project, key: str) -> None:
    if _holder(project.home, key) != str(project.root):
        (project.home / "repos").mkdir(parents=True, exist_ok=True)
        files.put(project.home / "repos" / f"{key}.folder", f"{project.root}\n")


def identify(project: Project) -> None:
    """Give the project its lasting name, made by chance so that nothing old is ever taken for its own.

    A moved folder keeps it, and what is known of a landing under way there; a copy beside the original
    gets a new one.
    """
    file = project.dot / _IDENTITY
    fresh = f"{folder_name(project.root.name)}-{os.urandom(6).hex()}\n{project.root}\n"
    known = _read_identity(project)
    if known is not None and known[1] == str(project.root):
        _hold(project, known[0])
        return
    with file.open("ab") as held:
        # Of several commands that come to a new place at once, the others take what the first decided.
        fcntl.flock(held, fcntl.LOCK_EX)
        known = _read_identity(project) or known
        origin = _origin(project, known) if known else "new"
        if known is None or origin == "copied":
            files.put(file, fresh, sync=True)
        elif origin == "moved":
            _take_along(project, Path(known[1]))
            files.put(file, f"{known[0]}\n{project.root}\n", sync=True)
            _hold(project, known[0])


def _take_along(project: Project, origin: Path) -> None:
    """Bring the façade of a moved folder to its new place: the journal of a landing is in it.

    What lies at either place may be another folder's: that of a project which is there now is left alone.
    """
    old = _facade_of(project.home, origin)
    if old.is_dir() and not (origin / ".sf" / _IDENTITY).exists():
        import shutil  # here alone: every command imports this module

        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(project.facade)
        old.rename(project.facade)


def sf_home(environ: dict[str, str] | None = None) -> Path:
    """The user's sf home: $SF_HOME or ~/.sf. The one place where the environment names it."""
    named = (os.environ if environ is None else environ).get("SF_HOME")
    return Path(named).expanduser().resolve() if named else Path.home() / ".sf"


def project_at(folder: Path) -> Project:
    """The project of which this folder is the root. Raises NotAProject where no row could name it."""
    project = Project(root=folder.resolve(), home=sf_home())
    for path in (str(project.root), str(project.home)):
        if escaped(path) != path:
            raise NotAProject(f"the path {escaped(path)} is not UTF-8", hint="move it to one that is")
    return project


def find_project(start: Path) -> Project:
    """The project at or above a folder, by its own name if it was moved or copied. Raises NotAProject."""
    home = sf_home()
    for folder in (start, *start.parents):
        if (folder / ".sf").is_dir() and (folder / ".sf") != home:
            project = project_at(folder)
            _recognise(project)
            return project
    raise NotAProject(f"no .sf/ in {start} or above", hint="run sf init in the root of your repository")


def _recognise(project: Project) -> None:
    """Identify a folder that was moved or copied; one that can only be read stays as it is."""
    try:
        if _read_identity(project):
            identify(project)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
