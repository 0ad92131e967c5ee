"""What is recorded about units: feedback for the next run, gate results, evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from sf.domain.clock import Instant
from sf.domain.excerpt import gate_output
from sf.domain.ids import ulid
from sf.domain.runs import Lease
from sf.store import leases, sql
from sf.store.tx import Row, Tx

_Q = sql.load("records")
EvidenceKind = Literal["gate", "review", "merge", "claim", "revert"]


class GateRecord(msgspec.Struct, frozen=True):
    """One gate, run once."""

    gate: str
    passed: bool
    exit_code: int | None
    retry: int
    max_retries: int
    tree: str | None
    clean: bool
    script: str
    """A digest of the script that ran."""
    output: str
    duration_ms: int


def give_feedback(tx: Tx, unit_id: str, text: str, now: Instant) -> None:
    """Leave something that the unit's next agent run must see."""
    tx.run(_Q["give_feedback"], id=ulid(), unit=unit_id, text=text, now=now)


def unread_feedback(tx: Tx, unit_id: str) -> tuple[str, str]:
    """The unread feedback joined, and the id of its last part (empty when there is none)."""
    rows = tx.all(_Q["unread"], unit=unit_id)
    return "\n\n".join(row["text"] for row in rows), rows[-1]["id"] if rows else ""


def mark_read(tx: Tx, unit_id: str, last: str, run_id: str) -> None:
    """A run has acted on the feedback up to this id."""
    if last:
        tx.run(_Q["mark_read"], unit=unit_id, last=last, run=run_id)


def gate_result(tx: Tx, unit_id: str, run_id: str, record: GateRecord, now: Instant) -> None:
    """Keep what a gate said."""
    tx.run(
        _Q["gate_result"],
        id=ulid(),
        unit=unit_id,
        run=run_id,
        gate=record.gate,
        passed=int(record.passed),
        exit_code=record.exit_code,
        attempt=record.retry,
        max_retries=record.max_retries,
        tree=record.tree,
        clean=int(record.clean),
        script=record.script,
        output=gate_output(record.output),
        duration_ms=record.duration_ms,
        now=now,
    )


def gate_results(tx: Tx, unit_id: str) -> Sequence[Row]:
    """Every gate result of a unit, oldest first."""
    return tx.all(_Q["gate_results_of"], unit=unit_id)


def is_proven(tx: Tx, unit_id: str, tree: str, gates: Sequence[tuple[str, str]], *, clean: bool) -> bool:
    """Whether each of these gates (name, digest of its script) has passed on exactly this tree.

    With `clean`, in a fresh checkout of it.
    """
    rows = tx.all(_Q["proofs"], unit=unit_id, tree=tree, clean=int(clean))
    proven = {(row["gate_name"], row["script"]) for row in rows}
    return bool(gates) and proven.issuperset(gates)


def has_passed(tx: Tx, unit_id: str, tree: str) -> bool:
    """Whether any gate at all has passed, and not only skipped itself, in a fresh checkout of this tree."""
    row = tx.one(_Q["passed_on"], unit=unit_id, tree=tree)
    return row is not None and int(row["n"]) > 0


def reviewed_tree(tx: Tx, unit_id: str) -> str | None:
    """The tree of the unit's last review, if that passed."""
    row = tx.one(_Q["last_review"], unit=unit_id)
    return row["tree"] if row and row["summary"].startswith("pass") else None


def found(
    tx: Tx,
    lease: Lease,
    kind: EvidenceKind,
    summary: str,
    now: Instant,
    *,
    tree: str | None = None,
    commit: str | None = None,
) -> None:
    """Keep what a run found about its unit. Raises LeaseLost."""
    leases.require_lease(tx, lease)
    add_evidence(tx, lease.unit_id, lease.run_id, kind, summary, now, tree=tree, commit=commit)


def add_evidence(
    tx: Tx,
    unit_id: str,
    run_id: str,
    kind: EvidenceKind,
    summary: str,
    now: Instant,
    *,
    tree: str | None = None,
    commit: str | None = None,
) -> None:
    """Keep a proof, or a claim beside it; a run does so by `found`."""
    tx.run(
        _Q["evidence"],
        id=ulid(),
        unit=unit_id,
        run=run_id,
        kind=kind,
        tree=tree,
        commit=commit,
        summary=summary,
        now=now,
    )


def evidence(tx: Tx, unit_id: str) -> Sequence[Row]:
    """Every piece of evidence about a unit, oldest first."""
    return tx.all(_Q["evidence_of"], unit=unit_id)
