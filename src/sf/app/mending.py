"""`sf doctor fix`: put right what breaks an invariant, say what was done, and write it into the log."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from sf.app import clones, stores
from sf.app.intake import rules_of
from sf.app.logs import log_of
from sf.app.trust import load_config
from sf.config.schema import Config
from sf.domain.clock import SystemClock
from sf.domain.invariants import Fault, faults
from sf.paths import Project
from sf.scheduler import lock, repairs
from sf.store import invariants
from sf.store.connection import engine_of, writing
from sf.store.place import Place
from sf.store.tx import Tx


class Mended(msgspec.Struct, frozen=True):
    """What was repaired, or would be, and what is left for a person to say."""

    repaired: tuple[str, ...]
    left: tuple[str, ...]


def mend(project: Project, *, dry_run: bool = False) -> Mended:
    """Repair the rows under the project's lock. Raises ProjectLocked while an autopilot runs."""
    config = load_config(project)
    place = stores.chosen(project, config)
    clones.require_kin(project, place)
    with contextlib.ExitStack() as held:
        held.enter_context(lock.hold(project, "sf doctor fix"))
        if not isinstance(place, Path):
            from sf.scheduler.notices import seat

            held.enter_context(seat(place))
        repaired, left = _mended(place, config, dry_run=dry_run)
    if not dry_run:
        log = log_of(project, config)
        for fault in repaired:
            log.warning("repaired", subject=fault.subject, fault=fault.detail, repair=str(fault.repair))
    return Mended(tuple(fault.line() for fault in repaired), tuple(fault.line() for fault in left))


def _mended(place: Place, config: Config, *, dry_run: bool) -> tuple[list[Fault], list[Fault]]:
    engine = engine_of(place)
    connection = writing(engine)
    try:
        connection.begin()
        tx = Tx(connection)
        now = SystemClock().now()
        repaired = repairs.mend(tx, rules_of(config), now)
        left = faults(invariants.books(tx, now))
        if not dry_run:
            connection.commit()
        return repaired, left
    except engine.errors as error:
        raise engine.unusable("write", error) from error
    finally:
        connection.rollback()
        connection.close()
