"""What must be true of the rows between any two transactions, and how a row that is not so can be put right.

Pure: `faults` is given everything at once and changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from sf.domain import waits
from sf.domain.books import Balance, Books, LiveRun, OpenBlocker, OpenQuestion, UnitFacts
from sf.domain.phases import RANK, Phase
from sf.domain.spending import Scope, dollars
from sf.domain.units import BLOCKER_EVENT, GATE_BLOCKED, Status

Column = Literal[
    "open_children", "open_blockers", "parent_ready", "lane_open", "lane_owner", "phase_rank", "due_at",
    "hold_kind", "phase_status", "archived_at", "claim_holder",
]  # fmt: skip


class SetColumn(msgspec.Struct, frozen=True):
    """Write one column of a unit."""

    unit_id: str
    column: Column
    value: int | str | None


class Interrupt(msgspec.Struct, frozen=True):
    """End what a unit's row calls running: its runs, its claim."""

    unit_id: str


class EndRun(msgspec.Struct, frozen=True):
    """End one run whose unit knows nothing of it, and settle what it reserved."""

    run_id: str


class Close(msgspec.Struct, frozen=True):
    """Do what follows a unit's end."""

    unit_id: str


class Ask(msgspec.Struct, frozen=True):
    """Put up what a held unit lacks: its blocker, its question, or both."""

    unit_id: str
    blocker: bool
    question: bool


class Withdraw(msgspec.Struct, frozen=True):
    """Resolve a blocker, or close a question, that nothing stands behind."""

    kind: Literal["blocker", "question"]
    id: str


class SetBalance(msgspec.Struct, frozen=True):
    """Write what the spend rows add up to."""

    scope: Scope
    key: str
    balance: Balance


class Settle(msgspec.Struct, frozen=True):
    """Settle what a run left reserved, at its estimate."""

    run_id: str


Repair: TypeAlias = SetColumn | Interrupt | EndRun | Close | Ask | Withdraw | SetBalance | Settle


class Fault(msgspec.Struct, frozen=True):
    """A rule that does not hold of a row; `repair` is None where only a person can say what is right."""

    subject: str
    detail: str
    repair: Repair | None = None

    def line(self) -> str:
        """The fault as one line."""
        return f"{self.subject}: {self.detail}"


def faults(books: Books) -> list[Fault]:
    """Every rule that does not hold; empty for a database in order."""
    rules = (_runs, _endings, _counts, _waits, _lanes, _holds, _money)
    return [fault for rule in rules for fault in rule(books)]


def _column(unit: UnitFacts, column: Column, found: object, value: int | str | None, why: str) -> Fault:
    return Fault(unit.id, f"{column} is {found}, but {why}", SetColumn(unit.id, column, value))


def _runs(books: Books) -> Iterator[Fault]:
    """Running means one live run and a claim; a live run, a running unit or one called off meanwhile."""
    live: dict[str, list[LiveRun]] = defaultdict(list)
    for run in books.live:
        live[run.unit_id].append(run)
    for unit in books.units.values():
        current = [run for run in live[unit.id] if run.attempt == unit.attempt]
        if unit.status is Status.RUNNING and (unit.claim_holder is None or not current):
            missing = "claim" if unit.claim_holder is None else "live run"
            yield Fault(unit.id, f"is running without a {missing}", Interrupt(unit.id))
            live[unit.id] = []
        elif unit.claim_holder is not None and unit.status not in (Status.RUNNING, Status.CANCELED):
            yield _column(unit, "claim_holder", unit.claim_holder, None, f"it is {unit.status}, not running")
        elif unit.status is Status.CANCELED and unit.claim_until and unit.claim_until + _LONG < books.now:
            yield _column(
                unit, "claim_holder", unit.claim_holder, None, "it was called off, and that is over"
            )
    for runs in live.values():
        for run in runs:
            unit_or_none = books.units.get(run.unit_id)
            if unit_or_none is None or not _carries(unit_or_none, run):
                yield Fault(run.unit_id, f"does not know of its live run {run.id}", EndRun(run.id))


def _carries(unit: UnitFacts, run: LiveRun) -> bool:
    working = unit.status in (Status.RUNNING, Status.CANCELED) and unit.claim_holder is not None
    return working and run.attempt == unit.attempt


_LONG = 600_000  # milliseconds
_QUEUED = (Status.PENDING, Status.INTERRUPTED, Status.FAILED, Status.RUNNING)


def _endings(books: Books) -> Iterator[Fault]:
    """Terminal means archived, unless a run or a child has yet to end; what has ended waits for nothing."""
    open_below = {unit.parent_id for unit in books.units.values() if not unit.closed}
    for unit in books.units.values():
        if unit.phase_rank != RANK[unit.phase]:
            yield _column(unit, "phase_rank", unit.phase_rank, RANK[unit.phase], f"its phase is {unit.phase}")
        if not unit.terminal:
            if unit.closed:
                yield _column(unit, "archived_at", unit.archived_at, None, f"it is open, in {unit.phase}")
            if unit.status not in _QUEUED:
                yield _column(
                    unit, "phase_status", unit.status, Status.PENDING.value, f"it is open, in {unit.phase}"
                )
            continue
        if unit.hold_kind is not None:
            yield _column(unit, "hold_kind", unit.hold_kind, None, "it has ended")
        if unit.due_at is not None:
            yield _column(unit, "due_at", unit.due_at, None, "it has ended")
        if unit.phase is Phase.COMPLETE and unit.verdict is None:
            yield Fault(unit.id, "is complete without a verdict")
        if not unit.closed and unit.claim_holder is None and unit.id not in open_below:
            yield Fault(unit.id, "has ended, but nothing followed from it", Close(unit.id))


def _counts(books: Books) -> Iterator[Fault]:
    """The counts that the queue reads are those of the rows."""
    children = Counter(unit.parent_id for unit in books.units.values() if not unit.closed)
    waits = Counter(
        unit_id for unit_id, upstream in books.upstream if not _is_closed(books.units.get(upstream))
    )
    for unit in books.units.values():
        if unit.open_children != children[unit.id]:
            why = f"{children[unit.id]} of its children are open"
            yield _column(unit, "open_children", unit.open_children, children[unit.id], why)
        if unit.closed:
            continue
        if unit.open_blockers != waits[unit.id]:
            why = f"it waits for {waits[unit.id]} unit(s)"
            yield _column(unit, "open_blockers", unit.open_blockers, waits[unit.id], why)
        parent = books.units.get(unit.parent_id or "")
        ready = parent is None or parent.phase is Phase.EXECUTE
        if unit.parent_ready != ready:
            where = f"its container is in {parent.phase}" if parent else "it has no container"
            yield _column(unit, "parent_ready", int(unit.parent_ready), int(ready), where)


def _is_closed(unit: UnitFacts | None) -> bool:
    return unit is None or unit.closed


def _waits(books: Books) -> Iterator[Fault]:
    """Nothing waits for itself; what a person wants of work that does is theirs to say."""
    yield from (Fault(subject, detail) for subject, detail in waits.endless(books))


_BEFORE_WRITING = (Phase.RESEARCH, Phase.PLAN)


def _lanes(books: Books) -> Iterator[Fault]:
    """A slice's worktree is owned by one open task, or by none; the others are kept out, and nobody else."""
    tasks: dict[str, list[UnitFacts]] = defaultdict(list)
    for unit in books.units.values():
        if unit.parent_id is not None and not unit.closed:
            tasks[unit.parent_id].append(unit)
    for container in books.units.values():
        children = tasks[container.id]
        owner = container.lane_owner
        if owner is not None and owner not in [task.id for task in children]:
            yield _column(container, "lane_owner", owner, None, "that is none of its open tasks")
            owner = None
        if owner is None and container.type == "slice":
            begun = [task for task in children if task.attempt and task.phase not in _BEFORE_WRITING]
            if len(begun) == 1:
                owner = begun[0].id
                yield _column(container, "lane_owner", "empty", owner, f"{owner} works in its worktree")
            elif begun:
                names = ", ".join(task.id for task in begun)
                yield Fault(container.id, f"several tasks have begun in its worktree: {names}")
                continue
        yield from _kept_out(children, owner)


def _kept_out(children: Iterable[UnitFacts], owner: str | None) -> Iterator[Fault]:
    for task in children:
        is_open = owner in (None, task.id)
        if task.lane_open != is_open:
            yield _column(task, "lane_open", int(task.lane_open), int(is_open), f"the owner is {owner}")


def _holds(books: Books) -> Iterator[Fault]:
    """A held unit has one blocker of its event and one question; another has none, a refusing gate aside."""
    blockers: dict[str, list[OpenBlocker]] = defaultdict(list)
    questions: dict[str, list[OpenQuestion]] = defaultdict(list)
    for blocker in sorted(books.blockers, key=lambda item: item.id):
        blockers[blocker.unit_id].append(blocker)
    for question in sorted(books.questions, key=lambda item: item.id):
        questions[question.unit_id].append(question)
    for unit_id in sorted({*blockers, *questions, *_held(books)}):
        unit = books.units.get(unit_id)
        kind = unit.hold_kind if unit is not None and not unit.terminal else None
        event = BLOCKER_EVENT[kind] if kind else ""
        own = [item for item in blockers[unit_id] if item.event == event]
        asked = [item for item in questions[unit_id] if kind is not None and item.kind == kind.value]
        if kind is not None and not (own and asked):
            lacks = " and ".join(word for word, there in (("blocker", own), ("question", asked)) if not there)
            repair = Ask(unit_id, blocker=not own, question=not asked)
            yield Fault(unit_id, f"is held as {kind} without its {lacks}", repair)
        gate = unit is not None and not unit.terminal
        for item in blockers[unit_id]:
            if item not in own[:1] and not (gate and item.event == GATE_BLOCKED):
                detail = f"has a blocker that holds nothing: {item.event}"
                yield Fault(unit_id, detail, Withdraw("blocker", item.id))
        for asking in questions[unit_id]:
            if asking not in asked[:1]:
                detail = f"has a question that nothing waits for: {asking.kind}"
                yield Fault(unit_id, detail, Withdraw("question", asking.id))


def _held(books: Books) -> Iterator[str]:
    return (unit.id for unit in books.units.values() if unit.hold_kind is not None and not unit.terminal)


def _money(books: Books) -> Iterator[Fault]:
    """An account holds what its entries add up to; only a live run has a reservation."""
    live = {run.id for run in books.live}
    for run_id in sorted(set(books.reserving) - live):
        yield Fault(f"run {run_id}", "has ended with an open reservation", Settle(run_id))
    for scope, key in sorted({*books.accounts, *books.entries}):
        kept = books.accounts.get((scope, key), Balance())
        due = books.entries.get((scope, key), Balance())
        if kept != due:
            detail = (
                f"its account says {dollars(kept.spent)} spent and {dollars(kept.reserved)} reserved, "
                f"its entries {dollars(due.spent)} and {dollars(due.reserved)}"
            )
            yield Fault(f"the {scope} {key}", detail, SetBalance(scope, key, due))
