from __future__ import annotations

import asyncio
import errno
import os
import selectors
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sf.policy import process
from sf.policy.process import Completed

ENV = {"PATH": "/usr/bin:/bin"}


async def bash(script: str, cwd: Path, *, timeout: float = 20.0, **more: float) -> Completed:
    grace, kill_after = more.get("grace", 5.0), more.get("kill_after", 3.0)
    return await process.run(
        ["/bin/bash", "-c", script], cwd=cwd, env=ENV, timeout=timeout, grace=grace, kill_after=kill_after
    )


def alive(pid: int) -> bool:
    """A zombie that nobody has reaped yet is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> bool:
    for _ in range(100):
        if not alive(pid):
            return True
        await asyncio.sleep(0.02)
    return False


async def pid_in(path: Path) -> int:
    for _ in range(250):
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        await asyncio.sleep(0.02)
    raise AssertionError(f"{path} was never written")


async def test_output_of_both_streams_comes_in_order(tmp_path: Path) -> None:
    done = await bash("echo one; echo two >&2; echo three; exit 7", tmp_path)
    assert (done.exit_code, done.output) == (7, "one\ntwo\nthree\n")
    assert not done.truncated
    assert not done.timed_out


async def test_death_by_signal_is_a_negative_exit_code(tmp_path: Path) -> None:
    assert (await bash("kill -9 $$", tmp_path)).exit_code == -signal.SIGKILL


async def test_only_the_given_environment_and_folder(tmp_path: Path) -> None:
    done = await process.run(["/usr/bin/env"], cwd=tmp_path, env={"A": "1"}, timeout=20)
    assert done.output == "A=1\n"
    assert (await bash("pwd -P", tmp_path)).output.strip() == str(tmp_path.resolve())


async def test_large_stdin_goes_through_while_output_is_read(tmp_path: Path) -> None:
    sent = b"x" * 3_000_000
    done = await process.run(
        ["/bin/cat"], cwd=tmp_path, env=ENV, stdin=sent, timeout=20, output_limit=4_000_000
    )
    assert done.output == sent.decode()


async def test_stdin_that_nobody_reads_does_no_harm(tmp_path: Path) -> None:
    done = await process.run(["/bin/true"], cwd=tmp_path, env=ENV, stdin=b"x" * 3_000_000, timeout=20)
    assert done.exit_code == 0


async def test_without_stdin_a_reader_sees_the_end_at_once(tmp_path: Path) -> None:
    done = await process.run(["/bin/cat"], cwd=tmp_path, env=ENV, timeout=20)
    assert (done.exit_code, done.output) == (0, "")


async def test_a_flood_is_kept_head_and_tail(tmp_path: Path) -> None:
    script = "echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last"
    done = await process.run(
        ["/bin/bash", "-c", script], cwd=tmp_path, env=ENV, timeout=60, output_limit=10_000
    )
    assert done.truncated
    assert done.exit_code == 0
    assert done.output.startswith("first\nxxx")
    assert done.output.endswith("xxx\nlast\n")
    assert "left out" in done.output
    assert len(done.output) <= 10_000


async def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    assert (await bash("printf 'a\\377b'", tmp_path)).output == "a\ufffdb"


async def test_time_out_terminates_and_keeps_the_output(tmp_path: Path) -> None:
    done = await bash("trap 'echo cleaned; exit 0' TERM; echo hi; sleep 60 & wait", tmp_path, timeout=0.5)
    assert done.timed_out
    assert done.exit_code is None
    assert done.output == "hi\ncleaned\n"


async def test_time_out_kills_what_ignores_sigterm(tmp_path: Path) -> None:
    began = time.monotonic()
    script = f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 60; done"
    done = await bash(script, tmp_path, timeout=0.5, kill_after=0.5)
    assert done.timed_out
    assert time.monotonic() - began < 6
    assert await gone(int((tmp_path / "pid").read_text()))


async def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_run(tmp_path: Path) -> None:
    began = time.monotonic()
    done = await bash("sleep 60 & echo $! > pid; echo done", tmp_path)
    assert (done.exit_code, done.output) == (0, "done\n")
    assert time.monotonic() - began < 5
    assert await gone(int((tmp_path / "pid").read_text()))


async def test_a_quiet_grandchild_is_killed_too(tmp_path: Path) -> None:
    await bash("(trap '' TERM HUP; exec sleep 60) >/dev/null 2>&1 & echo $! > pid", tmp_path)
    assert await gone(int((tmp_path / "pid").read_text()))


async def test_cancellation_follows_the_abort_sequence(tmp_path: Path) -> None:
    script = f"trap 'echo term > {tmp_path}/term' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done"
    task = asyncio.create_task(bash(script, tmp_path, grace=0.4, kill_after=0.6))
    pid = await pid_in(tmp_path / "pid")
    began = time.monotonic()
    task.cancel()
    await asyncio.sleep(0.2)
    assert alive(pid)
    assert not (tmp_path / "term").exists()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 1.0 <= time.monotonic() - began < 6
    assert (tmp_path / "term").exists()
    assert await gone(pid)


async def test_cancellation_closes_stdin_for_a_command_that_listens(tmp_path: Path) -> None:
    reads = "import sys,time; open('pid','w').write('1'); time.sleep(0.5); sys.stdin.read(); open('end','w')"
    task = asyncio.create_task(
        process.run(
            [sys.executable, "-c", reads], cwd=tmp_path, env=ENV, stdin=b"x" * 1_000_000, timeout=20, grace=10
        )
    )
    await pid_in(tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "end").exists()


async def test_a_second_cancellation_kills_at_once(tmp_path: Path) -> None:
    task = asyncio.create_task(
        bash("trap '' TERM; echo $$ > pid; while :; do sleep 1; done", tmp_path, grace=60)
    )
    pid = await pid_in(tmp_path / "pid")
    task.cancel()
    await asyncio.sleep(0.1)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 3
    assert await gone(pid)


async def test_a_failing_observer_leaves_no_process(tmp_path: Path) -> None:
    seen: list[int] = []

    def observe(pid: int) -> None:
        seen.append(pid)
        raise RuntimeError("observer")

    with pytest.raises(RuntimeError, match="observer"):
        await process.run(["/bin/sleep", "60"], cwd=tmp_path, env=ENV, timeout=20, on_spawn=observe)
    assert await gone(seen[0])


async def test_a_missing_program_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await process.run(["/no/such/program"], cwd=tmp_path, env=ENV, timeout=5)


async def test_many_runs_leak_no_descriptor_and_are_cheap(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    times = []
    for _ in range(20):
        began = time.monotonic()
        await process.run(["/bin/true"], cwd=tmp_path, env=ENV, timeout=5)
        times.append(time.monotonic() - began)
    await asyncio.gather(*(bash("echo x", tmp_path) for _ in range(20)))
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # noqa: PTH208
    assert sorted(times)[10] < 0.05


class _Full(selectors.EpollSelector):
    """Watches nothing more from some moment on, as the kernel's limit makes it."""

    room = 100

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self.room -= 1
        if self.room < 0:
            raise OSError(errno.ENOSPC, "no room for another watch")
        return super().register(fileobj, events, data)


@pytest.mark.parametrize("room", [0, 1])
def test_a_process_that_cannot_be_watched_is_ended(tmp_path: Path, room: int) -> None:
    async def run() -> None:
        selector.room = room
        with pytest.raises(OSError, match="no room for another watch"):
            await bash("sleep 60", tmp_path)
        selector.room = 100

    selector = _Full()
    loop = asyncio.SelectorEventLoop(selector)
    before = len(list(Path("/proc/self/fd").iterdir()))
    try:
        loop.run_until_complete(run())
    finally:
        after = len(list(Path("/proc/self/fd").iterdir()))
        loop.close()
    assert after == before
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if b"sleep 60" in Path(f"/proc/{pid}/cmdline").read_bytes()]
