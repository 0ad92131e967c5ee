"""What the store asks of a database: the seam between the one writer and SQLite or PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sf.errors import ProjectLocked, StoreUnusable
from sf.store.tx import Cursor


class Connection(Protocol):
    """An open connection, outside of any transaction when it is handed out."""

    def execute(self, sql: str, parameters: Mapping[str, Any] = ..., /) -> Cursor:
        """Carry out one statement."""
        ...

    def begin(self) -> None:
        """Open a transaction that no other writer's overlaps."""
        ...

    def commit(self) -> None:
        """Make it durable. Raises when it could not be."""
        ...

    def rollback(self) -> None:
        """Undo it; harmless when there is none."""
        ...

    def has_table(self, name: str) -> bool:
        """Whether the schema has a table of this name."""
        ...

    def tables(self) -> list[str]:
        """Every table of the schema."""
        ...

    def parents(self, table: str) -> list[str]:
        """The tables that a table refers to."""
        ...

    def linger(self) -> None:
        """Let its transactions last, although they say nothing for long while another one is filled."""
        ...

    @property
    def patience(self) -> float:
        """For how many seconds a writer that may wait does so for one that hangs in its transaction."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the other end is gone, so that only a new connection can go on."""
        ...

    def mend(self) -> None:
        """Connect again after a loss. Raises when the other end stays away."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Engine(Protocol):
    """A kind of database at one place."""

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgres`."""
        ...

    @property
    def name(self) -> str:
        """The place, as it may be shown."""
        ...

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Everything that the driver raises."""
        ...

    def is_outage(self, error: Exception) -> bool:
        """Whether the database failed, and not the work that was asked of it."""
        ...

    @property
    def waits(self) -> tuple[type[Exception], ...]:
        """What `begin` raises while another writer has its turn: nothing was asked yet, so it may be soon."""
        ...

    def connect_reading(self, *, live: bool = False) -> Connection:
        """A connection that cannot write; a live one sees what others commit later. Raises StoreUnusable."""
        ...

    def connect_writing(self) -> Connection:
        """A connection that may write, whose commits are durable."""
        ...

    def hurry(self) -> None:
        """Wait no longer for a silent database than an end in order takes. Takes no lock: signals call it."""
        ...

    def ring(self, connection: Connection) -> None:
        """Wake whoever listens, once the open transaction is committed."""
        ...

    def alone(self, connection: Connection) -> AbstractContextManager[None]:
        """Have the store while its schema changes. Raises ProjectLocked while others work from it."""
        ...

    def schema(self, statement: str) -> str:
        """A statement of a migration in this dialect."""
        ...

    def unusable(self, what: str, error: Exception) -> StoreUnusable:
        """What a database that cannot be used is reported as."""
        ...


_PROCESS = re.compile("process (?=[0-9])")
UPGRADE_PATIENCE = 2.0
"""Seconds for which another process that changes the schema is waited for."""


def seat_name(host: str, pid: int | str) -> str:
    """What a process is called at a server on which it has a seat."""
    return f"process {pid} on {host[:16]}"


def busy(name: str, holders: Sequence[str]) -> ProjectLocked:
    """What a store is reported as that autopilots of an older sf work from, each a `process 1 on host`.

    No command of this sf reaches them: it cannot write before the schema is its own.
    """
    who = ", ".join(holders) or "another sf"
    kills = "".join(f" or {_PROCESS.sub('kill ', holder)}" for holder in holders if _PROCESS.match(holder))
    return ProjectLocked(
        f"{name} has an older schema and {who} works from it: nothing was changed",
        hint=f"Ctrl-C there{kills} ends it in order; then run this again",
    )
