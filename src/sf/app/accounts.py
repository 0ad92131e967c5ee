"""What waits for a person, and what was spent: read for `sf attention` and `sf cost`."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from sf.app.stores import place_of
from sf.domain.attention import ANSWERS, Question
from sf.domain.clock import SystemClock, brief_duration
from sf.domain.units import CURE
from sf.paths import Project
from sf.store import attention, spending
from sf.store.connection import open_reader
from sf.store.spending import Grouping


class QuestionLine(msgspec.Struct, frozen=True):
    """A question as a person sees it."""

    id: str
    kind: str
    unit_id: str
    question: str
    takes: str
    asked_ago_ms: int
    default: str
    due_in_ms: int | None


def questions(project: Project) -> list[QuestionLine]:
    """Everything that waits for a person, oldest first."""
    now = SystemClock().now()
    return [_line(item, now) for item in attention.waiting(open_reader(place_of(project)))]


def _line(item: Question, now: int) -> QuestionLine:
    return QuestionLine(
        id=item.id,
        kind=item.kind,
        unit_id=item.unit_id or "",
        question="\n".join(filter(None, (item.question, item.data.get(CURE)))),
        takes=ANSWERS[item.kind],
        asked_ago_ms=now - item.created_at,
        default=item.default_answer or "",
        due_in_ms=None if item.due_at is None else max(0, item.due_at - now),
    )


def stays(line: QuestionLine) -> str:
    """What happens when nobody answers."""
    if line.due_in_ms is None:
        return "stays until it is answered"
    return f"{line.default!r} in {brief_duration(line.due_in_ms)}"


class CostReport(msgspec.Struct, frozen=True):
    """What was spent since an instant."""

    by: str
    rows: list[dict[str, Any]]
    requests: int
    cost_micro_usd: int
    estimated_micro_usd: int
    """The part that is an estimate: cut off, answered without figures, left by a crash, or under way."""
    unpriced_requests: int
    """Requests to models whose price nobody knows; they are not in the sum."""


def cost(project: Project, grouping: Grouping, since: int = 0) -> CostReport:
    """What `sf cost` shows."""
    tx = open_reader(place_of(project))
    rows = [_named(dict(row), grouping) for row in spending.report(tx, grouping, since)]
    endings = {row["how"]: row for row in spending.endings(tx, since)}
    measured = sum(endings[how]["cost_micro_usd"] for how in ("answered", "refused") if how in endings)
    unpriced = sum(row["unpriced"] for row in endings.values())
    total = sum(row["cost_micro_usd"] for row in rows)
    requests = sum(row["requests"] for row in rows)
    return CostReport(grouping, rows, requests, total, total - measured, unpriced)


def _named(row: dict[str, Any], grouping: Grouping) -> dict[str, Any]:
    if grouping == "day":
        day = datetime.date(1970, 1, 1) + datetime.timedelta(days=int(row.pop("day")))
        row = {"name": day.isoformat(), "title": "", **row}
    return row
