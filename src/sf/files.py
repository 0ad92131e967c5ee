"""Files that are there whole or not at all, if sf is killed or the power goes; found through no link."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

_MANY = 200
"""Files beyond which everything on their disk is synced at once."""


def put(path: Path, content: str | bytes, mode: int | None = None, *, sync: bool = False) -> None:
    """Write a file beside its place and move it there by one rename; its folder must exist.

    With `sync` it is so also when the power goes, and is on the disk when this returns.
    """
    # Two that write the same file do not write into each other's: the last rename counts.
    fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    try:
        with fresh.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if mode is not None:
            fresh.chmod(mode)
        fresh.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            # A write that the disk refuses does not say where.
            error.filename = str(path)
        fresh.unlink(missing_ok=True)
        raise
    if sync:
        sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Make a file's content durable, or what was created, renamed or removed in a folder."""
    # What was swapped for a pipe since it was looked at would be waited for, and has nothing to sync.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(root: Path, paths: Sequence[str]) -> None:
    """Make the files at these paths below a folder durable, with their names; no link is followed."""
    if len(paths) > _MANY:
        sync_disk(root)
        return
    for path in (*paths, *{path.rpartition("/")[0] for path in paths}):
        status = lying(root, path)
        if status is not None and (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            try:
                sync_path(root / path)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            except BlockingIOError:
                # Somebody has a lease on it: it cannot be opened at once, and is not waited for.
                sync_disk(root)
                return


def sync_disk(folder: Path) -> None:
    """Make everything durable that was written to the file system that a folder is on. Raises OSError."""
    import ctypes  # takes milliseconds, and is seldom needed

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(descriptor)


def lying(root: Path, path: str) -> os.stat_result | None:
    """Return what lies at a path below a folder itself, or None.

    What lies beyond a link is not the folder's: where a folder became one, it may lead to what it was renamed
    to, out of it, to a device, or to itself.
    """
    return lstat(root / path) if all(map(is_folder, above(root, path))) else None


def above(root: Path, path: str) -> list[Path]:
    """The folders between a folder and a path below it, the outermost first."""
    return [root / parent for parent in list(PurePosixPath(path).parents)[-2::-1]]


def is_folder(path: str | Path) -> bool:
    """Whether a folder lies there, and no link to one."""
    status = lstat(Path(path))
    return status is not None and stat.S_ISDIR(status.st_mode)


def lstat(path: Path) -> os.stat_result | None:
    """What lies there, not followed if it is a link; None for nothing."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
