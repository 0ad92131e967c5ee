"""Small files are there whole or not at all, and a refusal says which."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from pathlib import Path

import pytest

from sf import files


def test_a_disk_that_refuses_is_told_with_the_path_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.put(path, "whole")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="too large") as refused:
            files.put(path, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == "whole"


def test_what_was_swapped_for_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    files.sync_path(tmp_path / "pipe")
    files.sync_all(tmp_path, ["pipe"])
    assert (tmp_path / "pipe").is_fifo(), "it is left as it is"


def test_a_file_on_which_somebody_has_a_lease_is_synced_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "leased"
    path.write_text("x")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            held = os.open(path, os.O_RDWR)
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            os.write(writer, b"!")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"!", "the lease could not be had"
        with pytest.raises(BlockingIOError):
            files.sync_path(path)
        files.sync_all(tmp_path, ["leased"])
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
