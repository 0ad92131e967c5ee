"""What a unit leaves to know, from its rows: written with its end, delivered to the memory afterwards.

Everything here runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.excerpt import one_line
from sf.domain.knowledge import Lesson, abandoned, gate_mistake, learned, tagged, without_verdicts
from sf.domain.phases import WRITING
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.domain.utf8 import escaped
from sf.harness.rules import Rules
from sf.store import knowledge, leases, records
from sf.store.tx import Tx
from singularity_memory.door import redacted

_TELLING = 5
"""Words below which a chapter's intent tells nobody anything."""


def mistake_made(tx: Tx, unit: Unit, outcome: o.GateFailed, rules: Rules, now: Instant) -> None:
    """A gate refused: a mistake to be known from now on, here at once and in the memory soon."""
    if not rules.bank:
        return
    pattern = gate_mistake(outcome.gate, redacted(outcome.output), redacted(unit.title), unit.id)
    knowledge.mirror(tx, pattern, f"{unit.phase.value} {rules.bank}", now)
    _keep(tx, unit, rules, pattern.lesson(), now)


def chapter_ended(
    tx: Tx, unit: Unit, chapter_id: str, name: str, intent: str, outcome: str, rules: Rules, now: Instant
) -> None:
    """A chapter is known by its intent; one that only bears its name says nothing.

    The words that end a writing run are what its unit teaches, and are kept with that.
    """
    whole_run = name in {phase.value for phase in WRITING}
    if not rules.bank or whole_run or outcome == "pivot" or len(intent.split()) < _TELLING:
        return
    text = f"{without_verdicts(intent)}\n({name} for “{one_line(unit.title, 160)}”: {outcome})"
    tags = tagged("kind:chapter", f"outcome:{outcome}", f"phase:{unit.phase.value}")
    _keep(tx, unit, rules, Lesson(text, tags, {"unit": unit.id}, f"chapter-{chapter_id}"), now)


def window_closed(tx: Tx, lease: Lease, unit: Unit, summary: str, rules: Rules, now: Instant) -> None:
    """A run's window is replaced: what it held is kept in short."""
    leases.require_lease(tx, lease)
    if not rules.bank or not summary:
        return
    text = (
        f"While working on “{one_line(unit.title, 160)}” ({unit.phase.value}):\n{without_verdicts(summary)}"
    )
    tags = tagged("kind:session_summary", f"phase:{unit.phase.value}")
    _keep(tx, unit, rules, Lesson(text, tags, {"unit": unit.id, "run": lease.run_id}), now)


def unit_ended(tx: Tx, unit: Unit, paths: Sequence[str], rules: Rules, now: Instant) -> None:
    """A unit is wound up: what it taught, and how the mistakes on its way were put right."""
    if not rules.bank or unit.type == "slice":
        return
    said = _said(tx, unit)
    if unit.succeeded:
        gates = sorted({row["gate_name"] for row in records.gate_results(tx, unit.id) if row["passed"]})
        goal = str((unit.plan or {}).get("goal", ""))
        text = learned(unit.title, goal, said, paths, gates)
        _keep(tx, unit, rules, _lesson(unit, text, "learning"), now)
        _put_right(tx, unit, rules, now)
    elif unit.verdict == "abandoned":
        text = abandoned(unit.title, unit.hold_detail or said)
        _keep(tx, unit, rules, _lesson(unit, text, "failure"), now)


def _put_right(tx: Tx, unit: Unit, rules: Rules, now: Instant) -> None:
    """What was said first after the last refusal is what put its mistakes right."""
    refusals = [row["recorded_at"] for row in records.gate_results(tx, unit.id) if not row["passed"]]
    said = _said(tx, unit, since=max(refusals, default=0), first=True)
    for pattern in knowledge.mistakes_of(tx, unit.id):
        if said and not pattern.correct_path:
            mended = msgspec.structs.replace(pattern, correct_path=one_line(said, 400))
            knowledge.mirror(tx, mended, f"{unit.phase.value} {rules.bank}", now)
            _keep(tx, unit, rules, mended.lesson(), now)


def _lesson(unit: Unit, text: str, kind: str) -> Lesson:
    tags = tagged(f"kind:{kind}", f"type:{unit.type}", f"workflow:{unit.workflow}")
    # Known by its unit, so that winding it up a second time says nothing twice.
    return Lesson(text, tags, {"unit": unit.id}, f"{kind}-{unit.session_id}-{unit.id}")


def _said(tx: Tx, unit: Unit, *, since: int = 0, first: bool = False) -> str:
    """The words that ended the unit's last run that claimed something, or the first one since an instant."""
    claims = [row for row in records.evidence(tx, unit.id) if row["kind"] == "claim"]
    told = [row["summary"] for row in claims if row["recorded_at"] >= since]
    # Before it is cut: half a key is not known as one.
    return redacted(without_verdicts(told[0 if first else -1])) if told else ""


def _keep(tx: Tx, unit: Unit, rules: Rules, lesson: Lesson, now: Instant) -> None:
    """What waits for the memory has no secret in it, for the queue is a file as well."""
    # A path that is no UTF-8 must not undo the transaction that the lesson is written in.
    text = escaped(redacted(lesson.content))
    clean = msgspec.structs.replace(lesson, content=text)
    knowledge.enqueue(tx, rules.bank, [clean], now, unit.station or "")
