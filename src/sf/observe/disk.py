"""How much room a project's worktrees and sf's own repository take: measured by the loop, read by anyone."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import msgspec

from sf import files
from sf.domain.sizes import told
from sf.paths import Project

FILE = "disk.json"
"""In `.sf/runtime/`: what was measured last."""
GIB = 1 << 30
_BUDGET = 5.0


class DiskUse(msgspec.Struct, frozen=True):
    """Bytes on disk at one moment."""

    worktrees: int
    repository: int
    """What only sf's repository holds; objects that it shares with the user's by hard links cost nothing."""
    measured_at: int
    aside: int = 0
    """What was set aside from worktrees; `sf rescue list` names it, and it goes only by the user's hand."""
    quota: int = 0
    """What the worktrees may take; 0 is no limit."""
    whole: bool = True
    """False when it took too long to look at everything: there is at least so much."""

    @property
    def over(self) -> bool:
        """Whether the worktrees take more than they may."""
        return bool(self.quota) and self.worktrees > self.quota


def crowded(use: DiskUse | None) -> str:
    """Why nothing new is begun while the disk is used so; empty when it is."""
    if use is None or not use.over:
        return ""
    return (
        f"the worktrees take {told(use.worktrees)}, more than the {told(use.quota)} of "
        "[housekeeping] max_worktrees_gb: nothing new is begun (sf clean, or raise it)"
    )


def measure(project: Project, now: int, quota: int = 0) -> DiskUse:
    """Look at every file, for a few seconds at most."""
    deadline = time.monotonic() + _BUDGET
    worktrees, first = size(project.worktrees, deadline=deadline)
    repository, second = size(project.repository, deadline=deadline, own=True)
    aside, third = size(project.aside, deadline=deadline)
    whole = first and second and third
    return DiskUse(worktrees, repository, now, aside=aside, quota=quota, whole=whole)


def size(folder: Path, *, deadline: float = float("inf"), own: bool = False) -> tuple[int, bool]:
    """The bytes below a folder, or of a file, and whether all of it was seen. Links are not followed.

    With `own`, files that have another name elsewhere count nothing.
    """
    total, seen, waiting = 0, set(), [folder]
    with contextlib.suppress(OSError):
        total = folder.lstat().st_blocks * 512
    while waiting:
        if time.monotonic() > deadline:
            return total, False
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif status.st_nlink > 1:
                    if own or status.st_ino in seen:
                        continue
                    seen.add(status.st_ino)
                total += status.st_blocks * 512
    return total, True


def keep(project: Project, use: DiskUse) -> None:
    """Leave it for `sf status`; a disk that refuses stops nothing."""
    with contextlib.suppress(OSError):
        project.runtime.mkdir(parents=True, exist_ok=True)
        files.put(project.runtime / FILE, msgspec.json.encode(use))


def last(project: Project) -> DiskUse | None:
    """What was measured last, if anything was."""
    try:
        return msgspec.json.decode((project.runtime / FILE).read_bytes(), type=DiskUse)
    except (OSError, msgspec.DecodeError):
        return None
