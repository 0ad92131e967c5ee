"""One database, one writer thread, one reading connection.

Writes share a commit with those that arrive while they are carried out: each can be refused alone, and none
is answered before the commit is on disk (a claim that is lost is a unit run twice). Where the database fails,
all that share the commit have failed. They are told so and never repeated here: whether the commit arrived is
not known. The next one gets a new connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sf.domain.clock import SystemClock
from sf.domain.events import WARNING, Event
from sf.errors import SfError, StoreUnusable
from sf.store import migrate
from sf.store.connection import Reader, engine_of, reading, writing
from sf.store.inbox import Inbox, Outbox
from sf.store.place import Place
from sf.store.tx import Tx

T = TypeVar("T")

_GROUP = 64


class _Job:
    __slots__ = ("error", "future", "outbox", "tx", "value", "work")

    def __init__(self, work: Callable[[Tx], Any], outbox: Outbox[list[_Job]]) -> None:
        self.work = work
        self.outbox = outbox
        self.future: asyncio.Future[Any] = outbox.loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None
        self.tx: Tx | None = None


@contextlib.contextmanager
def _opening() -> Iterator[None]:
    """Raises StoreUnusable where the process has no descriptors left."""
    try:
        yield
    except OSError as error:
        raise StoreUnusable(f"cannot open the store: {error.strerror}") from error


class Database:
    """The open database of one project."""

    def __init__(self, place: Place, publish: Callable[[Event], None] = lambda event: None) -> None:
        self.place = place
        self._publish = publish
        self._closed = self._hurried = False
        self._engine = engine_of(place)
        with contextlib.ExitStack() as undone:
            with _opening():
                self._inbox: Inbox[_Job] = Inbox()
            undone.callback(self._inbox.close)
            self._writer = writing(self._engine)
            undone.callback(self._writer.close)
            self._reader = reading(self._engine, live=True)
            undone.pop_all()
        self.read = Reader(self._reader, self._engine)
        self._outboxes: dict[asyncio.AbstractEventLoop, Outbox[list[_Job]]] = {}
        self._rings_in: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name="sf-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction; its value once the commit is on disk, its events published."""
        if self._closed:
            raise StoreUnusable(f"{self._engine.name} is closed")
        loop = asyncio.get_running_loop()
        job = _Job(work, self._outboxes.get(loop) or self._outbox(loop))
        self._inbox.put(job)
        if self._rings_in is not loop:
            # When everything of this moment is there: it shares a commit, and the writer is woken once.
            self._rings_in = loop
            loop.call_soon(self._ring)
        # A caller that is canceled only stops listening: the work is done and announced all the same.
        value: T = await job.future
        return value

    def _outbox(self, loop: asyncio.AbstractEventLoop) -> Outbox[list[_Job]]:
        """Where a loop that has not written before is answered."""
        for other in [other for other in list(self._outboxes) if other.is_closed()]:
            # Not closed: the writer may be about to answer. It goes with the last of its jobs.
            self._outboxes.pop(other, None)
        with _opening():
            made = self._outboxes[loop] = Outbox(loop, self._deliver)
        return made

    def _ring(self) -> None:
        self._rings_in = None
        self._inbox.ring()

    def hurry(self) -> None:
        """Someone wants to end: a silent database is not waited for, a writer that hangs only once."""
        self._hurried = True
        self._engine.hurry()

    def close(self) -> None:
        """Finish what is queued and close the file."""
        self._closed = True
        self._inbox.end()
        self._thread.join()
        self._inbox.close()
        while self._outboxes:
            self._outboxes.popitem()[1].close()
        self._reader.close()
        self._writer.close()

    def _serve(self) -> None:
        while (job := self._inbox.wait()) is not None:
            self._commit(job)

    def _commit(self, first: _Job) -> None:
        group = [first]
        try:
            self._begin(first.outbox.loop)
            kept = self._run(first, nested=False)
            while len(group) < _GROUP and (following := self._inbox.take()) is not None:
                group.append(following)
                if not kept:
                    self._writer.rollback()
                    self._begin(following.outbox.loop)
                kept = self._run(following, nested=kept) or kept
            if kept:
                self._writer.commit()
            else:
                self._writer.rollback()
        except self._engine.errors as error:
            self._fail(group, self._engine.unusable("write", error))
        except SfError as error:
            self._fail(group, error)
        # At once, so that who waits for writes that were committed together sees all of them done.
        for outbox in {job.outbox for job in group}:
            outbox.put([job for job in group if job.outbox is outbox])

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin, once others have had their turn: one that hangs is waited for until the server ends it."""
        begun, told = time.monotonic(), False
        while True:
            try:
                return self._begin_now()
            except self._engine.waits as error:
                in_haste = self._hurried or self._closed
                if in_haste or time.monotonic() >= begun + self._writer.patience:
                    raise
                if not told:
                    detail = f"waits to write: {error}"
                    event = Event(WARNING, SystemClock().now(), data={"detail": detail, "log": True})
                    with contextlib.suppress(RuntimeError):  # the loop has ended: nobody listens
                        loop.call_soon_threadsafe(self._publish, event)
                    told = True

    def _begin_now(self) -> None:
        """Begin, on a new connection if the present one is lost: nothing has been asked of it yet."""
        try:
            self._writer.begin()
        except self._engine.errors:
            if not self._writer.is_lost:
                raise
            self._writer.mend()
            migrate.upgrade(self._writer, self._engine)
            self._writer.begin()

    def _fail(self, group: list[_Job], error: SfError) -> None:
        """Roll back; where even that fails, every later write is refused by the database, and told so."""
        with contextlib.suppress(*self._engine.errors):
            self._writer.rollback()
        for job in group:
            job.error = job.error or error

    def _run(self, job: _Job, *, nested: bool) -> bool:
        """Carry a job out, in a savepoint beside others that are kept; whether it is to be kept."""
        tx = Tx(self._writer, self._engine.is_outage)
        if nested:
            self._writer.execute("SAVEPOINT job")
        try:
            job.value = job.work(tx)
            if nested:
                self._writer.execute("RELEASE job")
            job.tx = tx
            return True
        except Exception as error:
            if self._engine.is_outage(error) or self._lost_by(error):
                raise
            job.error = error
            if nested:
                self._writer.execute("ROLLBACK TO job")
                self._writer.execute("RELEASE job")
            return False

    def _lost_by(self, error: Exception) -> bool:
        """Whether the database is gone, whatever the driver calls it."""
        return isinstance(error, self._engine.errors) and self._writer.is_lost

    def _deliver(self, group: list[_Job]) -> None:
        for job in group:
            if job.error is None and job.tx is not None:
                for event in job.tx.events:
                    self._tell(event, job.outbox.loop)
            if job.future.cancelled():
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.value)

    def _tell(self, event: Event, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._publish(event)
        except Exception as error:  # it is on disk all the same: everyone who waits is answered
            loop.call_exception_handler({"message": f"{event.name} could not be told", "exception": error})
