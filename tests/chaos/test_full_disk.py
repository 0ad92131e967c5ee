"""A disk that is really full: sf stops with a line, and goes on when there is room again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.chaos.ground import Ground
from tests.chaos.invariants import broken
from tests.chaos.plays import SHORT
from tests.chaos.sweep import FULL

_KIB = 1024
ROOM = [step * 16 * _KIB for step in range(64)] if FULL else [step * _KIB for step in (0, 160, 400)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The short project on a disk of its own of a few megabytes."""
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m,mode=0700", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode != 0:
        pytest.skip(f"mounting is refused: {done.stderr.strip()}")
    try:
        with closing(Ground(folder, SHORT)) as ground:
            yield ground
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("room", ROOM)
def test_a_full_disk_stops_the_work_and_loses_none_of_it(small: Ground, room: int) -> None:
    small.reset()
    filler = _fill(small.folder, room)
    ended = small.sf("auto")
    assert "Traceback" not in ended.stderr, ended.stderr
    assert ended.code in (0, 1), (ended.code, ended.stdout, ended.stderr)
    assert ended.code == 0 or (ended.stdout + ended.stderr).strip()
    filler.unlink()
    assert not (small.home / "log" / "crash.log").exists(), (small.home / "log" / "crash.log").read_text()
    again = small.sf("auto")
    assert again.code == 0, again.stdout + again.stderr
    problems = broken(small, torn=2)
    assert not problems, f"with room for {room} bytes: {problems}"


def _fill(folder: Path, room: int) -> Path:
    """Leave so many bytes free."""
    filler = folder / "filler"
    free = os.statvfs(folder)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - room))
    return filler
