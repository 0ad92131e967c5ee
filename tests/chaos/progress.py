"""How far a full form is, told while it runs: it takes hours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

TALLY = "chaos"
"""The property of a report that holds a sweep: its name, its boundaries, how many were struck, the losses."""


class Progress:
    """A line for every sweep that has ended."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._began = time.monotonic()
        self._tests = self._ended = self._struck = self._losses = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers."""
        self._tests = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        """Every worker has the same tests."""
        self._tests = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what ended; of a sweep, tell it."""
        if report.when != "call":
            return
        self._ended += 1
        swept: list[Any] = [value for key, value in report.user_properties if key == TALLY]
        for name, _, struck, losses in swept:
            self._struck += struck
            self._losses += losses
            minutes = (time.monotonic() - self._began) / 60
            self._reporter.write_line(
                f" {minutes:5.1f} min  {self._ended}/{self._tests} tests, {self._struck} strikes, "
                f"{self._losses} losses; {name}: {struck} in {report.duration:.0f} s"
            )
