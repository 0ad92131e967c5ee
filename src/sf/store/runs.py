"""Runs, their turns and their messages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sf.domain.budget import Budget
from sf.domain.clock import Instant
from sf.domain.dialogue import Usage
from sf.domain.runs import AttemptState, Lease, Run, RunOutcome, TurnKind
from sf.domain.units import Unit
from sf.store import leases, sql
from sf.store.tx import Row, Tx, made_of

_Q = sql.load("runs")
_COLUMNS = tuple(field for field in Run.__struct_fields__ if field != "unit_id")


class TurnRecord(msgspec.Struct, frozen=True):
    """What is kept of one turn."""

    turn: int
    kind: TurnKind
    model: str
    marker: str | None
    tool_calls: int
    usage: Usage
    budget: Budget
    messages: tuple[bytes, ...]
    spend_id: str = ""
    """The reservation that the request was made under; empty for a model that is free."""


def _run(row: Row) -> Run:
    values = {name: row[name] for name in _COLUMNS}
    values["unit_id"] = row["unit_id_snap"]
    return made_of(Run, values)


def insert(tx: Tx, unit: Unit, run_id: str, attempt: int, host: str, now: Instant) -> None:
    """Begin a run; belongs into the transaction that raises `units.attempt`."""
    tx.run(
        _Q["insert"],
        id=run_id,
        unit=unit.id,
        attempt=attempt,
        phase=unit.phase.value,
        plan_version=unit.plan_version,
        host=host,
        now=now,
    )


def finish(
    tx: Tx,
    run_id: str,
    *,
    outcome: RunOutcome,
    state: AttemptState,
    now: Instant,
    error_code: str | None = None,
    detail: str = "",
    tree: str | None = None,
) -> None:
    """End a run and roll up what its turns spent."""
    # A run's requests have ids above its own, whatever the clock says: the primary key finds them.
    tx.run(
        _Q["finish"],
        id=run_id,
        outcome=outcome.value,
        state=state.value,
        error_code=error_code,
        detail=detail[:2000],
        tree=tree,
        now=now,
    )


def asks(tx: Tx, run_id: str, model: str) -> None:
    """Record that a run is at its turns, and with which model."""
    tx.run(_Q["asks"], id=run_id, state=AttemptState.STREAMING_TURN.value, model=model)


def record_turn(tx: Tx, lease: Lease, record: TurnRecord, now: Instant) -> None:
    """Persist a turn, its messages and its budget, under the lease."""
    leases.require_lease(tx, lease)
    usage = record.usage
    tx.run(
        _Q["turn"],
        run=lease.run_id,
        turn=record.turn,
        kind=record.kind.value,
        model=record.model,
        marker=record.marker,
        tool_calls=record.tool_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost_micro_usd=usage.cost_micro_usd,
        budget_used=record.budget.used_tokens,
        budget_max=record.budget.max_tokens,
        now=now,
    )
    asks(tx, lease.run_id, record.model)
    for message in record.messages:
        tx.run(_Q["message"], run=lease.run_id, turn=record.turn, content=message)


def get(tx: Tx, run_id: str) -> Run | None:
    """The run, or None."""
    row = tx.one(_Q["get"], id=run_id)
    return _run(row) if row else None


def of_unit(tx: Tx, unit_id: str) -> list[Run]:
    """Every run of a unit, oldest first."""
    return [_run(row) for row in tx.all(_Q["of_unit"], unit=unit_id)]


def last_end(tx: Tx, unit: Unit) -> tuple[str, str]:
    """The error code of the unit's last run and what was said of it; empty where there is none."""
    row = tx.one(_Q["last_end"], unit=unit.id, attempt=unit.attempt)
    return (str(row["error_code"] or ""), str(row["detail"] or "")) if row else ("", "")


def in_a_row(tx: Tx, unit_id: str, code: str) -> int:
    """How many of the unit's runs, counted back from the last that ended, have this error code."""
    row = tx.one(_Q["in_a_row"], unit=unit_id, code=code)
    return int(row["n"]) if row else 0


def live(tx: Tx) -> list[Run]:
    """Runs that have not ended."""
    return [_run(row) for row in tx.all(_Q["live"])]


def live_of_unit(tx: Tx, unit_id: str) -> Run | None:
    """The unit's run that has not ended, if any."""
    row = tx.one(_Q["live_of_unit"], unit=unit_id)
    return _run(row) if row else None


def totals(tx: Tx) -> Row:
    """What all runs took, and what they cost: by the accounts, and before the ledger by their own rows."""
    row = tx.one(_Q["totals"])
    assert row is not None
    return row


def totals_of_unit(tx: Tx, unit_id: str) -> Row:
    """What a unit's runs took, and what they cost: by its account, before the ledger by their own rows."""
    row = tx.one(_Q["totals_of_unit"], unit=unit_id)
    assert row is not None
    return row


def last_writing(tx: Tx, owner_id: str, *, below: bool) -> Run | None:
    """The newest run that wrote in the worktree of this unit; with `below`, also one of a unit below it."""
    slug = owner_id.split("/", 1)[1] + "/" if below else "-"
    row = tx.one(_Q["last_writing"], unit=owner_id, below=slug)
    return _run(row) if row else None


def last_tree(tx: Tx, unit_id: str) -> str | None:
    """The tree that the unit's last writing run left, as it was judged; None where it could not be kept."""
    run = last_writing(tx, unit_id, below=False)
    return run.tree if run else None


def turns(tx: Tx, run_id: str) -> Sequence[Row]:
    """The turns of a run."""
    return tx.all(_Q["turns_of_run"], run=run_id)


def messages(tx: Tx, run_id: str) -> Sequence[Row]:
    """The messages of a run, in order."""
    return tx.all(_Q["messages_of_run"], run=run_id)


def spent_by_run(tx: Tx, run_id: str) -> Row:
    """What a run has spent so far, by the ledger; a request under way counts at its estimate."""
    row = tx.one(_Q["spent_by_run"], run=run_id)
    assert row is not None
    return row


def history(
    tx: Tx,
    *,
    since: int | None = None,
    phase: str | None = None,
    verdict: str | None = None,
    workflow: str | None = None,
    model: str | None = None,
    most: int = 20,
) -> Sequence[Row]:
    """Archived units with what they cost, newest first; filters are joined by and."""
    return tx.all(
        _Q["history"], since=since, phase=phase, verdict=verdict, workflow=workflow, model=model, most=most
    )
