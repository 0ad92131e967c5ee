"""Contain the commands of an agent, a gate or a hook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from sf.errors import SandboxUnavailable, WorkspaceFailed
from sf.policy import _bubblewrap, _confinement, _landlock, process
from sf.policy import scratch as folders
from sf.policy._confinement import Job, Profile, Wall
from sf.policy.process import Completed

__all__ = ["Completed", "Profile", "Sandbox", "choose", "clean_env", "describe"]

_FALLBACK_PATH = "/usr/local/bin:/usr/bin:/bin"


class Sandbox(Protocol):
    """Runs commands under one profile."""

    @property
    def profile(self) -> Profile:
        """The profile that it holds."""
        ...

    @property
    def kind(self) -> str:
        """How it holds it: bubblewrap, landlock or off."""
        ...

    async def run(
        self,
        command: str | Sequence[str],
        *,
        workspace: Path,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
        env: Mapping[str, str],
        timeout: float,
        stdin: bytes = b"",
        cwd: Path | None = None,
        scratch: Path | None = None,
        output_limit: int = 200_000,
        grace: float = 5.0,
        kill_after: float = 3.0,
    ) -> Completed:
        """Run a command line (a string, by the shell) or a list of words, in `cwd` or the workspace.

        `writable` joins the workspace, `readable` comes back from what is hidden; in the read-only profile
        both and the workspace can only be read. `scratch` is the folder that serves as /tmp (with Landlock,
        as TMPDIR); without it each call has a new one. HOME and TMPDIR are set to it. Raises
        SandboxUnavailable when the command did not run, WorkspaceFailed when a folder is missing.
        """
        ...


def choose(
    profile: Profile,
    *,
    prefer: Literal["auto", "bubblewrap", "landlock"] = "auto",
    hidden: Sequence[Path] = (),
    home: Path | None = None,
) -> Sandbox:
    """The strongest sandbox of this machine for the profile; SandboxUnavailable when there is none.

    `hidden` are further folders to hide (sf's state); `home` is the user's home if not the current one's.
    """
    if profile == "off":
        return _Walled(profile, _NoWall())
    roots = _confinement.hidden_roots(home or Path.home(), hidden)
    wall: Wall | None = None
    if prefer in ("auto", "bubblewrap"):
        wall = _bubblewrap.find(roots)
    if wall is None and prefer in ("auto", "landlock"):
        wall = _landlock.find(roots, profile)
    if wall is None:
        kinds = "neither bubblewrap nor Landlock works" if prefer == "auto" else f"{prefer} does not work"
        raise SandboxUnavailable(
            f"the profile {profile} needs a sandbox and {kinds} here",
            hint='apt install bubblewrap, or set [sandbox] profile = "off"',
        )
    return _Walled(profile, wall)


def describe(sandbox: Sandbox) -> str:
    """One line on how commands are contained."""
    if sandbox.profile == "off":
        return "off: commands run with all rights of this user"
    network = "with network" if _confinement.has_network(sandbox.profile) else "no network"
    note = "" if sandbox.kind == "bubblewrap" else "; weaker than bubblewrap: apt install bubblewrap"
    return f"{sandbox.kind}, profile {sandbox.profile}, {network}{note}"


def clean_env(base: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a contained command: `extra` over a fixed few, and of `base` only PATH and LANG."""
    return {
        "PATH": base.get("PATH") or _FALLBACK_PATH,
        "LANG": base.get("LANG") or "C.UTF-8",
        "TERM": "dumb",
        "HOME": _confinement.PRIVATE_HOME,
        "TMPDIR": _confinement.PRIVATE_TMP,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        **extra,
    }


@dataclass(frozen=True)
class _Walled:
    """A profile held by one wall."""

    profile: Profile
    wall: Wall

    @property
    def kind(self) -> str:
        return self.wall.kind

    async def run(
        self,
        command: str | Sequence[str],
        *,
        workspace: Path,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
        env: Mapping[str, str],
        timeout: float,
        stdin: bytes = b"",
        cwd: Path | None = None,
        scratch: Path | None = None,
        output_limit: int = 200_000,
        grace: float = 5.0,
        kill_after: float = 3.0,
    ) -> Completed:
        job = Job(
            argv=_confinement.command_argv(command, limited=self.profile != "off"),
            workspace=_folder(workspace),
            cwd=_folder(cwd or workspace),
            writable=tuple(path.resolve() for path in writable if path.exists()),
            readable=tuple(path.absolute() for path in readable),
            scratch=_folder(scratch) if scratch else None,
            env=env,
            stdin=stdin,
            timeout=timeout,
            grace=grace,
            kill_after=kill_after,
            output_limit=output_limit,
        )
        return await self.wall.execute(self.profile, job)


@dataclass(frozen=True)
class _NoWall:
    """Runs a job as it is, but still with a home and a temporary folder of its own."""

    kind: str = "off"

    async def execute(self, profile: Profile, job: Job) -> Completed:
        with folders.of_job(job.scratch, job.env) as folder:
            return await process.run(
                job.argv,
                cwd=job.cwd,
                env={**job.env, "HOME": str(folder / "home"), "TMPDIR": str(folder)},
                stdin=job.stdin,
                timeout=job.timeout,
                grace=job.grace,
                kill_after=job.kill_after,
                output_limit=job.output_limit,
            )


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise WorkspaceFailed(f"no such folder: {path}")
    return path.resolve()
