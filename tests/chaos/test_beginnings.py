"""`sf init`, killed before any change to the project's folder: said again, everything is there and whole."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.chaos.stable import Ended, Stable
from tests.chaos.sweep import FULL, Swept, Tally
from tests.chaos.tracer import Order, Report


class Beginning:
    """A repository that sf has not seen yet."""

    def __init__(self, folder: Path) -> None:
        self._stable = Stable()
        self._folder = folder
        self.root = folder / "place" / "project"

    def close(self) -> None:
        """Nothing is started here any more."""
        self._stable.close()

    def reset(self) -> None:
        """A repository with a test and nothing of sf's."""
        shutil.rmtree(self.root.parent, ignore_errors=True)
        (self.root / "tests").mkdir(parents=True)
        (self.root / "tests" / "test_it.py").write_text("import unittest\n", encoding="utf-8")
        (self.root / "pyproject.toml").write_text('[project]\nname = "it"\n', encoding="utf-8")
        for command in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *command], cwd=self.root, check=True)

    def sf(self, *arguments: str, order: Order | None = None) -> Ended:
        """The command as a process."""
        home = self.root.parent / "home"
        environment = {**os.environ, "SF_HOME": str(home / ".sf"), "HOME": str(home)}
        return self._stable.sf(*arguments, cwd=self.root, environment=environment, order=order)

    def killed(self, at: int) -> Report:
        """`sf init`, killed at a boundary inside `.sf`."""
        report = self._folder / "report.json"
        order = Order(within=str(self.root / ".sf"), report=str(report), at=at, act="kill-all")
        self.sf("init", "--quick", order=order)
        return msgspec.json.decode(report.read_bytes(), type=Report)

    def written(self) -> dict[str, str]:
        """What init wrote for people: every file and whether it may be run, with its text."""
        names = [path for path in (self.root / ".sf").rglob("*") if path.suffix in (".toml", ".sh")]
        names.append(self.root / ".sf" / ".gitignore")
        return {
            f"{path.relative_to(self.root)} {path.stat().st_mode:o}": path.read_text(encoding="utf-8")
            for path in names
        }


@pytest.fixture
def beginning(tmp_path: Path) -> Iterator[Beginning]:
    """A repository that can be put back."""
    with closing(Beginning(tmp_path)) as beginning:
        yield beginning


def test_an_init_that_was_killed_is_said_again(tracer: None, beginning: Beginning, tally: Tally) -> None:
    beginning.reset()
    boundaries = len(beginning.killed(at=0).boundaries)
    whole = beginning.written()
    assert any(name.startswith(".sf/gates/") for name in whole)
    struck, losses = 0, []
    # What the database does is struck elsewhere.
    for at in range(1, boundaries + 1) if FULL else range(2, 40, 8):
        beginning.reset()
        assert beginning.killed(at).acted
        struck += 1
        again = beginning.sf("init", "--quick")
        if again.code != 0 or beginning.written() != whole:
            losses.append(f"{at}: {again.code} {again.stderr} {sorted(beginning.written())}")
    lost = tally("init: kill everything", Swept(boundaries, struck, losses))
    assert not lost, lost
