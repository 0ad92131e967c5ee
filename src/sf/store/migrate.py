"""The schema: numbered migrations, applied once each, and what a store of another version is told.

They are written for SQLite; each engine says how it reads them. A migration that cannot be read so has a file
`NNNN_name.postgres.sql` beside it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sf.errors import StoreTooNew, StoreTooOld, StoreUnusable
from sf.store.engine import Connection, Engine

FOLDER = Path(__file__).parent / "migrations"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS schema_migrations"
    " (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL, description TEXT)"
)
_APPLIED = "INSERT INTO schema_migrations VALUES (:version, :now, :description)"


class Migration(NamedTuple):
    """One step of the schema."""

    version: int
    description: str
    file: Path

    def statements(self, engine: Engine) -> list[str]:
        """What it executes on an engine."""
        own = self.file.with_suffix(f".{engine.dialect}.sql")
        if own.exists():
            return _split(own.read_text(encoding="utf-8"))
        return [engine.schema(part) for part in _split(self.file.read_text(encoding="utf-8"))]


def known(folder: Path = FOLDER) -> list[Migration]:
    """Every migration, in order."""
    found = []
    for file in sorted(folder.glob("*.sql")):
        if "." not in file.stem:
            number, _, name = file.stem.partition("_")
            found.append(Migration(int(number), name, file))
    return found


def newest() -> int:
    """The schema version that this sf knows."""
    return known()[-1].version


def current(connection: Connection) -> int:
    """The schema version of an open database; 0 for an empty one."""
    if not connection.has_table("schema_migrations"):
        return 0
    row = connection.execute("SELECT COALESCE(MAX(version), 0) AS version FROM schema_migrations").fetchone()
    if not isinstance(row["version"], int):
        raise StoreUnusable(
            f"its schema has the version {row['version']!r}: it is a database of another program",
            hint="bring your own back from a copy, or remove it and run sf init, which begins with nothing",
        )
    return row["version"]


def refuse_newer(connection: Connection, engine: Engine) -> int:
    """The version of a database. Raises StoreTooNew when it was written by an sf that knows more."""
    version = current(connection)
    if version > newest():
        raise StoreTooNew(
            f"{engine.name} has schema version {version}; this sf knows up to {newest()}",
            hint="upgrade sf; nothing was changed",
        )
    return version


def require_readable(connection: Connection, engine: Engine) -> None:
    """Raise unless the database has exactly the schema that this sf reads."""
    version = refuse_newer(connection, engine)
    if version == 0:
        raise StoreUnusable(f"there is no database at {engine.name}", hint="run sf init")
    if version < newest():
        raise StoreTooOld(
            f"{engine.name} has schema version {version}; this sf reads {newest()}",
            hint="sf init brings it up to date, and then no older sf can open it",
        )


def upgrade(connection: Connection, engine: Engine) -> None:
    """Apply what is missing, with the store alone. Raises ProjectLocked where an autopilot works from it."""
    version = refuse_newer(connection, engine)
    if version == newest():
        return
    if version == 0:
        # Nobody is at work where there is nothing yet. Who makes it at the same time takes turns, and sees
        # nothing or all of it: who saw a part would take this for an upgrade, which needs the store alone.
        _apply(connection, engine, known())
        return
    with engine.alone(connection):
        for migration in known():
            _apply(connection, engine, [migration])


def _apply(connection: Connection, engine: Engine, steps: Sequence[Migration]) -> None:
    """What is missing of some migrations, in one transaction."""
    connection.begin()
    try:
        connection.execute(engine.schema(_TABLE))
        # Looked at again under the lock: another process may have been first.
        version = current(connection)
        for migration in steps:
            if version < migration.version:
                _make(connection, engine, migration)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _make(connection: Connection, engine: Engine, migration: Migration) -> None:
    for statement in migration.statements(engine):
        connection.execute(statement)
    connection.execute(
        _APPLIED,
        {
            "version": migration.version,
            "now": time.time_ns() // 1_000_000,
            "description": migration.description,
        },
    )


def _split(script: str) -> list[str]:
    without_comments = re.sub(r"--[^\n]*", "", script)
    return [part.strip() for part in without_comments.split(";") if part.strip()]
