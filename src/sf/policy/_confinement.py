"""What every kind of sandbox shares: the job, what stays hidden, what is put back, the limits."""

from __future__ import annotations

import functools
import os
import pwd
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from sf.policy.process import Completed

Profile = Literal["off", "workspace", "workspace-no-network", "read-only"]

PRIVATE_TMP = "/tmp"
PRIVATE_HOME = "/tmp/home"

_FILE_BYTES = 8 * 2**30
_PROCESSES = 8192
# The parts of a toolchain's folder that programs on PATH need. Everything else beside them stays hidden,
# because package managers keep their credentials there.
_TOOLCHAIN_PARTS = (
    *("bin", "sbin", "shims", "lib", "lib64", "libexec", "include", "versions", "version"),
    *("plugins", "toolchains", "settings.toml", "installs", "global"),
)
# Programs found through the first folder live in the second.
_COMPANIONS = {".cargo": ".rustup"}


@dataclass(frozen=True)
class Job:
    """One command and all that its run may touch; every path is absolute and resolved."""

    argv: tuple[str, ...]
    workspace: Path
    cwd: Path
    writable: tuple[Path, ...]
    readable: tuple[Path, ...]
    scratch: Path | None
    env: Mapping[str, str]
    stdin: bytes
    timeout: float
    grace: float
    kill_after: float
    output_limit: int


class Wall(Protocol):
    """One way of containing a job."""

    @property
    def kind(self) -> str:
        """The wall's short name."""
        ...

    async def execute(self, profile: Profile, job: Job) -> Completed:
        """Run the job inside; raise SandboxUnavailable when it did not start."""
        ...


def has_network(profile: Profile) -> bool:
    """Say whether the profile leaves the host's network reachable."""
    return profile in ("off", "workspace")


def shell_path() -> str:
    """The shell that runs command lines."""
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def command_argv(command: str | Sequence[str], *, limited: bool) -> tuple[str, ...]:
    """The argument vector for a command line or a list of words, under resource limits if asked.

    The shell sets the limits itself: a preexec would copy the page tables of this process on every call.
    """
    shell = shell_path()
    prefix = _limits(shell) if limited else ""
    if isinstance(command, str):
        return (shell, "-c", prefix + command)
    if not limited:
        return tuple(command)
    return (shell, "-c", prefix + 'exec "$@"', shell, *command)


def _limits(shell: str) -> str:
    bash = shell.endswith("bash")
    block = 1024 if bash else 512
    wanted = (
        ("c", resource.RLIMIT_CORE, 0, 1),
        ("f", resource.RLIMIT_FSIZE, _FILE_BYTES, block),
        ("u" if bash else "p", resource.RLIMIT_NPROC, _PROCESSES, 1),
    )
    parts = []
    for flag, which, most, unit in wanted:
        hard = resource.getrlimit(which)[1]
        parts.append(
            f"ulimit -{flag} {(most if hard == resource.RLIM_INFINITY else min(hard, most)) // unit}"
        )
    return "; ".join(parts) + "; "


def hidden_roots(home: Path, extra: Sequence[Path]) -> tuple[Path, ...]:
    """The folders whose content a job must not see: homes, temporary files, sockets, and `extra`."""
    accounts = (Path(each.pw_dir) for each in pwd.getpwall() if each.pw_uid in (0, os.getuid()))
    candidates = (home, *accounts, Path("/home"), Path("/tmp"), Path("/run"), *extra)
    found = {path.resolve() for path in candidates if path.is_dir()}
    return tuple(sorted(found - {Path("/")}))


@functools.lru_cache(maxsize=64)
def put_back(hidden: tuple[Path, ...], search_path: str, readable: tuple[Path, ...]) -> tuple[Path, ...]:
    """What must stay readable below the hidden folders: this Python, toolchains on PATH, `readable`.

    Remembered, as looking costs more than the sandbox itself: a path may have gone since.
    """
    wanted: list[Path] = [Path(sys.prefix), Path(sys.base_prefix), *readable]
    for entry in search_path.split(os.pathsep):
        if entry.startswith("/"):
            wanted += _toolchain(Path(os.path.normpath(entry)), hidden)
    wanted.append(Path("/etc/resolv.conf"))
    found: set[Path] = set()
    for path in wanted:
        # A link below a hidden folder is gone with it, so both its name and its target come back.
        if path.exists():
            found |= {name for name in (path, path.resolve()) if _below(name, hidden)}
    return tuple(sorted(path for path in found if not _comes_along(path, found, hidden)))


def _comes_along(path: Path, found: set[Path], hidden: tuple[Path, ...]) -> bool:
    """Whether a folder above is put back too, with no hidden one in between."""
    for above in path.parents:
        if above in found:
            return True
        if above in hidden:
            return False
    return False


def _toolchain(entry: Path, hidden: Sequence[Path]) -> list[Path]:
    prefix = entry.parent
    if not _below(prefix, hidden) or entry.name not in ("bin", "sbin", "shims"):
        return [entry]
    prefixes = [prefix]
    if prefix.name in _COMPANIONS:
        prefixes.append(prefix.with_name(_COMPANIONS[prefix.name]))
    return [entry, *(folder / part for folder in prefixes for part in _TOOLCHAIN_PARTS)]


def _below(path: Path, hidden: Sequence[Path]) -> bool:
    """Strictly below: a hidden folder itself is never put back by way of PATH or a prefix."""
    return path not in hidden and any(path.is_relative_to(root) for root in hidden)
