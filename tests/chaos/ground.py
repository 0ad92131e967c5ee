"""A project at one place, which is struck over and over and put back to its beginning each time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.chaos.plays import Play
from tests.chaos.stable import Ended, Stable
from tests.chaos.tracer import Act, Kind, Order, Report
from tests.support.stage import Stage

GATE_PROGRAMS = ("sh", "bash", "grep")
"""Left alone: a gate that cannot read is a gate that refuses, and is told to the agent."""


class Blow(msgspec.Struct, frozen=True):
    """What is done to a run, and to which of its calls."""

    name: str
    act: Act
    error: str = "ENOSPC"
    lasting: bool = False
    kind: Kind = "durable"
    calls: tuple[str, ...] = ()
    program: str = ""
    place: str = ""
    moment: int = 1
    """For a known moment: which of these calls it is."""
    empties: bool = False
    """What nobody had synced by then is empty afterwards."""
    journals: bool = False
    """Names are afterwards as a journal has them; what is counted are the commits of rows."""


class Ground:
    """A project at one place, which can be put back to its beginning as often as needed."""

    def __init__(self, folder: Path, play: Play) -> None:
        self._stable = Stable()
        self.folder = folder
        self.place = folder / "place"
        self.root = self.place / "project"
        self.home = self.place / "home" / ".sf"
        self.stage = Stage(self.root, self.home)
        self.project = self.stage.project
        play.prepare(self.stage)
        self._template = folder / "template"
        _copy(self.place, self._template)

    def reset(self, kept: Path | None = None) -> None:
        """Put everything back to before the first run, or to a state that was kept."""
        shutil.rmtree(self.place)
        _copy(kept or self._template, self.place)

    def keep(self, name: str) -> Path:
        """Set the present state aside for a look at it."""
        kept = self.folder / f"kept-{name}"
        shutil.rmtree(kept, ignore_errors=True)
        _copy(self.place, kept)
        return kept

    def close(self) -> None:
        """Nothing is started here any more."""
        self._stable.close()

    def sf(self, *arguments: str, order: Order | None = None) -> Ended:
        """The command as a process, in the project."""
        environment = {**os.environ, "SF_HOME": str(self.home), "HOME": str(self.home.parent)}
        return self._stable.sf(*arguments, cwd=self.root, environment=environment, order=order)

    @property
    def journal(self) -> Path:
        """What a file system with a journal would bring back, for a blow that looks at that."""
        return self.folder / "journal"

    def traced(self, blow: Blow, at: int = 0, command: Sequence[str] = ("auto",)) -> tuple[Ended, Report]:
        """A command of sf's under the tracer, with the blow dealt at the `at`-th boundary."""
        if blow.journals:
            shutil.rmtree(self.journal, ignore_errors=True)
            _copy(self.place, self.journal)
        path = self.folder / "report.json"
        path.unlink(missing_ok=True)
        order = Order(
            within=str(self.place),
            report=str(path),
            at=at,
            act=blow.act,
            error=blow.error,
            lasting=blow.lasting,
            kind=blow.kind,
            calls=blow.calls,
            program=blow.program,
            spared=GATE_PROGRAMS,
            place=blow.place,
            journal=str(self.journal) if blow.journals else "",
        )
        ended = self.sf(*command, order=order)
        if not path.exists():
            raise RuntimeError(f"the tracer itself failed: {ended.stderr[-2000:]}")
        return ended, msgspec.json.decode(path.read_bytes(), type=Report)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
