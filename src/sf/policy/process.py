"""Run one process group to its end, whatever it does. Linux only: exits are watched through pidfds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 65_536
# How long output may still arrive after the leader exited while a grandchild holds the pipe.
_LINGER = 0.2
# SIGKILL cannot be refused; the bound is for a process stuck in the kernel, which init then reaps.
_REAP = 2.0


@dataclass(frozen=True)
class Completed:
    """How a process ended: `exit_code` is None after a time-out and negative after a signal."""

    exit_code: int | None
    output: str
    truncated: bool
    timed_out: bool
    duration_ms: int


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float,
    grace: float = 5.0,
    kill_after: float = 3.0,
    output_limit: int = 200_000,
    preexec: Callable[[], None] | None = None,
    on_spawn: Callable[[int], None] | None = None,
    pass_fds: Sequence[int] = (),
    spare_leader: bool = False,
) -> Completed:
    """Run `argv` in a new session and return when no member of its process group is left.

    On time-out the group gets SIGTERM and, `kill_after` seconds later, SIGKILL. On cancellation its stdin
    is closed, and SIGTERM and SIGKILL follow after `grace` and `kill_after`; a second cancellation kills at
    once. With `spare_leader` SIGTERM goes to the leader's session without the leader itself: for a wrapper
    whose death would take the command's own handling of SIGTERM away. A command that cannot be started
    raises what `subprocess.Popen` raises.
    """
    began = time.monotonic()
    group = _Group(argv, cwd, env, stdin, output_limit, preexec, pass_fds, spare_leader)
    timed_out = False
    try:
        if on_spawn is not None:
            on_spawn(group.pid)
        if not await group.ended(timeout):
            timed_out = True
            group.terminate()
            await group.ended(kill_after)
    except asyncio.CancelledError:
        await group.abort(grace, kill_after)
        raise
    finally:
        await group.close()
    output, truncated = group.kept.text()
    exit_code = None if timed_out else group.exit_code
    return Completed(exit_code, output, truncated, timed_out, round((time.monotonic() - began) * 1000))


class _Kept:
    """The first and the last bytes of a stream, at most `limit` in all."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit // 2
        self._tail_room = limit - self._head_room
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def add(self, chunk: bytes) -> None:
        self._seen += len(chunk)
        missing = self._head_room - len(self._head)
        if missing > 0:
            self._head += chunk[:missing]
            chunk = chunk[missing:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_room + _CHUNK:
            self._trim(self._tail_room)

    def _trim(self, room: int) -> None:
        del self._tail[: max(0, len(self._tail) - room)]

    def text(self) -> tuple[str, bool]:
        if self._seen <= self._limit:
            return (self._head + self._tail).decode("utf-8", "replace"), False
        marker = f"\n[… {self._seen - self._limit} bytes and more left out …]\n"
        self._trim(max(0, self._tail_room - len(marker)))
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return head + marker + tail, True


class _Group:
    """One spawned session: its leader, its pipes, and the callbacks that the event loop holds for it."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes,
        output_limit: int,
        preexec: Callable[[], None] | None,
        pass_fds: Sequence[int],
        spare_leader: bool,
    ) -> None:
        self.kept = _Kept(output_limit)
        self.exit_code: int | None = None
        self._loop = asyncio.get_running_loop()
        self._spare_leader = spare_leader
        self._process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            preexec_fn=preexec,
            pass_fds=tuple(pass_fds),
        )
        self.pid = self._process.pid
        self._exited = asyncio.Event()
        self._eof = asyncio.Event()
        self._pidfd = self._out = self._in = -1
        try:
            self._watch(stdin)
        except OSError:
            # Nobody would see it end, and it would go on by itself.
            self._discard()
            raise

    def _watch(self, stdin: bytes) -> None:
        """Have the event loop look after its exit and its pipes."""
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._on_exit)
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        self._loop.add_reader(self._out, self._on_output)
        self._pending = memoryview(stdin)
        if self._process.stdin is not None:
            self._in = self._process.stdin.fileno()
            os.set_blocking(self._in, False)
            self._loop.add_writer(self._in, self._on_writable)

    def _discard(self) -> None:
        """Kill what was started, and release whatever was registered for it."""
        self._signal(signal.SIGKILL)
        for descriptor in (self._pidfd, self._out):
            if descriptor >= 0:
                self._loop.remove_reader(descriptor)
        if self._in >= 0:
            self._loop.remove_writer(self._in)
        if self._pidfd >= 0:
            os.close(self._pidfd)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._exited.set()

    def _on_output(self) -> None:
        try:
            chunk = os.read(self._out, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self.kept.add(chunk)
        else:
            self._loop.remove_reader(self._out)
            self._eof.set()

    def _on_writable(self) -> None:
        try:
            self._pending = self._pending[os.write(self._in, self._pending[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._pending = memoryview(b"")
        if not self._pending:
            self._close_stdin()

    def _close_stdin(self) -> None:
        if self._in >= 0 and self._process.stdin is not None:
            self._loop.remove_writer(self._in)
            self._process.stdin.close()
            self._in = -1

    async def ended(self, seconds: float) -> bool:
        """Wait for the leader's exit, at most so long; say whether it has exited."""
        await _wait_for(self._exited, seconds)
        return self._exited.is_set()

    def terminate(self) -> None:
        """Ask the group to end."""
        if not self._spare_leader:
            self._signal(signal.SIGTERM)
            return
        for pid in _session_members(self.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        # The leader is reaped only in `close`, so its pid cannot name a stranger's group here.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def abort(self, grace: float, kill_after: float) -> None:
        """Ask, then insist; a cancellation in between goes straight to the kill in `close`."""
        self._close_stdin()
        with contextlib.suppress(asyncio.CancelledError):
            if not await self.ended(grace):
                self.terminate()
                await self.ended(kill_after)

    async def close(self) -> None:
        """Kill what is left of the group, reap the leader and release every descriptor; never waits long."""
        try:
            if self._exited.is_set() and not self._eof.is_set():
                await _wait_for(self._eof, _LINGER)
        finally:
            self._signal(signal.SIGKILL)
            try:
                if not self._exited.is_set():
                    await self.ended(_REAP)
            finally:
                self._release()

    def _release(self) -> None:
        self._close_stdin()
        if not self._eof.is_set():
            self._on_output()
            self._loop.remove_reader(self._out)
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self.exit_code = self._reaped()

    def _reaped(self) -> int | None:
        """The leader's exit code; under a tracer its end is seen a moment before it can be collected."""
        try:
            return self._process.wait(_REAP if self._exited.is_set() else 0)
        except subprocess.TimeoutExpired:
            return None


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so long.

    Not with `asyncio.timeout`: before Python 3.11.3 it becomes a cancellation in a task being canceled.
    """
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([waiting], timeout=seconds)
    finally:
        waiting.cancel()


def _session_members(leader: int) -> list[int]:
    """The processes of the leader's session, without the leader."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != leader:
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The command name is in parentheses and may hold anything, also spaces and parentheses.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader:
                    members.append(int(entry.name))
    return members
