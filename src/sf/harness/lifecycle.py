"""What a move does to a unit and to those around it: container, siblings, dependents, blockers.

Everything here runs inside the caller's transaction.
"""

from __future__ import annotations

from typing import Any

from sf.domain import events
from sf.domain.attention import LOOKED_AGAIN, Question
from sf.domain.clock import Instant
from sf.domain.decide import Move, arrive, forward, reassess
from sf.domain.phases import Phase
from sf.domain.units import BLOCKER_EVENT, BRANCH, GATE_BLOCKED, HoldKind, Status, Unit
from sf.domain.utf8 import escaped
from sf.domain.workflows import Workflow
from sf.harness.rules import Rules
from sf.harness.transition import transition
from sf.store import attention, blockers, ledger, records, relations, runs, sessions, units
from sf.store.tx import Tx


def apply(
    tx: Tx, unit: Unit, move: Move, workflow: Workflow, rules: Rules, now: Instant, *, by: str = "auto"
) -> Unit:
    """Write a move: counters, feedback, steps, status, hold; then what follows for the others."""
    if move.raised is not None:
        ledger.raise_counter(tx, unit, move.raised)
    if move.cleared is not None:
        ledger.clear(tx, unit, move.cleared)
    if move.returns_run:
        unit = units.return_run(tx, unit)
    if move.feedback:
        records.give_feedback(tx, unit.id, move.feedback, now)
    settled = transition(tx, unit, move, workflow, now)
    if unit.hold_kind is not None:
        resolve(tx, unit.id, by, now)
    if move.hold is not None:
        hold(tx, settled, move.hold, move.hold_detail, rules, now, move.hold_data)
    _show_gate(tx, unit, move, now)
    if move.reassess_reason == "gate_exhausted":
        tx.announce(events.Event(events.GATE_BLOCKED, now, unit.id, {"detail": move.feedback[:500]}))
    if settled.terminal:
        closed(tx, settled, rules, now)
    elif settled.phase in (Phase.RESEARCH, Phase.PLAN) and settled.plan_version == 1:
        relations.free_lane(tx, settled)
    return settled


def hold(
    tx: Tx,
    unit: Unit,
    kind: HoldKind,
    detail: str,
    rules: Rules,
    now: Instant,
    data: dict[str, Any] | None = None,
) -> None:
    """Park a unit with its reason, put the blocker up, and ask the operator.

    Where a look found the very cause still there, the question is the old one: id, deadline, told only once.
    """
    units.set_hold(tx, unit.id, kind, detail, now)
    if data and BRANCH in data and unit.parent_id is None and unit.base_commit is None:
        # Another folder on the same store may have it. What is below a goal is done where the goal is.
        units.unbind_unit(tx, unit.id)
    asked = _asked_before(tx, unit, kind)
    if asked is not None and (asked.question, asked.data) == (escaped(detail), data or {}):
        attention.reopen(tx, asked.id, unit.session_id)
        blockers.reopen(tx, asked.blocker_id or "", unit.session_id)
        return
    blocker_id = blockers.open_blocker(tx, unit.session_id, BLOCKER_EVENT[kind], unit.id, detail, now)
    attention.ask(
        tx,
        unit.session_id,
        kind.value,
        detail,
        now,
        unit_id=unit.id,
        blocker_id=blocker_id,
        data=data,
        patience=rules.patience.get(kind.value),
    )
    tx.announce(
        events.Event(events.HELD, now, unit.id, {"kind": kind.value, "detail": detail, "blocker": blocker_id})
    )


def _asked_before(tx: Tx, unit: Unit, kind: HoldKind) -> Question | None:
    """The question of this kind that was closed only to look again, if this is the end of that very look."""
    asked = attention.last(tx, unit.id, kind.value)
    if asked is None or asked.answered_by != LOOKED_AGAIN or not (asked.closed_at and asked.blocker_id):
        return None
    since = [run for run in runs.of_unit(tx, unit.id) if run.started_at >= asked.closed_at]
    return asked if len(since) <= 1 else None


def _show_gate(tx: Tx, unit: Unit, move: Move, now: Instant) -> None:
    """A gate that refused is shown until the gates have passed or the unit is reassessed."""
    judged = unit.phase in (Phase.VERIFY, Phase.MERGE) and bool(move.steps)
    if judged or move.reassess_reason is not None:
        blockers.resolve_event(tx, GATE_BLOCKED, "auto", now, unit.id)
    if move.raised is not None and move.raised.kind == "gate" and move.reassess_reason is None:
        detail = f"gate {move.raised.key} refused; the agent mends it"
        blockers.open_blocker(tx, unit.session_id, GATE_BLOCKED, unit.id, detail, now)


def resolve(tx: Tx, unit_id: str, by: str, now: Instant) -> None:
    """What held a unit back is over: its blocker and its question with it. A refusing gate's stays up."""
    blockers.resolve_unit(tx, unit_id, by, now, but=GATE_BLOCKED)
    attention.close_unit(tx, unit_id, by, now)


def release(tx: Tx, unit_id: str, by: str, now: Instant) -> None:
    """Let a parked unit go on in the phase it stands in."""
    units.set_hold(tx, unit_id, None, "", now)
    resolve(tx, unit_id, by, now)


def look_again(tx: Tx, unit_id: str, now: Instant) -> None:
    """Let a parked unit go to see whether what held it is still there."""
    units.set_hold(tx, unit_id, None, "", now)
    attention.close_unit(tx, unit_id, LOOKED_AGAIN, now)
    resolve(tx, unit_id, "auto", now)


def arrived(tx: Tx, unit_id: str, rules: Rules, now: Instant) -> None:
    """Pass the phases that do not apply to a unit that is free to start."""
    unit = units.get(tx, unit_id)
    if unit.open_blockers or unit.terminal or unit.status is Status.RUNNING:
        return
    workflow = sessions.pinned(tx, unit.workflow_hash)
    move = arrive(unit, workflow, rules.facts(tx, unit))
    if move is not None:
        apply(tx, unit, move, workflow, rules, now)


def closed(tx: Tx, unit: Unit, rules: Rules, now: Instant) -> None:
    """A unit is terminal: free its lane, unblock what waits for it, and advance its container."""
    if unit.archived_at is None:
        units.archive(tx, unit.id, now)
    relations.free_lane(tx, unit)
    verdict = unit.verdict or "canceled"
    tx.announce(events.Event(events.UNIT_CLOSED, now, unit.id, {"verdict": verdict, "title": unit.title}))
    ties = relations.ties(tx, unit.id)
    if ties.questions:
        blockers.resolve_unit(tx, unit.id, "auto", now)
        attention.close_unit(tx, unit.id, "auto", now)
    if ties.dependents:
        _let_go(tx, unit, rules, now)
    if unit.parent_id is not None:
        relations.add_children(tx, unit.parent_id, -1, now)
        advance_container(tx, unit.parent_id, rules, now)


def _let_go(tx: Tx, unit: Unit, rules: Rules, now: Instant) -> None:
    """Unblock what waits for a unit that has ended; one that was abandoned is told of."""
    if not unit.succeeded:
        told = f"{unit.id} ({unit.title}), which this work builds on, was abandoned: {unit.hold_detail}"
        tell_dependents(tx, unit.id, told, now)
    for dependent in relations.downstream(tx, unit.id):
        relations.unblock(tx, dependent, now)
        arrived(tx, dependent, rules, now)


def tell_dependents(tx: Tx, unit_id: str, told: str, now: Instant) -> None:
    """Tell something to whoever works on what builds on a unit: of a slice that is done by its tasks."""
    for dependent in relations.downstream(tx, unit_id):
        for item in (units.get(tx, dependent), *relations.below(tx, dependent)):
            if not item.terminal:
                records.give_feedback(tx, item.id, told, now)


def advance_container(tx: Tx, container_id: str, rules: Rules, now: Instant) -> None:
    """Move a container on whose children have all ended."""
    container = units.get(tx, container_id)
    if container.open_children:
        return
    if container.status is Status.CANCELED and container.archived_at is None:
        closed(tx, container, rules, now)
    if container.terminal or container.phase is not Phase.EXECUTE:
        return
    workflow = sessions.pinned(tx, container.workflow_hash)
    lost = [
        child
        for child in relations.children(tx, container_id)
        if child.made_under == container.plan_version and not child.succeeded
    ]
    if lost:
        names = ", ".join(f"{child.id} ({child.title}): {child.hold_detail}" for child in lost)
        move = reassess("child_abandoned", feedback=f"abandoned: {names}")
    else:
        move = forward(container, workflow, rules.facts(tx, container), "children done")
    apply(tx, container, move, workflow, rules, now)


def supersede(tx: Tx, unit: Unit, rules: Rules, now: Instant) -> None:
    """Take an open unit of an earlier plan, and what is below it, out of the plan."""
    cancel(tx, unit, "superseded by a new plan", rules, now)


def cancel(tx: Tx, unit: Unit, reason: str, rules: Rules, now: Instant) -> list[str]:
    """Call a unit and its open descendants off; the ids of those that are still running.

    A running one only gets the mark: its own run ends it, and with it the containers above, so that nothing
    enters or removes its worktree before.
    """
    still_running = []
    was_running = unit.status is Status.RUNNING
    units.cancel(tx, unit.id, reason, now)
    for child in relations.children(tx, unit.id):
        if not child.terminal:
            still_running += cancel(tx, child, reason, rules, now)
    if was_running:
        return [*still_running, unit.id]
    marked = units.get(tx, unit.id)
    # Counted, for a child that was called off before may still have a run below it.
    if marked.open_children == 0 and marked.archived_at is None:
        closed(tx, marked, rules, now)
    return still_running
