"""The schema: numbered migrations, applied once each."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path

from sf.errors import StoreTooNew

_FOLDER = Path(__file__).parent / "migrations"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS schema_migrations"
    " (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL, description TEXT)"
)


def known() -> list[tuple[int, str, Path]]:
    """Every migration: version, description, file."""
    found = []
    for file in sorted(_FOLDER.glob("*.sql")):
        number, _, name = file.stem.partition("_")
        found.append((int(number), name, file))
    return found


def current(connection: sqlite3.Connection) -> int:
    """The schema version of an open database; 0 for an empty one."""
    exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'").fetchone()
    if not exists:
        return 0
    return int(connection.execute("SELECT COALESCE(MAX(version), 0) FROM schema_migrations").fetchone()[0])


def refuse_newer(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreTooNew when the database was written by a version that knows more."""
    version, newest = current(connection), known()[-1][0]
    if version > newest:
        raise StoreTooNew(
            f"{path} has schema version {version}; this sf knows up to {newest}",
            hint="upgrade sf; nothing was changed",
        )


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Apply what is missing, each migration in a transaction of its own."""
    refuse_newer(connection, path)
    for version, description, file in known():
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(_TABLE)
            if current(connection) < version:
                for statement in _statements(file.read_text(encoding="utf-8")):
                    connection.execute(statement)
                connection.execute(
                    "INSERT INTO schema_migrations VALUES (?, ?, ?)",
                    (version, time.time_ns() // 1_000_000, description),
                )
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _statements(script: str) -> list[str]:
    without_comments = re.sub(r"--[^\n]*", "", script)
    return [part.strip() for part in without_comments.split(";") if part.strip()]
