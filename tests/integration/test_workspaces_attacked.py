"""Attacks on landings and on git itself that once did harm, each met again by real means."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sf.workspaces.git import Call, Git, kill
from sf.workspaces.refusals import CheckoutBusy
from tests.integration.test_workspaces_opening import Project, user_git, write

_BLOB = 24 << 20
_TOO_MUCH = 257 << 20


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    return await Project.make(tmp_path)


class Stopped:
    """The reflog of the user's branch as a FIFO: who moves the branch stands still until it is opened."""

    def __init__(self, root: Path) -> None:
        self._path = root / ".git/logs/refs/heads/main"
        self._descriptor = -1

    def __enter__(self) -> Stopped:
        self._path.unlink()
        os.mkfifo(self._path)
        return self

    def go_on(self) -> None:
        """Let what is written from now on through."""
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)

    def __exit__(self, *_: object) -> None:
        if self._descriptor < 0:
            self.go_on()
        os.close(self._descriptor)
        self._path.unlink()


async def until(seen: Callable[[], bool], patience: float = 20.0) -> None:
    deadline = time.monotonic() + patience
    while not seen():
        assert time.monotonic() < deadline, "the moment did not come"
        await asyncio.sleep(0.005)


def opened(path: Path) -> int:
    """How often this process has a file open."""
    links = list(Path("/proc/self/fd").iterdir())
    return sum(1 for link in links if link.is_symlink() and link.readlink() == path)


async def test_a_branch_checked_out_while_its_landing_waits_is_not_moved_under_the_checkout(
    project: Project,
) -> None:
    root, old = project.root, await project.tip()
    new = await project.next_commit({"src/a.py": "a = 2\n"})
    user_git(root, "switch", "-q", "-c", "other")
    lock = project.base / "state" / "landing.lock"
    held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    landing = asyncio.ensure_future(project.user.land("main", old, new, project.owned))
    try:
        await until(lambda: opened(lock) == 2)
        user_git(root, "switch", "-q", "main")
    finally:
        os.close(held)
    with pytest.raises(CheckoutBusy):
        await landing
    assert user_git(root, "status", "--porcelain") == ""
    assert await project.tip() == old
    assert not list((root / ".git").rglob("*.lock"))


async def test_nobody_checks_a_branch_out_while_it_is_moved_alone(project: Project) -> None:
    """The landing stands at a reflog that is a FIFO: HEAD must be locked by then."""
    root, old = project.root, await project.tip()
    new = await project.next_commit({"src/a.py": "a = 2\n"})
    user_git(root, "switch", "-q", "-c", "other")
    with Stopped(root) as reflog:
        landing = asyncio.ensure_future(project.user.land("main", old, new, project.owned))
        await until((root / ".git/refs/heads/main.lock").exists)
        user_git(root, "switch", "-q", "main", check=False)
        assert user_git(root, "symbolic-ref", "HEAD") == "refs/heads/other"
        reflog.go_on()
        await landing
    assert user_git(root, "status", "--porcelain") == ""


async def test_an_edit_in_the_second_of_the_checkout_is_seen_when_the_landing_ends_later(
    project: Project,
) -> None:
    """Of the same size, in the same second, in the same file: only the index's own time tells it."""
    root, old = project.root, await project.tip()
    new = await project.next_commit({"src/a.py": "a = 2\n"})
    file = root / "src/a.py"
    with Stopped(root) as reflog:
        await asyncio.sleep(1.02 - time.time() % 1)
        landing = asyncio.ensure_future(project.user.land("main", old, new, project.owned))
        await until(lambda: file.exists() and file.read_text() == "a = 2\n")
        written = file.stat()
        file.write_text("a = 3\n")
        os.utime(file, ns=(written.st_mtime_ns, written.st_mtime_ns))
        await asyncio.sleep(1.1)
        reflog.go_on()
        await landing
    assert user_git(root, "rev-parse", "main") == new
    assert user_git(root, "status", "--porcelain") == "M src/a.py"


async def test_recovery_ends_a_landing_with_a_file_larger_than_any_output(project: Project) -> None:
    root, old = project.root, await project.tip()
    with (root / "big.bin").open("wb") as big:
        big.truncate(_TOO_MUCH)
    user_git(root, "add", "big.bin")
    user_git(root, "commit", "-q", "-m", "big")
    new = await project.tip()
    user_git(root, "update-ref", "refs/heads/main", old)
    user_git(root, "read-tree", old)
    with (root / "big.bin").open("wb") as big:
        big.truncate(_TOO_MUCH - 1)
    state = project.base / "state"
    (state / "landing").mkdir(exist_ok=True)
    (state / "landing.json").write_text(
        f'{{"landing_id":"ab","branch":"main","old":"{old}","new":"{new}","step":"moving"}}'
    )
    (root / ".git/HEAD.lock").write_text("ab\n")
    (root / ".git/index.lock").write_text("ab\n")
    assert "undone" in (await project.user.recover_landing() or "")
    assert user_git(root, "status", "--porcelain") == ""
    assert not list((root / ".git").rglob("*.lock"))


async def test_a_git_whose_output_nobody_reads_is_gone_soon_after_it_is_stopped(project: Project) -> None:
    (project.root / "big").write_bytes(bytes(_BLOB))
    blob = user_git(project.root, "hash-object", "-w", "big")
    process = await Git().start(Call(("cat-file", "blob", blob), project.root / ".git"))
    # Time enough to fill the pipe and all that is read ahead of it.
    await asyncio.sleep(0.5)
    done, _ = await asyncio.wait({asyncio.ensure_future(kill(process))}, timeout=10.0)
    assert done and process.returncode is not None


@pytest.mark.parametrize("limit", [0.02, 0.05, 60.0])
async def test_a_git_that_is_out_of_time_or_called_off_ends_with_its_caller(
    project: Project, limit: float
) -> None:
    (project.root / "big").write_bytes(bytes(_BLOB))
    blob = user_git(project.root, "hash-object", "-w", "big")
    call = Git().run("cat-file", "blob", blob, git_dir=project.root / ".git", timeout=limit)
    running = asyncio.ensure_future(call)
    if limit > 1:
        await asyncio.sleep(0.03)
        running.cancel()
    done, _ = await asyncio.wait({running}, timeout=10.0)
    assert done, "it hangs"


@pytest.mark.parametrize("turns", range(1, 8))
async def test_a_git_that_is_called_off_twice_ends_with_its_caller(project: Project, turns: int) -> None:
    """A time limit and then a stop: the second fell into the tidying up after the first."""
    os.mkfifo(project.base / "fifo")
    waits = str(project.base / "fifo")
    running = asyncio.ensure_future(Git().run("hash-object", waits, git_dir=project.root / ".git"))
    deadline = time.monotonic() + 10
    while not _processes(waits) and time.monotonic() < deadline:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.01)
    running.cancel()
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running}, timeout=10.0)
    assert running.cancelled() and not _processes(waits)


def _processes(argument: str) -> list[str]:
    """The processes that were started with an argument."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if argument.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(entry.name)
    return found


@pytest.mark.parametrize("mine", ["my own\n", "", "a = "])
async def test_edits_that_the_index_was_told_to_overlook_survive_a_landing(
    project: Project, mine: str
) -> None:
    for flag in ("--skip-worktree", "--assume-unchanged"):
        old = await project.tip()
        await project.owned.fetch(old)
        user_git(project.root, "update-index", flag, "src/a.py")
        write(project.root, {"src/a.py": mine})
        new = await project.next_commit({"src/a.py": "a = 2\n"})
        with pytest.raises(CheckoutBusy) as busy:
            await project.user.land("main", old, new, project.owned)
        assert f"src/a.py ({flag[2:]})" in busy.value.message
        assert f"git update-index --no-{flag[2:]} src/a.py" in busy.value.hint
        assert (project.root / "src/a.py").read_text() == mine
        assert await project.tip() == old
        user_git(project.root, "update-index", f"--no-{flag[2:]}", "src/a.py")
        user_git(project.root, "checkout", "-q", "src/a.py")
