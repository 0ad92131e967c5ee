from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.chaos.ground import Ground
from tests.chaos.plays import SHORT
from tests.chaos.progress import TALLY, Progress
from tests.chaos.sweep import FULL, SEED, Swept, Tally
from tests.chaos.tracer import Order

_TRACER = Path(__file__).with_name("tracer.py")
_MEMORY, _ROOM = Path("/dev/shm"), 2 << 30
_WHERE = "PYTEST_DEBUG_TEMPROOT"
_LONG = ("test_drainers", "test_state_machine", "test_struck_commands", "test_truncation", "test_beginnings")
"""Modules whose single tests take minutes in the full form: begun last, one would keep a core idle."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """The full form runs in memory where it can, and tells how far it is."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not FULL or reporter is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    # A kill loses nothing of what is written but not yet synced: on a disk only the waiting would differ.
    if _WHERE not in os.environ and config.option.basetemp is None:
        if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM:
            os.environ[_WHERE] = str(_MEMORY)
        else:
            print(f"{_MEMORY} has no {_ROOM >> 30} GiB to spare: everything is done on the disk, more slowly")
    config.pluginmanager.register(Progress(reporter), "chaos-progress")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The full form begins with what takes longest."""
    if FULL:
        items.sort(key=lambda item: item.path.stem not in _LONG)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The short project of this worker."""
    with closing(Ground(tmp_path_factory.mktemp("chaos"), SHORT)) as ground:
        yield ground


@pytest.fixture
def ground(project: Ground) -> Ground:
    """The short project, at its beginning."""
    project.reset()
    return project


@pytest.fixture(scope="session")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where processes cannot be traced."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the tracer knows Linux on x86_64 only")
    folder = tmp_path_factory.mktemp("tracer")
    order = Order(within=str(folder), report=str(folder / "report"))
    probe = [sys.executable, str(_TRACER), msgspec.json.encode(order).decode(), "/bin/true"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        pytest.skip(f"processes cannot be traced here: {reason}")


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Tally:
    """Puts a sweep into the table at the end, and says what it lost."""

    def count(name: str, swept: Swept) -> str:
        record_property(TALLY, (name, swept.boundaries, swept.struck, len(swept.losses)))
        return "\n".join(swept.losses) if swept.struck else "nothing was struck"

    return count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of what was swept."""
    rows: dict[str, Counter[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", ()):
                if key == TALLY and getattr(report, "when", "") == "call":
                    name, boundaries, struck, losses = value
                    row = rows.setdefault(name, Counter())
                    row["boundaries"] = max(row["boundaries"], boundaries)
                    row["struck"] += struck
                    row["losses"] += losses
    if rows:
        form = "every boundary" if FULL else f"a sample, seed {SEED}"
        terminalreporter.write_line(f"chaos ({form})")
        terminalreporter.write_line(f"{'blow':<28}{'boundaries':>12}{'struck':>10}{'losses':>10}")
        for name, row in sorted(rows.items()):
            line = f"{name:<28}{row['boundaries']:>12}{row['struck']:>10}{row['losses']:>10}"
            terminalreporter.write_line(line)
