"""The temporary folders of runs, outside every worktree; a run's id is in their names."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from sf.policy.orphans import MARK

_PREFIX = "sf-run-"


def make(run_id: str) -> Path:
    """A new folder for a run, which its maker removes."""
    return Path(tempfile.mkdtemp(prefix=_prefix(run_id)))


def left() -> list[tuple[str, Path]]:
    """The folders that are there, each with the id of its run."""
    found = sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))
    return [(path.name.removeprefix(_PREFIX).split("-")[0], path) for path in found]


@contextlib.contextmanager
def of_job(given: Path | None, env: Mapping[str, str]) -> Iterator[Path]:
    """A job's folder with a home in it: the caller's, or one that is removed afterwards."""
    if given is not None:
        (given / "home").mkdir(exist_ok=True)
        yield given
        return
    prefix = _prefix(env[MARK]) if MARK in env else "sf-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        (Path(name) / "home").mkdir()
        yield Path(name)


def _prefix(run_id: str) -> str:
    return f"{_PREFIX}{run_id}-"
