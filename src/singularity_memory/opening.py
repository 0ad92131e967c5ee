"""Opening a memory: from a place and a choice of embedder to a desk."""

from __future__ import annotations

from pathlib import Path

from singularity_memory.desk import Desk
from singularity_memory.embedders import factory
from singularity_memory.engine import Engine
from singularity_memory.errors import StoreFailed
from singularity_memory.store import Store


def open_desk(place: str | Path, choice: factory.Choice) -> Desk:
    """A desk on a file, or on a PostgreSQL server (`postgresql://…`). Raises Failure or Mistake.

    What has no vectors gets them when whoever has the desk calls `refresh`.
    """
    embedder = factory.embedder(choice)
    store = _store(place)
    return Desk(Engine(store, embedder, renew=False), store)


def _store(place: str | Path) -> Store:
    if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
        try:
            from singularity_memory.store.postgres import PostgresStore
        except ImportError as error:
            raise StoreFailed("PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from error
        return PostgresStore(place)
    from singularity_memory.store.sqlite import SqliteStore

    return SqliteStore(Path(place))
