"""Everything that a scan found, as frozen data of one version."""

from __future__ import annotations

import msgspec

from sf.survey.commands import Command
from sf.survey.dependencies import Dependency
from sf.survey.entrypoints import EntryPoint
from sf.survey.history import Past
from sf.survey.languages import LeftOut, Share
from sf.survey.linkage import Linkage
from sf.survey.structure import Structure

VERSION = 1


class Found(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the tracked files and the newest commits say. The same tree and commits give the same findings."""

    version: int = VERSION
    project: str
    head: str = ""
    """The commit that was out."""
    files: int = 0
    """Tracked files, whether read or not."""
    definitions: int = 0
    languages: tuple[Share, ...] = ()
    structure: Structure = Structure()
    entry_points: tuple[EntryPoint, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    commands: tuple[Command, ...] = ()
    conventions: tuple[str, ...] = ()
    linkage: Linkage = Linkage()
    past: Past = Past()
    left_out: dict[LeftOut, int] = {}
    """How many files were not read, by reason."""
    broken: int = 0
    """Files with syntax errors; what could be read of them counts."""
    broken_files: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()
    """What could not be looked at, and why."""
