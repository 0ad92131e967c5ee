"""One SQLite file, one writer thread, one reading connection.

Writes that wait at the same time share one commit: each runs in a savepoint, and none is answered before
the commit is on disk (synchronous=FULL: a claim that is lost is a unit run twice).
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sf.domain.events import Event
from sf.errors import StoreUnusable
from sf.store import migrate
from sf.store.tx import Tx

T = TypeVar("T")

_GROUP = 64
_BUSY_MS = 10_000


class _Job:
    __slots__ = ("error", "future", "loop", "tx", "value", "work")

    def __init__(self, work: Callable[[Tx], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None
        self.tx: Tx | None = None


def _connect(target: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(target, isolation_level=None, uri=uri, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return connection


def open_reader(path: Path) -> Tx:
    """A reading connection for a command; works on a read-only disk too."""
    if not path.exists():
        raise StoreUnusable(f"there is no database at {path}", hint="run sf init")
    error: sqlite3.Error | None = None
    for options in ("mode=ro", "immutable=1"):
        try:
            connection = _connect(f"{path.absolute().as_uri()}?{options}", uri=True)
            migrate.refuse_newer(connection, path)
            return Tx(connection)
        except sqlite3.Error as caught:
            error = caught
    raise StoreUnusable(f"cannot read {path}: {error}", hint="sf doctor says more")


def transact(path: Path, work: Callable[[Tx], T]) -> T:
    """One transaction for a command that has no loop of its own."""
    try:
        connection = _writing(path)
    except sqlite3.Error as error:
        raise _unusable("open", path, error) from error
    try:
        connection.execute("BEGIN IMMEDIATE")
        value = work(Tx(connection))
        connection.execute("COMMIT")
        return value
    except sqlite3.OperationalError as error:
        raise _unusable("write", path, error) from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()


def _writing(path: Path) -> sqlite3.Connection:
    connection = _connect(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    migrate.upgrade(connection, path)
    return connection


def _unusable(what: str, path: Path, error: sqlite3.Error) -> StoreUnusable:
    return StoreUnusable(f"cannot {what} {path}: {error}", hint="is the disk full or read-only?")


class Database:
    """The open database of one project."""

    def __init__(self, path: Path, publish: Callable[[Event], None] = lambda event: None) -> None:
        self._publish = publish
        self._path = path
        try:
            self._writer = _writing(path)
            reader = _connect(str(path))
            reader.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise _unusable("open", path, error) from error
        self._reader = reader
        self.read = Tx(reader)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="sf-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction; its value once the commit is on disk, its events published."""
        job = _Job(work, asyncio.get_running_loop())
        self._jobs.put(job)
        # Shielded: a caller that is canceled must not leave half of its effects unannounced.
        value: T = await asyncio.shield(job.future)
        return value

    def close(self) -> None:
        """Finish what is queued and close the file."""
        self._jobs.put(None)
        self._thread.join()
        self._reader.close()
        self._writer.close()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            group = [job]
            last = False
            while len(group) < _GROUP and not self._jobs.empty():
                following = self._jobs.get()
                if following is None:
                    last = True
                    break
                group.append(following)
            self._commit(group)
            if last:
                return

    def _commit(self, group: list[_Job]) -> None:
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            for job in group:
                self._run(job, nested=len(group) > 1)
            if all(job.error is not None for job in group):
                self._writer.execute("ROLLBACK")
            else:
                self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            for job in group:
                job.error = _unusable("write", self._path, error)
        for job in group:
            job.loop.call_soon_threadsafe(self._deliver, job)

    def _run(self, job: _Job, *, nested: bool) -> None:
        tx = Tx(self._writer)
        if nested:
            self._writer.execute("SAVEPOINT job")
        try:
            job.value = job.work(tx)
            job.tx = tx
        except sqlite3.OperationalError:
            raise
        except Exception as error:
            job.error = error
            if nested:
                self._writer.execute("ROLLBACK TO job")
        if nested:
            self._writer.execute("RELEASE job")

    def _deliver(self, job: _Job) -> None:
        if job.error is None and job.tx is not None:
            for event in job.tx.events:
                self._publish(event)
        if job.future.cancelled():
            return
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.value)
