"""The project lock: one autopilot at a time. A dead holder's lock is taken over, never cleared by hand."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import msgspec

from sf import held
from sf.errors import ProjectLocked
from sf.observe.log import Log
from sf.paths import Project

AUTOPILOT = "autopilot"
"""The purpose of whoever runs the loop."""
_REMOTE = ("nfs", "cifs", "smb", "9p", "fuse", "ceph", "gluster", "lustre", "afs", "virtiofs", "gpfs")


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lock or a claim: enough to tell a live process from another one with its pid."""

    host: str
    pid: int
    started: str
    boot: str
    purpose: str = ""

    @property
    def name(self) -> str:
        """As it stands in `claim_holder`."""
        return f"{self.host}#{self.pid}@{self.started}/{self.boot[:8]}"


def this_process(purpose: str = "") -> Holder:
    """The present process as a holder."""
    return Holder(socket.gethostname(), os.getpid(), _start_time(os.getpid()), _boot_id(), purpose)


def is_alive(holder: Holder) -> bool:
    """Whether the holder's process still runs on this machine; one of another host counts as alive."""
    if holder.host != socket.gethostname():
        return True
    return holder.boot == _boot_id() and _start_time(holder.pid) == holder.started != ""


def _start_time(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended; only its parent has not looked yet.
    return "" if fields[0] in ("Z", "X") else fields[19]


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def read_holder(path: Path) -> Holder | None:
    """Who the lock file names, if anyone."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None


class ProjectLock:
    """Held by an open file lock, which the kernel drops with the process, and described by the file's text.

    Where a file lock keeps nobody out (some network disks) the text alone decides: a live one is respected.
    """

    def __init__(
        self,
        path: Path,
        purpose: str,
        *,
        patience: float = 2.0,
        on_takeover: Callable[[Holder], None] = lambda stale: None,
    ) -> None:
        self._path = path
        self._purpose = purpose
        self._patience = patience
        self._on_takeover = on_takeover
        self._fd = -1
        self.holder = this_process(purpose)

    def __enter__(self) -> ProjectLock:
        deadline = time.monotonic() + self._patience
        while not self._try():
            present = read_holder(self._path)
            if time.monotonic() >= deadline:
                who = (
                    f"process {present.pid} on {present.host} ({present.purpose})" if present else "a process"
                )
                raise ProjectLocked(
                    f"another sf holds this project: {who}",
                    hint="sf status shows it; sf pause stops it cleanly",
                )
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held.let_go(self._fd)
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)

    @property
    def descriptor(self) -> int:
        """The open lock file; a child that inherits it holds the lock on until it ends."""
        return self._fd

    def _try(self) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        except OSError:
            os.close(fd)
            raise
        before = read_holder(self._path)
        if before is not None and before.pid != os.getpid():
            # Another host's name with a free file lock on a local disk: this machine was called so before.
            renamed = before.host != socket.gethostname() and _is_local(self._path)
            if is_alive(before) and not renamed:
                os.close(fd)
                return False
            self._on_takeover(before)
        os.ftruncate(fd, 0)
        os.pwrite(fd, msgspec.json.encode(self.holder), 0)
        self._fd = fd
        held.hold(fd)
        return True


def hold(project: Project, purpose: str) -> ProjectLock:
    """The project's lock, to be entered; that it was taken over from a holder who is gone is logged."""

    def log(stale: Holder) -> None:
        told = {"pid": stale.pid, "host": stale.host, "purpose": stale.purpose}
        Log(project.log_file("")).warning("stale lock taken over", **told)

    return ProjectLock(project.lock, purpose, on_takeover=log)


def is_held(path: Path) -> Holder | None:
    """The live holder of the lock, if there is one."""
    holder = read_holder(path)
    if holder is None or not is_alive(holder):
        return None
    return None if holder.host != socket.gethostname() and _is_free(path) else holder


def _is_free(path: Path) -> bool:
    """Whether the file lock says that nobody holds it, on a disk where file locks can be believed."""
    if not _is_local(path):
        return False
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _is_local(path: Path) -> bool:
    """Whether a file is on a disk of this machine, going by the file systems that are not."""
    best, kind = "", ""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    for line in mounts:
        _, place, this_kind, *_ = line.split(" ")
        place = place.replace("\\040", " ")
        if len(place) >= len(best) and path.is_relative_to(place):
            best, kind = place, this_kind
    return not kind.startswith(_REMOTE)
