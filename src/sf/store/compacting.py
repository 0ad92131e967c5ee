"""Giving back the room that a database file no longer needs. A server sees to that by itself."""

from __future__ import annotations

from pathlib import Path

from sf.store.connection import engine_of, writing
from sf.store.place import Place


def spare(place: Place) -> int:
    """The bytes of a file that hold nothing; 0 for a server."""
    if not isinstance(place, Path):
        return 0
    connection = writing(engine_of(place))
    try:
        pages = connection.execute("PRAGMA freelist_count").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        return int(pages) * int(size)
    finally:
        connection.close()


def vacuum(place: Path) -> None:
    """Write the file anew without its gaps. Raises StoreUnusable, and leaves it as it was."""
    engine = engine_of(place)
    connection = writing(engine)
    try:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except engine.errors as error:
        raise engine.unusable("vacuum", error) from error
    finally:
        connection.close()
