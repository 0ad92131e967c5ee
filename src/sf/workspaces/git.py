"""The one place that starts git: explicit directory, built environment, time limit, own process group."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sf.errors import GitFailed, WorkspaceFailed
from sf.unbroken import or_undone

_CHUNK = 1 << 16
_GRACE = 1.0
_MAX_OUTPUT = 256 << 20
NOWHERE = "/nonexistent"

# Everything that a repository's or an agent's files could otherwise decide. The command line wins over
# every configuration file, and the environment below leaves only the one in the given git directory.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.askPass=",
    "credential.helper=",
    "protocol.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    # Asked for by GIT_GRAFT_FILE; it would stand before the reason of every failure.
    "advice.graftFileDeprecated=false",
    # What a row calls done outlives a power cut. By itself git syncs neither loose objects nor refs.
    "core.fsync=all",
)
# Thousands of files may be entered at once, so their objects are synced by one sync. Only there: git does not
# notice when it fails to put objects in their place after that, and who enters files can look (`_snapshot`).
_TOGETHER = {"update-index": ("-c", "core.fsyncMethod=batch")}
_FAULTS = ("fatal:", "error:")


class Identity(msgspec.Struct, frozen=True):
    """Who a commit or a reflog line names."""

    name: str = "sf"
    email: str = "sf@localhost"


class Output(msgspec.Struct, frozen=True):
    """What a git process left behind."""

    code: int
    stdout: bytes
    stderr: str

    def text(self) -> str:
        """The output as one stripped string."""
        return self.stdout.decode("utf-8", "surrogateescape").strip()

    def names(self) -> list[str]:
        """The output as NUL-separated path names."""
        return [os.fsdecode(name) for name in self.stdout.split(b"\0") if name]


class Call(msgspec.Struct, frozen=True):
    """One git command and where it acts."""

    args: tuple[str, ...]
    git_dir: Path
    work_tree: Path | None = None
    index: Path | None = None
    identity: Identity = Identity()
    pass_fds: tuple[int, ...] = ()
    most: int = _MAX_OUTPUT
    """How many bytes it may write; more than that is a fault."""
    home: str = NOWHERE
    """What `~` stands for."""

    def name(self) -> str:
        """The command as a person would name it, cut to one short line."""
        return " ".join(("git", *self.args))[:120]


class Git:
    """Starts git processes that no file of an agent can steer."""

    def __init__(
        self,
        *,
        search_path: str = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin",
        held: tuple[int, ...] = (),
        most: int = _MAX_OUTPUT,
        settings: tuple[str, ...] = (),
    ) -> None:
        self._search_path = search_path
        # What a process may write when its caller names no limit of its own.
        self._most = most
        # Descriptors of locks that a git process keeps held when sf dies before it.
        self._held = held
        self._settings = settings

    def set_to(self, values: Mapping[str, str]) -> Git:
        """The same git, given these settings with every command: no file holds them for others."""
        return self.given(tuple(f"{key}={value}" for key, value in sorted(values.items())))

    def given(self, settings: tuple[str, ...]) -> Git:
        """The same git with these settings, each as `key=value`."""
        return Git(search_path=self._search_path, held=self._held, most=self._most, settings=settings)

    @property
    def settings(self) -> tuple[str, ...]:
        """What it is given with every command besides what every git of sf's is."""
        return self._settings

    async def run(
        self,
        *args: str,
        git_dir: Path,
        work_tree: Path | None = None,
        index: Path | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
        ok: Sequence[int] = (0,),
        identity: Identity | None = None,
        pass_fds: tuple[int, ...] = (),
        most: int | None = None,
        home: str = "",
    ) -> Output:
        """Run one git command to its end; raise GitFailed when its exit code is not in `ok`."""
        limit = self._most if most is None else most
        call = Call(args, git_dir, work_tree, index, identity or Identity(), pass_fds, limit, home or NOWHERE)
        process = await self.start(call)
        return await _finish(call, process, stdin, timeout, ok)

    async def pipe(
        self, source: Call, sink: Call, *, stdin: bytes = b"", timeout: float = 600.0
    ) -> tuple[Output, Output]:
        """Run `source | sink`; raise GitFailed when either fails, the source's reason first."""
        reader, writer = os.pipe()
        try:
            first = await self.start(source, stdout=writer)
            os.close(writer)
            writer = -1
            try:
                second = await self.start(sink, stdin=reader)
            except BaseException:
                await or_undone(kill(first))
                raise
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)
        ends = await asyncio.gather(
            _finish(source, first, stdin, timeout, (0,)),
            _finish(sink, second, None, timeout, (0,)),
            return_exceptions=True,
        )
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        produced, consumed = ends
        assert isinstance(produced, Output) and isinstance(consumed, Output)
        return produced, consumed

    async def start(
        self, call: Call, *, stdin: int = asyncio.subprocess.PIPE, stdout: int = asyncio.subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        """Start one git process in a process group of its own; the caller ends it."""
        command = ["git", *(part for setting in (*_SETTINGS, *self._settings) for part in ("-c", setting))]
        command += _TOGETHER.get(call.args[0], ())
        command.append(f"--git-dir={call.git_dir}")
        if call.work_tree is not None:
            command.append(f"--work-tree={call.work_tree}")
        starting = asyncio.create_subprocess_exec(
            *command,
            *call.args,
            stdin=stdin,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
            cwd=call.work_tree or call.git_dir,
            env=self._environment(call),
            start_new_session=True,
            pass_fds=(*self._held, *call.pass_fds),
        )
        try:
            # asyncio would kill it outright, and a git killed so leaves its locks.
            return await or_undone(starting, kill)
        except (FileNotFoundError, NotADirectoryError) as error:
            if error.filename == "git":
                raise WorkspaceFailed("git is not installed", hint="install git 2.38 or newer") from error
            raise WorkspaceFailed(f"{error.filename} is gone; cannot run {call.name()}") from error

    def _environment(self, call: Call) -> dict[str, str]:
        environment = {
            "PATH": self._search_path,
            "HOME": call.home,
            "XDG_CONFIG_HOME": NOWHERE,
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_GRAFT_FILE": os.devnull,
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_EDITOR": "false",
            "GIT_AUTHOR_NAME": call.identity.name,
            "GIT_AUTHOR_EMAIL": call.identity.email,
            "GIT_COMMITTER_NAME": call.identity.name,
            "GIT_COMMITTER_EMAIL": call.identity.email,
        }
        if call.index is not None:
            environment["GIT_INDEX_FILE"] = str(call.index)
        return environment


async def kill(process: asyncio.subprocess.Process) -> None:
    """End a started git process and everything it started, and collect it.

    It is asked first: a git that is killed outright leaves its locks.
    """
    # What it wrote must be taken off its pipes: a process is not collected while one of them is full.
    pipes = [_discard(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None]
    ended = asyncio.ensure_future(asyncio.gather(process.wait(), *pipes))
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        await asyncio.wait({ended}, timeout=_GRACE)
    if not ended.done():
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


async def _discard(pipe: asyncio.StreamReader) -> None:
    while await pipe.read(_CHUNK):
        pass


def failure(call: Call, code: int, stderr: str) -> GitFailed:
    """The one clear line for a git command that failed: faults first, advice only when there is no more."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("hint:")] or lines
    told.sort(key=lambda line: not line.startswith(_FAULTS))
    said = "; ".join(told[:3]) or "no message"
    return GitFailed(f"{call.name()} failed with exit code {code}: {said}")


async def _finish(
    call: Call, process: asyncio.subprocess.Process, stdin: bytes | None, timeout: float, ok: Sequence[int]
) -> Output:
    fed = asyncio.ensure_future(_feed(process, stdin))
    out = asyncio.ensure_future(_drain(process.stdout, call))
    err = asyncio.ensure_future(_drain(process.stderr, call))
    talk: tuple[asyncio.Future[Any], ...] = (fed, out, err)
    try:
        async with asyncio.timeout(timeout):
            # Side by side: a git that answers while it reads would stand still otherwise.
            _, stdout, stderr = await asyncio.gather(fed, out, err)
            code = await process.wait()
    except TimeoutError as error:
        raise GitFailed(f"{call.name()} did not end within {timeout:g} s and was killed") from error
    finally:
        if process.returncode is None or not all(part.done() for part in talk):
            # Whoever is cancelled once more meanwhile leaves no git behind either.
            await or_undone(_broken_off(process, talk))
    output = Output(code, stdout, stderr.decode("utf-8", "replace"))
    if code not in ok:
        raise failure(call, code, output.stderr)
    return output


async def _broken_off(process: asyncio.subprocess.Process, talk: Sequence[asyncio.Future[Any]]) -> None:
    """End the talk with a git process, and the process if it runs on."""
    for part in talk:
        part.cancel()
    await asyncio.gather(*talk, return_exceptions=True)
    if process.returncode is None:
        await kill(process)


async def _feed(process: asyncio.subprocess.Process, stdin: bytes | None) -> None:
    if process.stdin is None:
        return
    # A process that ends without reading everything says why by its exit code.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin or b"")
        await process.stdin.drain()
    process.stdin.close()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await process.stdin.wait_closed()


async def _drain(stream: asyncio.StreamReader | None, call: Call) -> bytes:
    parts: list[bytes] = []
    size = 0
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        size += len(chunk)
        if size > call.most:
            raise GitFailed(f"{call.name()} wrote more than {call.most >> 20} MiB and was killed")
        parts.append(chunk)
    return b"".join(parts)
