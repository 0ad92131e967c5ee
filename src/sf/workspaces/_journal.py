"""What a landing holds while it runs, written so that whoever comes after a crash can end it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from sf import files
from sf.errors import WorkspaceFailed
from sf.workspaces._layout import Layout, read_small
from sf.workspaces._refs import ZERO
from sf.workspaces._user_checkout import copy_index
from sf.workspaces.refusals import CheckoutBusy

_WAIT = 0.02
_LANDING_ID = re.compile(r"[0-9a-f]{32}")


class Journal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One landing: the ref is locked from `preparing` on, a checkout's files are touched in `moving`.

    Of one whose journal was `cut` short nothing is known but the id that its locks bear.
    """

    landing_id: str
    branch: str
    old: str
    new: str
    step: Literal["checking", "preparing", "moving", "cut"]
    settings: tuple[bytes, ...] | None = None
    """What git was given with every command: whoever ends the landing may have settings of their own.

    As bytes: a path in them need not be UTF-8.
    """


class Desk:
    """The files of a landing: its journal, its private index, and its locks in the user's git directory."""

    def __init__(self, layout: Layout, state: Path) -> None:
        self._layout = layout
        self._state = state
        self.index = state / "landing" / "index"
        self.descriptor = -1

    @contextlib.asynccontextmanager
    async def claimed(self, patience: float) -> AsyncIterator[None]:
        """Hold the landing lock, which also the git processes of a killed landing hold until they end."""
        (self._state / "landing").mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._state / "landing.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            await _flock(descriptor, patience)
            self.descriptor = descriptor
            yield
        finally:
            self.descriptor = -1
            os.close(descriptor)

    def write(self, journal: Journal) -> None:
        """Make the journal durable before the step it names begins."""
        files.put(self._state / "landing.json", msgspec.json.encode(journal), sync=True)

    def read(self) -> Journal | None:
        """Return the journal of an unfinished landing, or None."""
        try:
            return msgspec.json.decode((self._state / "landing.json").read_bytes(), type=Journal)
        except FileNotFoundError:
            return None
        except msgspec.ValidationError as error:
            path = self._state / "landing.json"
            raise WorkspaceFailed(
                f"the journal of an unfinished landing cannot be read: {path}: {error}",
                hint="put the checkout right, remove that file, .git/HEAD.lock and .git/index.lock",
            ) from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            borne = (read_small(lock) for lock in self._locks())
            landing_id = next((text for text in borne if _LANDING_ID.fullmatch(text)), secrets.token_hex(16))
            return Journal(landing_id, "(unknown)", ZERO, ZERO, "cut")

    async def lock(self, journal: Journal, patience: float = 2.0) -> None:
        """Take HEAD.lock, then index.lock, each bearing the landing's id from its first moment."""
        for lock in self._locks():
            await self._take(lock, journal.landing_id, patience)

    async def lock_head(self, journal: Journal, patience: float = 2.0) -> None:
        """Take HEAD.lock alone: no branch can be checked out while it is held."""
        await self._take(self._locks()[0], journal.landing_id, patience)

    async def relock(self, journal: Journal, patience: float = 2.0) -> None:
        """Take again what of the two was removed since by somebody who held it for a dead git's."""
        for lock in self._locks():
            if read_small(lock) != journal.landing_id:
                await self._take(lock, journal.landing_id, patience)

    def note_files(self, paths: Sequence[str]) -> None:
        """Keep what the files are that the landing is about to change."""
        lines = (b"%s %s\0" % (_file_mark(self._layout.root, path), os.fsencode(path)) for path in paths)
        files.put(self._noted, b"".join(lines), sync=True)

    def untouched_files(self) -> set[str]:
        """Return those of them that are what they were."""
        if not self._noted.exists():
            return set()
        pairs = (line.partition(b" ") for line in self._noted.read_bytes().split(b"\0")[:-1])
        found = {os.fsdecode(path): mark for mark, _, path in pairs}
        return {path for path, mark in found.items() if _file_mark(self._layout.root, path) == mark}

    @property
    def _noted(self) -> Path:
        return self._state / "landing" / "files"

    def install_index(self, journal: Journal) -> None:
        """Put the private index in the place of the user's, whose lock this landing holds."""
        temporary = self._layout.git_dir / f".sf-{journal.landing_id}-index"
        # With its own time: a later one would hide a change that the user made in the second of the checkout.
        copy_index(self.index, temporary)
        # Both: an old index beside a branch that has moved would show what has landed as taken back.
        files.sync_path(temporary)
        temporary.replace(self._layout.index)
        files.sync_path(self._layout.git_dir)

    def clear(self, journal: Journal) -> None:
        """Give back every lock that bears the landing's id and forget the landing."""
        for lock in reversed(self._locks()):
            if read_small(lock) == journal.landing_id:
                lock.unlink(missing_ok=True)
        # A git process that was killed while it held the ref leaves its lock, which bears the new value.
        ref_lock = self._ref_lock(journal)
        if read_small(ref_lock) == journal.new:
            ref_lock.unlink(missing_ok=True)
        (self._state / "facade" / "HEAD.lock").unlink(missing_ok=True)
        for leftover in self._layout.git_dir.glob(f".sf-{journal.landing_id}*"):
            leftover.unlink(missing_ok=True)
        for guard in self._guards():
            # A part of the mark, where its writing was cut short.
            said = read_small(guard)
            if said and f"sf {journal.landing_id}".startswith(said):
                guard.unlink(missing_ok=True)
        for leftover in (self._state / "landing").glob("*"):
            leftover.unlink(missing_ok=True)
        (self._state / "landing.json").unlink(missing_ok=True)

    async def drop_nameless(self, journal: Journal, patience: float = 1.0) -> None:
        """Remove what a git process of this landing left that was killed before its mark was written into it.

        A lock of the ref, or guard of a pack, that is empty or holds a part of its mark counts as the
        landing's when it is younger than the step that makes it and stays the same for `patience`: a live
        git fills it within microseconds.
        """
        if journal.step == "preparing":
            made = {self._ref_lock(journal): journal.new}
        else:
            made = dict.fromkeys(self._guards(), f"sf {journal.landing_id}")
        began = (self._state / "landing.json").stat().st_mtime_ns
        before = {path: _identity_if_cut(path, mark) for path, mark in made.items()}
        ours = [path for path, found in before.items() if found is not None and found[1] >= began]
        if not ours:
            return
        await asyncio.sleep(patience)
        for path in ours:
            if _identity_if_cut(path, made[path]) == before[path]:
                path.unlink(missing_ok=True)

    def keep_guards(self, journal: Journal) -> None:
        """Make the marks durable that guard what this landing brought: an empty one would be nobody's."""
        for guard in self._guards():
            if read_small(guard) == f"sf {journal.landing_id}":
                files.sync_path(guard)

    def _guards(self) -> list[Path]:
        return list((self._layout.common / "objects" / "pack").glob("pack-*.keep"))

    def _ref_lock(self, journal: Journal) -> Path:
        return self._layout.common / "refs" / "heads" / f"{journal.branch}.lock"

    def _locks(self) -> tuple[Path, Path]:
        return self._layout.git_dir / "HEAD.lock", self._layout.git_dir / "index.lock"

    async def _take(self, lock: Path, landing_id: str, patience: float) -> None:
        temporary = self._layout.git_dir / f".sf-{landing_id}-lock"
        temporary.write_text(f"{landing_id}\n")
        try:
            # A lock that a power cut emptied would be nobody's, and stay until a person removes it.
            files.sync_path(temporary)
            deadline = asyncio.get_running_loop().time() + patience
            while True:
                try:
                    os.link(temporary, lock)
                    return
                except FileExistsError as error:
                    if asyncio.get_running_loop().time() > deadline:
                        raise CheckoutBusy(
                            f"another git process holds {lock}",
                            paths=(str(lock),),
                            hint="wait for it, or remove the file if no git runs",
                        ) from error
                await asyncio.sleep(_WAIT)
        finally:
            temporary.unlink(missing_ok=True)


def _file_mark(root: Path, path: str) -> bytes:
    """What tells a file from one that was written in its place; `-` for none."""
    status = files.lying(root, path)
    if status is None:
        return b"-"
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_mode}".encode()


def _identity_if_cut(path: Path, mark: str) -> tuple[int, int] | None:
    """What the file is, if it holds no more than the beginning of a mark."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > len(mark):
            return None
        said = path.read_bytes()
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_mtime_ns) if mark.encode().startswith(said) else None


async def _flock(descriptor: int, patience: float) -> None:
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if asyncio.get_running_loop().time() > deadline:
                raise CheckoutBusy("another landing into this checkout has not ended") from error
        await asyncio.sleep(_WAIT)
