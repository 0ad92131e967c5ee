"""UnitResult: what hooks and gates are told about a unit, as JSON on stdin."""

from __future__ import annotations

from typing import Any, Literal

from sf.domain.units import Unit
from sf.harness.desk import Desk
from sf.harness.notice import unit_payload
from sf.store import records, runs

Told = Literal["success", "failure", "abandoned", "canceled", "pending"]


def unit_result(desk: Desk, unit: Unit, *, verdict: Told, error: str = "") -> dict[str, Any]:
    """The payload: what the unit is, what it cost, how it stands."""
    spent = runs.totals_of_unit(desk.database.read, unit.id)
    learnings = [
        f"gate {row['gate_name']} failed: {(row['output'] or '').strip()[:300]}"
        for row in records.gate_results(desk.database.read, unit.id)
        if not row["passed"]
    ]
    return {
        "unit_id": unit.id,
        "unit_type": unit.type,
        "phase": unit.phase.value,
        "verdict": verdict,
        "duration_ms": spent["milliseconds"],
        "input_tokens": spent["input_tokens"],
        "output_tokens": spent["output_tokens"],
        "cache_hits": spent["cache_read_tokens"],
        "cost_usd": spent["cost_micro_usd"] / 1_000_000,
        "model": spent["model"],
        "worker_host": unit.worker_host,
        "error": error or None,
        "learnings": learnings,
        "unit": unit_payload(unit),
    }
