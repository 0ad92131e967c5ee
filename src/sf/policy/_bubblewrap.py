"""Containment by bubblewrap: new user, mount, pid, ipc, uts and, by profile, network namespaces."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sf.errors import SandboxUnavailable
from sf.policy import _confinement as confinement
from sf.policy import process
from sf.policy._confinement import Job, Profile

_NAMESPACES = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
_ALWAYS = ("--disable-userns", "--die-with-parent", "--cap-drop", "ALL")
_TMPFS = "--tmpfs"
_READ = "--ro-bind-try"
_WRITE = "--bind"
_TRIES = 5


@dataclass(frozen=True)
class Bubblewrap:
    """Hides homes, /tmp, /run and `hidden`, has its own /proc and /dev, and lets nothing else be written.

    Not contained: CPU, memory and disk beyond the rlimits; unix sockets outside the hidden folders that were
    bound by a relative name or after the command started; in the `workspace` profile the network and abstract
    unix sockets.
    """

    binary: str
    hidden: tuple[Path, ...]
    kind: str = "bubblewrap"

    async def execute(self, profile: Profile, job: Job) -> process.Completed:
        """Run the job inside; raise SandboxUnavailable when bubblewrap never came to run it."""
        for _ in range(_TRIES):
            sockets = _listening_sockets()
            done, ran = await self._once(profile, job, sockets)
            if ran:
                return done
            # A socket of another program that went away meanwhile cannot be covered any more.
            if all(_is_socket(socket) for socket in sockets):
                break
        raise SandboxUnavailable(f"bubblewrap did not run the command: {done.output.strip()[-500:]}")

    async def _once(
        self, profile: Profile, job: Job, sockets: Sequence[Path]
    ) -> tuple[process.Completed, bool]:
        """One try, and whether the command was run."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        arguments = self._arguments(profile, job, sockets)
        argv = [self.binary, "--json-status-fd", str(writer), *arguments, "--", *job.argv]
        env = {**job.env, "HOME": confinement.PRIVATE_HOME, "TMPDIR": confinement.PRIVATE_TMP}
        try:
            done = await process.run(
                argv,
                cwd=Path("/"),
                env=env,
                stdin=job.stdin,
                timeout=job.timeout,
                grace=job.grace,
                kill_after=job.kill_after,
                output_limit=job.output_limit,
                pass_fds=(writer,),
                spare_leader=True,
            )
            return done, done.timed_out or _has_exit_code(reader)
        finally:
            os.close(reader)
            os.close(writer)

    def _arguments(self, profile: Profile, job: Job, sockets: Sequence[Path]) -> list[str]:
        mounts = self._mounts(profile, job)
        arguments = [*_NAMESPACES, *_ALWAYS, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        if not confinement.has_network(profile):
            arguments.append("--unshare-net")
        # Parents first, or a parent's mount would cover what was mounted below it.
        for path in sorted(mounts, key=lambda each: len(each.parts)):
            how, source = mounts[path]
            arguments += [how, str(path)] if how == _TMPFS else [how, str(source), str(path)]
        for socket in sockets:
            if _visible(socket, mounts):
                arguments += [_READ, "/dev/null", str(socket)]
        return [*arguments, "--dir", confinement.PRIVATE_HOME, "--chdir", str(job.cwd)]

    def _mounts(self, profile: Profile, job: Job) -> dict[Path, tuple[str, Path]]:
        mounts: dict[Path, tuple[str, Path]] = {root: (_TMPFS, root) for root in self.hidden if root.is_dir()}
        mounts[Path(confinement.PRIVATE_TMP)] = (_TMPFS, Path("/"))
        how = _READ if profile == "read-only" else _WRITE
        for path in (*job.writable, job.workspace):
            mounts[path] = (how, path)
        for path in confinement.put_back(self.hidden, job.env.get("PATH", ""), job.readable):
            # A toolchain inside the workspace stays as writable as the workspace is.
            if _covering(path, mounts) == _TMPFS:
                mounts[path] = (_READ, path)
        if job.scratch is not None:
            mounts[Path(confinement.PRIVATE_TMP)] = (_WRITE, job.scratch)
        return mounts


def find(hidden: Sequence[Path]) -> Bubblewrap | None:
    """The bubblewrap of this machine if it is installed and works here."""
    binary = shutil.which("bwrap")
    return Bubblewrap(binary, tuple(hidden)) if binary and _works(binary) else None


@functools.cache
def _works(binary: str) -> bool:
    argv = [binary, *_NAMESPACES, *_ALWAYS, "--unshare-net", "--ro-bind", "/", "/", "--dev", "/dev"]
    argv += ["--proc", "/proc", _TMPFS, "/tmp", "--", "/bin/sh", "-c", ":"]
    try:
        return subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _has_exit_code(reader: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        for line in os.read(reader, 65_536).splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                if "exit-code" in json.loads(line):
                    return True
    return False


def _listening_sockets() -> list[Path]:
    """Paths of the host's unix sockets: a read-only mount does not keep anyone from connecting to one."""
    found = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]:
            path = line.split(maxsplit=7)[-1]
            if path.startswith("/"):
                found.append(path)
    return [Path(path).resolve() for path in dict.fromkeys(found) if _is_socket(Path(path))]


def _is_socket(path: Path) -> bool:
    """Whether a socket can be reached there: in a folder of another user's it cannot, by nobody inside."""
    try:
        return path.is_socket()
    except PermissionError:
        return False


def _visible(socket: Path, mounts: dict[Path, tuple[str, Path]]) -> bool:
    """A job's own sockets live on in what it may write; sockets under an empty tmpfs are gone already."""
    return _covering(socket, mounts) in (None, _READ)


def _covering(path: Path, mounts: dict[Path, tuple[str, Path]]) -> str | None:
    """How the nearest mount at or above the path is made; None for the root."""
    for each in (path, *path.parents):
        if each in mounts:
            return mounts[each][0]
    return None
