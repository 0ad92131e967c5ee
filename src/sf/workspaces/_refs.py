"""Refs by compare-and-swap: single updates, and a transaction that stays open between check and commit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
from enum import Enum
from pathlib import Path, PurePosixPath

from sf import files
from sf.errors import GitFailed
from sf.workspaces._layout import read_small
from sf.workspaces.git import Call, Git, Identity, failure, kill
from sf.workspaces.refusals import BranchMoved

ZERO = "0" * 40
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Unset(Enum):
    """The type of `UNSET`: no expectation about a ref's old value."""

    UNSET = "unset"


UNSET = Unset.UNSET


async def read_ref(git: Git, git_dir: Path, name: str) -> str | None:
    """Return the commit that the full ref `name` has, or None.

    A ref's own file says it without a process. Git is asked for one that is packed, or names another; of one
    that it could not read it says that there is none: where one is kept, it is asked again.
    """
    found = _loose(git_dir, name) or await _shown(git, git_dir, name)
    return await _shown(git, git_dir, name) if found is None and _is_kept(git_dir, name) else found


def _loose(git_dir: Path, name: str) -> str | None:
    """The commit in the ref's own file, which git replaces as a whole; None for what git has to judge.

    Those are names that are none, and commits that have no file of their own: packed ones, and lost ones.
    """
    if str(PurePosixPath(name)) != name or ".." in name or name.endswith(".lock"):
        return None
    with contextlib.suppress(OSError):
        text = read_small(git_dir / name)
        if _COMMIT.fullmatch(text) and (git_dir / "objects" / text[:2] / text[2:]).is_file():
            return text
    return None


async def _shown(git: Git, git_dir: Path, name: str) -> str | None:
    output = await git.run("show-ref", "--verify", "--hash", "--", name, git_dir=git_dir, ok=(0, 1, 128))
    return output.text() or None if output.code == 0 else None


def _is_kept(git_dir: Path, name: str) -> bool:
    """Whether there is a file for the ref or a line among the packed ones, or that cannot be seen."""
    try:
        if not stat.S_ISDIR((git_dir / name).lstat().st_mode):
            return True
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return True
    try:
        return b" " + os.fsencode(name) + b"\n" in (git_dir / "packed-refs").read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True


async def update_ref(
    git: Git,
    git_dir: Path,
    name: str,
    new: str | None,
    old: str | Unset | None,
    *,
    identity: Identity | None = None,
) -> None:
    """Set (or with None delete) a ref; raise BranchMoved when it is not at `old` (None: absent).

    One that was set is there after a power cut. A deleted one may come back.
    """
    expected = "" if isinstance(old, Unset) else (old or ZERO)
    if new is None:
        lines = f"delete {name}\0{expected}\0"
    else:
        lines = f"update {name}\0{new}\0{expected}\0"
    try:
        await git.run(
            *("update-ref", "--no-deref", "-m", "sf", "-z", "--stdin"),
            git_dir=git_dir,
            stdin=lines.encode(),
            identity=identity,
        )
    except GitFailed as error:
        actual = await read_ref(git, git_dir, name)
        if not isinstance(old, Unset) and actual != old:
            raise BranchMoved(f"{name} is at {actual or 'nothing'}, not at {old}", actual=actual) from error
        raise
    if new is not None:
        _keep_name(git_dir, name)


def _keep_name(git_dir: Path, name: str) -> None:
    """Make it durable that a ref has this name: git syncs what is in it alone."""
    # One that was removed again at once has no need of it.
    with contextlib.suppress(FileNotFoundError):
        files.sync_path((git_dir / name).parent)


class RefTransaction:
    """One ref update held between `prepare` (checked, locked) and `commit`; left early, it never happened."""

    def __init__(self, call: Call, process: asyncio.subprocess.Process, name: str) -> None:
        self._call = call
        self._name = name
        self._process = process

    @classmethod
    async def prepare(cls, git: Git, call: Call, name: str, new: str, old: str) -> RefTransaction:
        """Lock the ref and check that it is at `old`; raise GitFailed when either cannot be."""
        process = await git.start(call)
        transaction = cls(call, process, name)
        try:
            await transaction._say("start", "start: ok")
            await transaction._say(f"update {name} {new} {old}\nprepare", "prepare: ok")
        except BaseException:
            await kill_gently(process)
            raise
        return transaction

    async def commit(self) -> None:
        """Make the update visible, and durable."""
        await self._say("commit", "commit: ok")
        _keep_name(self._call.git_dir, self._name)
        await kill_gently(self._process)

    async def abort(self) -> None:
        """Give the lock back; the ref stays as it was."""
        await kill_gently(self._process)

    async def _say(self, command: str, answer: str) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(f"{command}\n".encode())
            await stdin.drain()
        try:
            async with asyncio.timeout(30.0):
                line = (await stdout.readline()).decode().strip()
        except TimeoutError as error:
            raise GitFailed(f"{self._call.name()} did not answer {command.split()[-1]!r}") from error
        if line != answer:
            stderr = b"" if self._process.stderr is None else await self._process.stderr.read(4096)
            raise failure(self._call, self._process.returncode or 128, stderr.decode("utf-8", "replace"))


async def kill_gently(process: asyncio.subprocess.Process) -> None:
    """Close the process's input, so that git removes its lock files itself; kill it if it lingers."""
    if process.stdin is not None:
        process.stdin.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await process.stdin.wait_closed()
    try:
        async with asyncio.timeout(5.0):
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    await stream.read()
            await process.wait()
    except TimeoutError:
        await kill(process)
    finally:
        if process.returncode is None:
            await kill(process)
