"""Commands as whole processes, against an interpreter that does nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.table import Row
from bench.timing import Contender, Stopwatch, medians

_RUNS = 3


async def measure(scratch: Path) -> list[Row]:
    """The rows of `sf --version` and `sf status`, on the project that `sf demo` leaves."""
    environment = {**os.environ, "SF_HOME": str(scratch / "home")}
    sf = str(Path(sys.executable).with_name("sf"))
    project = scratch / "project"
    _run([sf, "demo", "--folder", str(project)], scratch, environment)

    def timed(*words: str) -> Contender:
        def work() -> float:
            watch = Stopwatch()
            for _ in range(_RUNS):
                _run(words, project, environment)
            return watch.seconds() / _RUNS

        return lambda: asyncio.to_thread(work)

    found = await medians(
        {
            "python": timed(sys.executable, "-c", "pass"),
            "version": timed(sf, "--version"),
            "status": timed(sf, "status"),
        }
    )
    return [
        Row("sf --version", found["version"], "s", "python -c pass", found["python"]),
        Row("sf status", found["status"], "s", "python -c pass", found["python"], most_ratio=12),
    ]


def _run(words: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=120)
