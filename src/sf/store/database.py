"""One SQLite file, one writer thread, one reading connection.

Writes that wait at the same time share one commit: each runs in a savepoint, and none is answered before
the commit is on disk (synchronous=FULL: a claim that is lost is a unit run twice).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sf.domain.events import Event
from sf.errors import StoreUnusable
from sf.store.connection import connect, connect_writing, unusable
from sf.store.tx import Tx

T = TypeVar("T")

_GROUP = 64


class _Job:
    __slots__ = ("error", "future", "loop", "tx", "value", "work")

    def __init__(self, work: Callable[[Tx], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None
        self.tx: Tx | None = None


class Database:
    """The open database of one project."""

    def __init__(self, path: Path, publish: Callable[[Event], None] = lambda event: None) -> None:
        self._publish = publish
        self._path = path
        self._closed = False
        try:
            self._writer = connect_writing(path)
            reader = connect(str(path))
            reader.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise unusable("open", path, error) from error
        self._reader = reader
        self.read = Tx(reader)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="sf-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction; its value once the commit is on disk, its events published."""
        if self._closed:
            raise StoreUnusable(f"{self._path} is closed")
        job = _Job(work, asyncio.get_running_loop())
        self._jobs.put(job)
        # A caller that is canceled only stops listening: the work is done and announced all the same.
        value: T = await job.future
        return value

    def close(self) -> None:
        """Finish what is queued and close the file."""
        self._closed = True
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
            self._give_up()
            for job in group:
                job.error = unusable("write", self._path, error)
        for job in group:
            job.loop.call_soon_threadsafe(self._deliver, job)

    def _give_up(self) -> None:
        """Roll back; where even that fails, every later write is refused by SQLite, and told so."""
        with contextlib.suppress(sqlite3.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

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
