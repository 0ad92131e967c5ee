"""Paths that cannot leave their root, however the tree below it is arranged."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from pathlib import Path

from sf.errors import SymlinkEscape, WorkspaceFailed

TEMPORARY = ".sf-new-"
"""How the names of files being written begin; one that a killed sf left is no work of the agent's."""

_MAX_LINKS = 40
_UNSAFE = re.compile(r"[^a-zA-Z0-9._-]")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def sanitize(identifier: str) -> str:
    """Return `identifier` as one safe path segment; never empty, `.` or `..`."""
    name = _UNSAFE.sub("_", identifier)
    if name in ("", ".", ".."):
        return "_" * max(1, len(name))
    return name


def resolve_inside(root: Path, path: str | Path) -> Path:
    """Return the canonical place of `path` below `root`, or raise SymlinkEscape; it need not exist."""
    text = os.fspath(path)
    if "\0" in text:
        raise SymlinkEscape("path contains a NUL byte")
    base = _canonical(Path("/"), os.path.abspath(root))  # noqa: PTH100 - no link may be resolved yet
    if not text.startswith("/"):
        found = _canonical(base, text)
    elif _is_below(base, Path(text)):
        found = _canonical(base, str(Path(text).relative_to(base)))
    else:
        found = _canonical(Path("/"), text)
    if not _is_below(base, found):
        raise SymlinkEscape(f"path {text!r} leads out of {base}")
    return found


def relative_inside(root: Path, path: str | Path) -> str:
    """Return the canonical place of `path` as a path relative to `root`, which may itself be a link."""
    return str(resolve_inside(root, path).relative_to(resolve_inside(root, ".")))


def open_inside(root: Path, path: str | Path, flags: int, mode: int = 0o644) -> int:
    """Open a regular file below `root`, following no link that was not first resolved inside it."""
    parent, name = _open_parent(root, path, create=False)
    try:
        return _open_regular(parent, name, flags, mode)
    finally:
        os.close(parent)


def read_inside(root: Path, path: str | Path, limit: int) -> bytes:
    """Return at most `limit` bytes of a regular file below `root`."""
    descriptor = open_inside(root, path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit)


def write_inside(root: Path, path: str | Path, data: bytes) -> None:
    """Replace or create a regular file below `root` by a rename, with its parents; keeps its mode."""
    parent, name = _open_parent(root, path, create=True)
    try:
        mode = _mode_to_keep(parent, name)
        temporary = f"{TEMPORARY}{secrets.token_hex(6)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o644, dir_fd=parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                # By its name it counts as written: a power cut must not leave that with nothing in it.
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)
            raise
    except OSError as error:
        raise WorkspaceFailed(f"cannot write {os.fspath(path)!r}: {error.strerror}") from error
    finally:
        os.close(parent)


def _canonical(start: Path, text: str) -> Path:
    """Walk `text` from the canonical directory `start`, one segment at a time."""
    resolved = start
    waiting = _segments(text)
    links = 0
    while waiting:
        segment = waiting.pop(0)
        if segment == "..":
            resolved = resolved.parent
            continue
        candidate = resolved / segment
        try:
            target = os.fspath(candidate.readlink()) if candidate.is_symlink() else None
        except OSError as error:
            raise SymlinkEscape(f"cannot resolve {candidate}: {error.strerror}") from error
        if target is None:
            resolved = candidate
            continue
        links += 1
        if links > _MAX_LINKS:
            raise SymlinkEscape(f"too many links while resolving {text!r}")
        if target.startswith("/"):
            resolved = Path("/")
        waiting = _segments(target) + waiting
    return resolved


def _segments(text: str) -> list[str]:
    return [segment for segment in text.split("/") if segment not in ("", ".")]


def _is_below(base: Path, path: Path) -> bool:
    return path == base or base in path.parents


def _open_parent(root: Path, path: str | Path, *, create: bool) -> tuple[int, str]:
    """Open the directory that holds `path`, segment by segment without following links."""
    resolved = resolve_inside(root, path)
    base = resolve_inside(root, ".")
    segments = resolved.relative_to(base).parts
    if not segments:
        raise WorkspaceFailed(f"{os.fspath(path)!r} is a directory")
    current = -1
    try:
        current = os.open(base, _DIRECTORY)
        for segment in segments[:-1]:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(segment, 0o755, dir_fd=current)
            following = os.open(segment, _DIRECTORY, dir_fd=current)
            os.close(current)
            current = following
    except OSError as error:
        if current >= 0:
            os.close(current)
        raise _as_failure(path, error) from error
    return current, segments[-1]


def _open_regular(parent: int, name: str, flags: int, mode: int) -> int:
    # O_NONBLOCK: a FIFO must be seen and refused, not waited for.
    safe = flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(name, safe & ~os.O_TRUNC, mode, dir_fd=parent)
    except OSError as error:
        raise _as_failure(name, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise WorkspaceFailed(f"{name!r} is not a regular file")
    if flags & os.O_TRUNC:
        os.ftruncate(descriptor, 0)
    os.set_blocking(descriptor, True)
    return descriptor


def _mode_to_keep(parent: int, name: str) -> int | None:
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise WorkspaceFailed(f"{name!r} is not a regular file")
    return stat.S_IMODE(status.st_mode)


def _as_failure(path: str | Path, error: OSError) -> WorkspaceFailed:
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return SymlinkEscape(f"a link appeared in {os.fspath(path)!r} while it was opened")
    return WorkspaceFailed(f"cannot open {os.fspath(path)!r}: {error.strerror}")
