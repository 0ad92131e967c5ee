"""Where contained commands look for programs: where the user's own do, and not where sf keeps its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_SOURCES = Path(__file__).resolve().parents[3]
"""The folder that holds `src/sf`, where sf runs from its sources."""


def own_environment(prefix: Path, base_prefix: Path, sources: Path = _SOURCES) -> Path | None:
    """The virtual environment that holds nothing but sf: the one that `make install` put beside its sources.

    One that sf was installed into may be the project's as well, with its tools, and stays.
    """
    prefix = prefix.resolve()
    return prefix if prefix != base_prefix.resolve() and prefix.is_relative_to(sources) else None


def without(environment: Mapping[str, str], own: Path | None, root: Path) -> dict[str, str]:
    """The environment with `own` taken from PATH, unless it is the environment of the project in `root`."""
    if own is None or own.is_relative_to(root.resolve()):
        return dict(environment)
    kept = [
        entry
        for entry in environment.get("PATH", "").split(os.pathsep)
        if not entry or Path(entry).resolve() != own / "bin"
    ]
    return {**environment, "PATH": os.pathsep.join(kept)}


def users_environment(root: Path) -> dict[str, str]:
    """This process's environment as commands of the project in `root` shall see it.

    A gate's `python3` is then the user's, who put sf's folder on PATH for the sake of `sf` alone.
    """
    return without(os.environ, own_environment(Path(sys.prefix), Path(sys.base_prefix)), root)
