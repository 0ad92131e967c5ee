"""Processes that outlived the run which started them, found by the run's mark in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

MARK = "SF_RUN_ID"
"""The variable that every command, hook and gate of a run gets."""
_PATIENCE = 5.0
_LOOK = 0.02


def marked(run_ids: Iterable[str]) -> list[int]:
    """The live processes that a run has started, this one aside."""
    wanted = [f"{MARK}={run_id}".encode() for run_id in run_ids]
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # One that has ended, or another user's. Any other error is told: what cannot be seen may run.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            variables = (entry / "environ").read_bytes().split(b"\0")
            if any(mark in variables for mark in wanted):
                found.append(int(entry.name))
    return found


def end(run_ids: Iterable[str]) -> int:
    """Kill what these runs left behind, and wait until it is gone; how many there were."""
    names = list(run_ids)
    left = marked(names) if names else []
    count = len(left)
    deadline = time.monotonic() + _PATIENCE
    while left and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK)
        left = marked(names)
    return count
