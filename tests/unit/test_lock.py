"""The project lock and the doorbell, with real processes and sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from sf.errors import ProjectLocked
from sf.scheduler import doorbell
from sf.scheduler.doorbell import Doorbell
from sf.scheduler.lock import Holder, ProjectLock, is_alive, is_held, read_holder, this_process

_HOLD = """
import sys, time
from pathlib import Path
from sf.scheduler.lock import ProjectLock
with ProjectLock(Path(sys.argv[1]), "sf auto"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", _HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


@pytest.mark.conforms("C-44", "C-56")
def test_one_process_holds_a_project_and_another_is_told_who(tmp_path: Path) -> None:
    path = tmp_path / ".sf" / "run.lock"
    with holding(path) as other:
        with pytest.raises(ProjectLocked) as refused, ProjectLock(path, "sf plan", patience=0.1):
            pass
        assert str(other.pid) in refused.value.message
        assert "sf auto" in refused.value.message
        assert refused.value.exit_code == 5
        holder = is_held(path)
        assert holder is not None
        assert holder.pid == other.pid


@pytest.mark.conforms("C-44")
def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with holding(path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
    stale: list[Holder] = []
    assert is_held(path) is None
    with ProjectLock(path, "me", patience=0.5, on_takeover=stale.append):
        assert [holder.pid for holder in stale] == [other.pid]
        present = read_holder(path)
        assert present is not None
        assert present.pid == os.getpid()


@pytest.mark.conforms("C-44")
def test_a_pid_that_was_given_to_another_process_is_not_the_holder(tmp_path: Path) -> None:
    me = this_process()
    assert is_alive(me)
    assert not is_alive(msgspec.structs.replace(me, started="1"))
    assert not is_alive(msgspec.structs.replace(me, boot="another boot"))
    assert not is_alive(msgspec.structs.replace(me, pid=2**22 + 1))
    assert is_alive(msgspec.structs.replace(me, host="elsewhere")), "another machine cannot be judged"
    path = tmp_path / "run.lock"
    path.write_bytes(msgspec.json.encode(Holder(socket.gethostname(), 1, "1", me.boot, "dead")))
    with ProjectLock(path, "me", patience=0.1):
        pass


def test_a_machine_that_was_renamed_takes_its_own_lock_over(tmp_path: Path) -> None:
    """The file lock is free and the disk is this machine's: nobody of that name can be alive."""
    path = tmp_path / "run.lock"
    path.write_bytes(msgspec.json.encode(Holder("elsewhere", 1, "1", "boot", "sf auto")))
    assert is_held(path) is None
    taken: list[Holder] = []
    with ProjectLock(path, "me", patience=0.1, on_takeover=taken.append):
        assert is_held(path) is not None
    assert [holder.host for holder in taken] == ["elsewhere"]


@pytest.mark.conforms("C-56")
def test_two_projects_are_held_at_once_and_a_lock_can_be_taken_again(tmp_path: Path) -> None:
    with ProjectLock(tmp_path / "one" / "run.lock", "a"), ProjectLock(tmp_path / "two" / "run.lock", "b"):
        pass
    assert is_held(tmp_path / "one" / "run.lock") is None
    with ProjectLock(tmp_path / "one" / "run.lock", "a", patience=0.1):
        pass


@pytest.mark.conforms("C-44")
def test_a_killed_holder_that_nobody_has_waited_for_holds_nothing(tmp_path: Path) -> None:
    """In a container whose first process does not reap, such a zombie stays for ever."""
    path = tmp_path / "run.lock"
    with holding(path) as other:
        os.kill(other.pid, signal.SIGKILL)
        with ProjectLock(path, "me", patience=1.0):
            pass


def test_a_command_waits_a_little_for_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with holding(path) as other:
        killer = threading.Timer(0.2, end, [other])
        killer.start()
        began = time.monotonic()
        with ProjectLock(path, "me", patience=10.0):
            assert time.monotonic() - began >= 0.1
        killer.join()


@pytest.mark.conforms("C-44")
def test_a_process_cannot_hold_a_project_twice(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with (
        ProjectLock(path, "outer"),
        pytest.raises(ProjectLocked),
        ProjectLock(path, "inner", patience=0.1),
    ):
        pass


def test_a_garbled_lock_file_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    path.write_text("{ torn")
    assert is_held(path) is None
    with ProjectLock(path, "me", patience=0.1):
        pass


# --- doorbell ---


async def heard(runtime: Path, rings: int) -> int:
    woken = asyncio.Event()
    count = 0

    def on_ring() -> None:
        nonlocal count
        count += 1
        woken.set()

    bell = Doorbell(runtime, on_ring)
    try:
        for _ in range(rings):
            doorbell.ring(runtime)
        await asyncio.wait_for(woken.wait(), 5)
    finally:
        bell.close()
    return count


async def test_a_ring_wakes_the_loop_and_many_rings_are_one(tmp_path: Path) -> None:
    assert await heard(tmp_path / "runtime", 1) == 1
    assert await heard(tmp_path / "runtime", 50) == 1
    assert not (tmp_path / "runtime" / doorbell.NAME).exists()


async def test_a_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    assert await heard(tmp_path / ("x" * 100) / ("y" * 100) / "runtime", 1) == 1


async def test_a_socket_left_by_a_crash_is_replaced(tmp_path: Path) -> None:
    (tmp_path / doorbell.NAME).write_text("left behind")
    assert await heard(tmp_path, 1) == 1


def test_ringing_where_nobody_listens_is_no_error(tmp_path: Path) -> None:
    doorbell.ring(tmp_path / "none")
    doorbell.ring(tmp_path)
    (tmp_path / doorbell.NAME).write_text("no socket")
    doorbell.ring(tmp_path)
