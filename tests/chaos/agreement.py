"""Whether a store and its model agree, and what must hold of both after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sf.config.schema import Concurrency
from sf.domain.clock import Instant
from sf.domain.queue import eligible, standing
from sf.domain.units import Unit
from sf.store import attention, leases, runs, sessions, units
from sf.store.tx import Row
from tests.chaos.piece import Piece
from tests.support.ground import EVERY_PHASE

if TYPE_CHECKING:
    from tests.chaos.driven import Driven

_WORDS = {
    "running": "running",
    "blocked": "blocked",
    "children": "waiting for children",
    "container": "waiting for its container",
    "lane": "waiting for the worktree",
    "retry": "retry",
    "ready": "ready",
}
_STATE = """SELECT id, phase, phase_status, attempt, plan_version, made_under, run_allowance, open_blockers,
 open_children, parent_ready, lane_open, lane_owner, due_at, hold_kind, verdict, claim_holder, claim_until,
 archived_at FROM units"""


def check_admitted(driven: Driven, caps: Concurrency, running: Sequence[Unit], admitted: list[Unit]) -> None:
    """Under every cap, and nothing left out for which there is room."""
    ready = driven.model.ready()
    busy = Counter(unit.phase for unit in running)
    assert {unit.id for unit in admitted} <= ready
    busy.update(unit.phase for unit in admitted)
    total = len(running) + len(admitted)
    assert not admitted or total <= caps.max_agents
    for phase in {unit.phase for unit in admitted}:
        assert busy[phase] <= caps.cap(phase), phase
    for name in ready - {unit.id for unit in admitted}:
        phase = driven.ground.unit(name).phase
        assert total >= caps.max_agents or busy[phase] >= caps.cap(phase), f"{name} was left out"


def check(driven: Driven) -> None:
    """Rows and model agree, and each open unit stands in exactly one place."""
    read = driven.ground.read
    rows = {row["id"]: row for row in read.all(_STATE)}
    assert set(rows) == set(driven.model.pieces)
    for piece in driven.model.pieces.values():
        told, expected = _told(rows[piece.id]), _expected(piece)
        assert told == expected, f"{piece.id}: {told} is not {expected}"
    _check_standings(driven)
    assert {unit.id for unit in leases.ready(read, EVERY_PHASE)} == driven.model.ready()
    ledger = driven.ground.ledger()
    assert ledger == driven.model.counters
    lowered = [name for name, count in driven.counted.items() if ledger[name] < count]
    assert all(name[2] == "gate" and ledger[name] == 0 for name in lowered), "a counter was lowered"
    driven.counted = ledger
    live = sorted((run.id, run.unit_id) for run in runs.live(read))
    assert live == sorted((run.lease.run_id, run.piece.id) for run in driven.held)
    reserved = [row["run_id"] for row in read.all("SELECT run_id FROM spend WHERE settled_at IS NULL")]
    assert sorted(reserved) == [name for name, _ in live], "what is reserved belongs to a live run"
    session = sessions.current(read)
    assert session is not None and (session["status"] == "paused") == driven.paused


def _check_standings(driven: Driven) -> None:
    now = driven.ground.now
    asked = Counter(item.unit_id for item in attention.waiting(driven.ground.read))
    shown = Counter(
        row["unit_id"]
        for row in driven.ground.read.all(
            "SELECT unit_id FROM session_blockers"
            " WHERE resolved_at IS NULL AND event NOT IN ('GateBlocked', 'Paused')"
        )
    )
    for unit in units.listed(driven.ground.read, most=10_000):
        piece = driven.model.pieces[unit.id]
        parked = int(piece.hold is not None)
        assert (asked.pop(unit.id, 0), shown.pop(unit.id, 0)) == (parked, parked), unit.id
        if unit.terminal:
            assert unit.claim_holder or unit.open_children, f"{unit.id} is called off, and nobody ends it"
            continue
        word = piece.standings(now)[0]
        told = f"held:{piece.hold}" if word == "held" else _WORDS[word]
        assert standing(unit, Instant(-1)) == told, unit.id
        assert eligible(unit, now) == (word == "ready" or (word == "retry" and (piece.due or 0) <= now))
    assert not asked and not shown, "a question about a unit that is over"


def _told(row: Row) -> tuple[object, ...]:
    """What a row says of a unit; of one that was called off, not how far it had come."""
    over = row["archived_at"] is not None
    queue = ("open_blockers", "parent_ready", "lane_open", "lane_owner")
    return (
        row["phase_status"],
        None if row["phase_status"] == "canceled" else row["phase"],
        *(row[name] for name in ("attempt", "plan_version", "made_under", "run_allowance", "open_children")),
        *(row[name] for name in ("due_at", "hold_kind", "verdict", "claim_holder", "claim_until")),
        over,
        *(None if over else row[name] for name in queue),
    )


def _expected(piece: Piece) -> tuple[object, ...]:
    """The same, of the model."""
    queue = (
        piece.open_blockers,
        int(piece.parent_ready),
        int(piece.lane_open),
        piece.lane.id if piece.lane else None,
    )
    return (
        piece.status,
        None if piece.canceled else piece.phase,
        *(piece.attempt, piece.plan_version, piece.made_under, piece.allowance, piece.open_children),
        *(piece.due, piece.hold, piece.verdict, piece.holder, piece.until if piece.holder else None),
        piece.ended,
        *((None,) * len(queue) if piece.ended else queue),
    )
