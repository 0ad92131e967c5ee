"""Processes that outlived the run or hook which started them, found by its mark in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from sf.domain.ids import ulid
from sf.errors import WorkspaceFailed

MARK = "SF_RUN_ID"
"""The variable that every command, hook and gate of a run gets."""
HOOK_MARK = "SF_HOOK_ID"
"""The variable that every hook gets."""
_HOOK = os.fsencode(f"{HOOK_MARK}=")
_PATIENCE = 5.0
_LOOK = 0.02


def run_mark(run_id: str) -> str:
    """What the processes of a run have in their environment."""
    return f"{MARK}={run_id}"


def hook_mark(hook_id: str) -> str:
    """What the processes of a hook have in their environment."""
    return f"{HOOK_MARK}={hook_id}"


class Note:
    """A hook that runs: its id, and whether the next start is to end what it left."""

    def __init__(self, hook_id: str) -> None:
        self.hook_id = hook_id
        self.stays = False


@contextlib.contextmanager
def noted(folder: Path) -> Iterator[Note]:
    """A new hook, noted in a folder until it has ended: a note that stays is of a killed sf, or was told to.

    Not whatever a hook has started: what one that ended in order left running was left on purpose.
    """
    path = folder / ulid()
    # On a full disk hooks run all the same.
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        path.touch()
    note = Note(str(path))
    try:
        yield note
    finally:
        if not note.stays:
            with contextlib.suppress(OSError):
                path.unlink()


def left_noted(folder: Path) -> list[Path]:
    """The notes of hooks that were running when sf was killed. Their paths are the hooks' ids."""
    return list(folder.iterdir()) if folder.is_dir() else []


def marked(marks: Iterable[str]) -> list[int]:
    """The live processes with one of these marks, this one aside.

    A hook's are found by the hook's mark alone, although they have that of its run as well.
    """
    wanted = {os.fsencode(mark) for mark in marks}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # One that has ended, or another user's. Any other error is told: what cannot be seen may run.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            variables = (entry / "environ").read_bytes().split(b"\0")
            hooks = [variable for variable in variables if variable.startswith(_HOOK)]
            if not wanted.isdisjoint(hooks or variables):
                found.append(int(entry.name))
    return found


def end(marks: Iterable[str]) -> int:
    """Kill what bears one of these marks, and wait until it is gone; how many there were.

    Raises WorkspaceFailed when something does not end: nothing may begin where it still writes.
    """
    names = list(marks)
    left = marked(names) if names else []
    count = len(left)
    deadline = time.monotonic() + _PATIENCE
    while left and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK)
        left = marked(names)
    if left:
        hint = f"end it yourself: kill -9 {left[0]}"
        raise WorkspaceFailed(f"process {left[0]} of an earlier run cannot be ended", hint=hint)
    return count
