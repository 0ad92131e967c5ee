"""What the figures were measured on: versions, processors, and what the disk's fsync costs."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.timing import Stopwatch
from sf import __version__

PEERS = ("dbos", "huey", "langgraph", "langgraph-checkpoint-sqlite", "mini-swe-agent")
_SYNCS = 200


def describe(folder: Path) -> str:
    """What a reader needs to judge the figures; `folder` is on the disk that is written to."""
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    peers = ", ".join(f"{name} {_version(name)}" for name in PEERS)
    syncs = fsync_seconds(folder)
    return (
        f"sf {__version__}; Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, git {git}\n"
        f"{peers}\n"
        f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} processors, "
        f"load {os.getloadavg()[0]:.1f}\n"
        f"fsync of 4 KiB: {syncs * 1000:.2f} ms, {1 / syncs:,.0f} a second"
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "MISSING"


def fsync_seconds(folder: Path) -> float:
    """The median time to append a page to a file and have it on disk."""
    path = folder / "fsync-probe"
    page = os.urandom(4096)
    taken = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            watch = Stopwatch()
            file.write(page)
            os.fsync(file.fileno())
            taken.append(watch.seconds())
    path.unlink()
    return statistics.median(taken)
