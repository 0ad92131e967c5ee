"""`sf store migrate`: every row of the project into another store, which is then the one to configure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sf.app import stores
from sf.app.trust import load_config
from sf.domain.clock import SystemClock
from sf.errors import BadUsage, StoreUnusable
from sf.files import sync_path
from sf.paths import Project
from sf.scheduler import lock
from sf.store import copying, knowledge, place, units
from sf.store.connection import engine_of, writing
from sf.store.engine import Connection, Engine
from sf.store.place import Place
from sf.store.tx import Tx

FILE = "sqlite"
"""What names the project's own file where a url is asked for."""


class Moved(msgspec.Struct, frozen=True):
    """What was copied, and the setting that makes the copy the store in use; empty is none."""

    source: str
    target: str
    rows: dict[str, int]
    setting: str


def move(project: Project, target: str, *, others_gone: bool = False) -> Moved:
    """Copy every row to a url, or to the project's own file. The present store is left as it is.

    With `others_gone` nobody is left to wind up what other folders finished: it counts as wound up.
    Raises StoreNotEmpty for a target with rows, and ProjectLocked while an autopilot runs.
    """
    source = stores.chosen(project, load_config(project))
    aim: Place = project.database if target == FILE else stores.from_url(project, target)
    if aim == source:
        raise BadUsage(f"the project's rows are already in {source}")
    with lock.hold(project, "sf store migrate"), _beside(aim) as target_now:
        rows = _copied(source, target_now, project.key, others_gone=others_gone)
    return Moved(str(source), str(aim), rows, "" if target == FILE else _setting(target))


@contextlib.contextmanager
def _beside(aim: Place) -> Iterator[Place]:
    """Where to copy to: for a file one beside it, which takes its place when the copy is whole."""
    if not isinstance(aim, Path):
        yield aim
        return
    _require_vacant(aim)
    fresh = aim.with_name(f"{aim.name}.new")
    _remove(fresh)
    try:
        yield fresh
        if fresh.with_name(f"{fresh.name}-wal").exists():
            raise StoreUnusable(f"{fresh} could not be completed", hint="is the disk full?")
        # Before the new file is there: SQLite would take what lies beside it for a part of it.
        _remove(aim)
        fresh.rename(aim)
        sync_path(aim.parent)
    finally:
        _remove(fresh)


def _require_vacant(file: Path) -> None:
    """Raise StoreNotEmpty for a file with rows; one of no bytes has none."""
    if not file.exists() or file.stat().st_size == 0:
        return
    engine = engine_of(file)
    connection = writing(engine)
    try:
        copying.require_empty(connection)
    except engine.errors as error:
        raise engine.unusable("read", error) from error
    finally:
        connection.close()


def _remove(file: Path) -> None:
    for ending in ("-wal", "-shm", "-journal", ""):
        file.with_name(f"{file.name}{ending}").unlink(missing_ok=True)


def _copied(source: Place, target: Place, station: str, *, others_gone: bool) -> dict[str, int]:
    old, new = engine_of(source), engine_of(target)
    with contextlib.ExitStack() as closing:
        reading = writing(old)
        closing.callback(reading.close)
        filling = writing(new)
        closing.callback(filling.close)
        for end in (source, target):
            if not isinstance(end, Path):
                from sf.scheduler.notices import seat

                closing.enter_context(seat(end))
        # Held until the copy is durable: no command writes a row that would be left behind.
        for engine, connection in ((old, reading), (new, filling)):
            closing.callback(connection.rollback)
            _begin(engine, connection)
        try:
            rows = copying.copy(reading, filling)
            if others_gone:
                units.leave_foreign(Tx(filling), station, SystemClock().now())
            _refuse_foreign(Tx(filling), station)
            if isinstance(target, Path):
                units.unbind(Tx(filling), station, SystemClock().now())
                rows["pending_retain"] -= knowledge.unbind(Tx(filling), station)
            else:
                # The work is in this folder; another one that shares the store must not take it.
                units.bind(Tx(filling), station)
                if isinstance(source, Path):
                    knowledge.bind(Tx(filling), station)
            _commit(new, filling)
        except (*old.errors, *new.errors) as error:
            raise StoreUnusable(f"the copy failed and nothing was kept: {error}") from error
        return rows


def _begin(engine: Engine, connection: Connection) -> None:
    try:
        connection.linger()
        connection.begin()
    except engine.errors as error:
        raise engine.unusable("lock", error) from error


def _commit(engine: Engine, connection: Connection) -> None:
    try:
        connection.commit()
    except engine.errors as error:
        if not connection.is_lost:
            raise
        raise StoreUnusable(
            f"whether the copy was kept in {engine.name} is not known: {error}",
            hint="say it again: if the other store is said to have rows then, every one of them arrived",
        ) from error


def _refuse_foreign(tx: Tx, station: str) -> None:
    """Only the folder that has the work can take it along."""
    foreign = [name for name in units.stations(tx) if name != station]
    if foreign:
        raise BadUsage(
            f"{len(foreign)} other folder(s) have units here, open or not wound up: {', '.join(foreign)}",
            hint="let sf auto finish them and wind them up there; of a folder that is gone for good"
            " abandon what is open, and say --others-gone",
        )


def _setting(url: str) -> str:
    return "$(a command that prints the url)" if place.has_password(url) else url
