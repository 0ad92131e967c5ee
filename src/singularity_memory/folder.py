"""The data folder: where the memory's file, its tokens and its lock are, and who serves it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from singularity_memory.errors import Failure

_OWNER_ONLY = 0o700


class FolderTaken(Failure):
    """Another server holds the data folder."""

    code = "folder_taken"


class FolderUnusable(Failure):
    """The data folder cannot be made, read or written."""

    code = "folder_unusable"


class Folder:
    """A data folder, made when there is none, for its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
        except OSError as error:
            raise FolderUnusable(f"{path}: {error.strerror or error}") from error

    @property
    def database(self) -> Path:
        """The memory's file."""
        return self.path / "memory.db"

    @property
    def first_token(self) -> Path:
        """The token that was made at the first start."""
        return self.path / "token"

    @property
    def tokens(self) -> Path:
        """The tokens that were added, hashed."""
        return self.path / "tokens.json"

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """Hold the folder for one server, until the process ends at the latest. Raises FolderTaken."""
        with self._locked("server.lock", wait=False) as lock:
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            yield

    @contextlib.contextmanager
    def changing_tokens(self) -> Iterator[None]:
        """Be the only one who changes the tokens."""
        with self._locked("tokens.lock", wait=True):
            yield

    @contextlib.contextmanager
    def _locked(self, name: str, *, wait: bool) -> Iterator[int]:
        place = self.path / name
        try:
            lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FolderUnusable(f"{place}: {error.strerror or error}") from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
                raise FolderTaken(f"{self.path} is served by process {holder or 'unknown'}") from error
            yield lock
        finally:
            os.close(lock)
