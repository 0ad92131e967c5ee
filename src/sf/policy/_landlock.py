"""Containment by Landlock, for machines without bubblewrap."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sf.errors import SandboxUnavailable
from sf.policy import _confinement as confinement
from sf.policy import process, scratch
from sf.policy._confinement import Job, Profile

_CREATE_RULESET, _ADD_RULE = 444, 445
_VERSION_FLAG, _PATH_BENEATH = 1, 1
# Before ABI 3 a file outside could still be truncated.
_LEAST_ABI, _NETWORK_ABI, _IOCTL_ABI, _SCOPE_ABI = 3, 4, 5, 6
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TCP = 0b11
_SCOPES = 0b11
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_LAUNCHER = Path(__file__).with_name("_launcher.py")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Landlock:
    """Denies writing outside, and reading in homes, /tmp, /run and `hidden`; cuts the network by profile.

    Not contained: chmod, chown and utime of files that the user owns; names, sizes and dates of hidden files
    (only their content is denied), and hidden folders inside the workspace; /tmp is not private (TMPDIR and
    HOME are) and /dev/shm is closed, so POSIX semaphores fail; unix sockets with a path stay
    connectable; a process that starts its own
    session outlives the command. Without user namespaces (`private_network` false) the profiles without
    network refuse TCP, loopback included, but let UDP out. CPU, memory and disk: only the rlimits.
    """

    abi: int
    private_network: bool
    hidden: tuple[Path, ...]
    kind: str = "landlock"

    async def execute(self, profile: Profile, job: Job) -> process.Completed:
        """Run the job inside; raise SandboxUnavailable when it could not be confined."""
        with scratch.of_job(job.scratch, job.env) as folder, contextlib.ExitStack() as open_files:
            ruleset = self._ruleset(profile, job, folder)
            open_files.callback(os.close, ruleset)
            reader, writer = os.pipe()
            open_files.callback(os.close, reader)
            open_files.callback(os.close, writer)
            os.set_blocking(reader, False)
            private = self.private_network and not confinement.has_network(profile)
            done = await process.run(
                _launch(ruleset, writer, private, job.argv),
                cwd=job.cwd,
                env={**job.env, "HOME": str(folder / "home"), "TMPDIR": str(folder)},
                stdin=job.stdin,
                timeout=job.timeout,
                grace=job.grace,
                kill_after=job.kill_after,
                output_limit=job.output_limit,
                pass_fds=(ruleset, writer),
            )
            with contextlib.suppress(BlockingIOError):
                raise SandboxUnavailable(f"Landlock did not hold: {os.read(reader, 4096).decode()}")
        return done

    def _ruleset(self, profile: Profile, job: Job, folder: Path) -> int:
        everything = _everything(self.abi)
        block_tcp = not confinement.has_network(profile) and not self.private_network
        ruleset = _create(self.abi, everything, _TCP if block_tcp else 0)
        kept = confinement.put_back(self.hidden, job.env.get("PATH", ""), job.readable)
        inside = (*job.writable, job.workspace)
        read_only = profile == "read-only"
        for path in (*_outside(Path("/"), self.hidden), *kept, *(inside if read_only else ())):
            _allow(ruleset, path, _READ)
        for path in (folder, *(() if read_only else inside)):
            _allow(ruleset, path, everything)
        for name in _DEVICES:
            _allow(ruleset, Path("/dev") / name, everything)
        return ruleset


def find(hidden: Sequence[Path], profile: Profile) -> Landlock | None:
    """This kernel's Landlock if it can hold the profile."""
    abi = _abi()
    if abi < _LEAST_ABI or not _works(abi, False):
        return None
    private_network = _works(abi, True)
    if not confinement.has_network(profile) and not private_network and abi < _NETWORK_ABI:
        return None
    return Landlock(abi, private_network, tuple(hidden))


@functools.cache
def _abi() -> int:
    return int(_libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


@functools.cache
def _works(abi: int, private: bool) -> bool:
    ruleset = _create(abi, _everything(abi), 0)
    reader, writer = os.pipe()
    try:
        _allow(ruleset, Path("/"), _READ)
        argv = _launch(ruleset, writer, private, ("/bin/sh", "-c", ":"))
        fds = (ruleset, writer)
        return (
            subprocess.run(argv, pass_fds=fds, capture_output=True, timeout=10, check=False).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        for descriptor in (ruleset, reader, writer):
            os.close(descriptor)


def _launch(ruleset: int, status: int, private: bool, argv: Sequence[str]) -> list[str]:
    network = "private" if private else "host"
    python = [sys.executable, "-I", "-S", "-B", str(_LAUNCHER)]
    return [*python, str(ruleset), str(status), network, str(os.getpid()), "--", *argv]


def _everything(abi: int) -> int:
    return (1 << (16 if abi >= _IOCTL_ABI else 15)) - 1


def _create(abi: int, files: int, network: int) -> int:
    fields = [files]
    if abi >= _NETWORK_ABI:
        fields.append(network)
    if abi >= _SCOPE_ABI:
        fields.append(_SCOPES)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = int(_libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    if ruleset < 0:
        raise SandboxUnavailable(f"landlock_create_ruleset: {os.strerror(ctypes.get_errno())}")
    return ruleset


def _allow(ruleset: int, path: Path, access: int) -> None:
    """Add a rule; a path that is gone needs none."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _ON_FILES
        rule = struct.pack("=Qi", access, descriptor)
        if _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0) != 0:
            raise SandboxUnavailable(f"landlock_add_rule {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)


def _outside(root: Path, hidden: Sequence[Path]) -> Iterator[Path]:
    """The largest folders and files below `root` that hold nothing hidden."""
    for child in root.iterdir():
        if child in hidden or child.is_symlink():
            continue
        if any(each.is_relative_to(child) for each in hidden):
            yield from _outside(child, hidden)
        else:
            yield child
