"""What comes over the wire from a PostgreSQL, in time: rows as the store reads them, like SQLite's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import psycopg.errors
from psycopg import waiting
from psycopg.abc import RV, Buffer, PQGen
from psycopg.adapt import Loader

SILENCE = 30.0
"""Seconds after which a server that was asked and says nothing is asked elsewhere whether it is at it."""
PROBE = 5.0
"""Seconds within which it has to say there that it is; else it counts as lost."""
HASTE = 2.0
"""Seconds after which it counts as lost when sf is to end."""
_SLICE = 0.1
_STATE = "SELECT state FROM pg_stat_activity WHERE pid = %(pid)s"


class ServerRow:
    """A row with its columns by name or by number, like SQLite's."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: dict[str, int], values: Sequence[Any]) -> None:
        self._places = places
        self._values = values

    def __getitem__(self, key: str | int, /) -> Any:
        return self._values[self._places[key] if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def keys(self) -> list[str]:
        """The names of the columns."""
        return list(self._places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServerRow) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]


def rows_of(cursor: psycopg.Cursor[ServerRow]) -> Callable[[Sequence[Any]], ServerRow]:
    """Rows for what a cursor found."""
    # From the result itself: the driver's description makes an object of every column of every query.
    result = cursor.pgresult
    fields = result.nfields if result else 0
    places = {(result.fname(number) or b"").decode(): number for number in range(fields)} if result else {}
    return lambda values: ServerRow(places, values)


def plain(value: Any) -> Any:
    """A value as SQLite would keep it: truth as a number. PostgreSQL's text cannot hold NUL."""
    if isinstance(value, bool):
        return int(value)
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


class InDoubt(psycopg.OperationalError):
    """The server was lost while it committed: whether it did is not known."""


class WholeNumber(Loader):
    """A sum as the int that it is: PostgreSQL adds BIGINTs up to a NUMERIC."""

    def load(self, data: Buffer) -> int | float:
        """The number."""
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class Probe:
    """Asks a server, on a connection of its own, whether it is at work for another one."""

    def __init__(self, url: str, pid: int) -> None:
        self.begun = time.monotonic()
        self.at_work = False
        self._url = url
        self._pid = pid
        # Aside: who waits must meanwhile hear the answer, if it comes, and a signal to stop.
        threading.Thread(target=self._ask, name="sf-probe", daemon=True).start()

    def _ask(self) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True, connect_timeout=int(PROBE)) as line:
                row = line.execute(_STATE, {"pid": self._pid}).fetchone()
        except psycopg.errors.ConnectionTimeout:
            return
        except psycopg.Error:
            # Whoever refuses one more connection lives, and cannot be asked more. Where only the way there
            # was refused, the network tells the other connection that it is dead.
            self.at_work = True
            return
        # One that waits for the next request has answered, or was not reached: the way between is cut.
        self.at_work = row is not None and not str(row[0]).startswith("idle")


class Haste:
    """Whether sf is to end. Without a lock: a signal's handler may interrupt itself as it sets it."""

    __slots__ = ("wanted",)

    def __init__(self) -> None:
        self.wanted = False


class Wire(psycopg.Connection[ServerRow]):
    """A driver's connection on which every exchange ends, unless the server says that it is at work.

    The network cannot tell: what is at the server's end may be stopped, or a tunnel between may be stalled.
    A commit that waits for a standby, a lock or a long statement are silent as well, and are waited for.
    """

    haste: Haste | None = None
    url = ""
    """Where the server can be asked what it does here."""
    pid = 0
    """What it calls its end of this connection."""
    turn = 0.0
    """Seconds for which the server may say nothing because it lets others go first, even in haste."""

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        """Carry an exchange out. A server that is silent is an OperationalError, and is left."""
        if args or options:  # the driver has its own limit for this one
            return super().wait(gen, *args, **options)
        try:
            return waiting.wait(self._heard(gen), self.pgconn.socket, interval=_SLICE)
        except Exception:
            raise
        except BaseException:
            # Ctrl-C. The driver would ask the server to break off, and wait for the answer.
            self.pgconn.finish()
            raise

    def _heard(self, gen: PQGen[RV]) -> PQGen[RV]:
        """The exchange, looked at in slices while nothing comes in."""
        try:
            wanted = next(gen)
            since = patient = time.monotonic()
            probe: Probe | None = None
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    since, patient, probe = now, now, None
                elif probe is not None and probe.at_work:
                    patient, probe = now, None
                elif self._is_over(now - since, probe, now):
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server has said nothing for {now - since:.0f} s")
                elif probe is None and now - patient >= SILENCE:
                    probe = Probe(self.url, self.pid)
                wanted = gen.send(ready)
        except StopIteration as ended:
            answer: RV = ended.value
            return answer

    def _is_over(self, silence: float, probe: Probe | None, now: float) -> bool:
        if self.haste is not None and self.haste.wanted:
            return silence >= self.turn + HASTE
        return probe is not None and now - probe.begun >= PROBE
