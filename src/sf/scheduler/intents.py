"""What operators ask for: each intent is one function on one transaction, whoever applies it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from sf.domain import decide, events
from sf.domain.attention import SESSION_BUDGET
from sf.domain.clock import Instant
from sf.domain.excerpt import one_line, printable
from sf.domain.units import HoldKind, Status, Unit
from sf.domain.workflows import parse
from sf.errors import BadUsage, SfError, UnknownBlocker, WrongState
from sf.harness import lifecycle, planting
from sf.harness.rules import Rules
from sf.scheduler import replies
from sf.store import attention, blockers, floor, relations, sessions, units
from sf.store.tx import Row, Tx

_TYPED = {"force_dispatch": "dispatch", "plan_reload": "plan reload"}
"""Intents that a person types otherwise than they are called."""
Answer = dict[str, Any]
Apply = Callable[[Tx, dict[str, Any], Rules, Instant], Answer]


def apply_open(tx: Tx, rules: Rules, now: Instant, *, awaited: str = "") -> None:
    """Apply every open intent in order. One that cannot be is answered with its error and changes nothing.

    A refusal is announced, for the command may have ended long ago; not that of the one `awaited` here.
    """
    # It may be about a unit of another machine, whose clock is ahead of this one's.
    floor.rise(tx)
    for row in sessions.open_intents(tx):
        answer = apply_one(tx, row, rules, now)
        if "error" in answer and row["id"] != awaited:
            detail = f"{told(row)} was refused: {answer['error']}"
            data = {"detail": detail, "intent": row["kind"], "log": True}
            tx.announce(events.Event(events.WARNING, now, data=data))


def told(row: Row) -> str:
    """What a command asked for, as far as its row tells it."""
    command = f"sf {_TYPED.get(row['kind'], row['kind'].replace('_', '-'))}"
    try:
        payload = msgspec.json.decode(row["payload"], type=dict[str, Any])
    except msgspec.DecodeError:
        return f"{command} (in words that this sf does not know)"
    names = ("unit_id", "question_id", "blocker_id", "answer", "reason", "goal")
    words = one_line(printable(" ".join(str(payload[name]) for name in names if payload.get(name))), 100)
    return f"{command} ({words})" if words else command


def try_out(tx: Tx, kind: str, payload: dict[str, Any], rules: Rules, now: Instant) -> None:
    """Raise what would refuse an intent now. Nothing is changed, and nothing announced."""
    announced = len(tx.events)
    tx.run("SAVEPOINT trial")
    try:
        INTENTS[kind](tx, payload, rules, now)
    finally:
        tx.run("ROLLBACK TO trial")
        tx.run("RELEASE trial")
        del tx.events[announced:]


def apply_one(tx: Tx, row: Row, rules: Rules, now: Instant) -> Answer:
    """Apply one intent and record its answer."""
    announced = len(tx.events)
    tx.run("SAVEPOINT intent")
    try:
        answer = _applied(tx, row, rules, now)
        replies.withdraw_unneeded(tx, now)
        ok = True
    except SfError as error:
        tx.run("ROLLBACK TO intent")
        del tx.events[announced:]
        answer = {
            "error": error.message,
            "code": error.code,
            "hint": error.hint,
            "exit_code": error.exit_code,
        }
        ok = False
    tx.run("RELEASE intent")
    sessions.answer_intent(tx, row["id"], ok=ok, answer=answer, now=now)
    return answer


def _applied(tx: Tx, row: Row, rules: Rules, now: Instant) -> Answer:
    """The row may come from another version of sf: what it lacks is answered, never a crash of the loop.

    So is what the database refuses of it; that the database itself fails is no answer.
    """
    apply = INTENTS.get(row["kind"])
    if apply is None:
        raise BadUsage(f"this sf does not know the intent {row['kind']!r}")
    try:
        return apply(tx, msgspec.json.decode(row["payload"]), rules, now)
    except SfError:
        raise
    except Exception as error:
        if tx.is_outage(error):
            raise
        raise BadUsage(f"the intent {row['kind']!r} cannot be understood: {error!r}") from error


def _plan(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    workflow = parse(payload["content"], f"workflow {payload['workflow']}")
    session_id = sessions.ensure(tx, now, payload["branch"])
    goal = str(payload["goal"]).replace("\0", "").strip()
    if not goal:
        raise BadUsage("the goal is empty")
    title = one_line(printable(goal.splitlines()[0]), 100)
    unit_id = planting.plant_goal(
        tx,
        rules,
        title=title,
        description=goal if goal != title else "",
        workflow=workflow,
        content=payload["content"],
        session_id=session_id,
        adhoc=payload.get("adhoc", False),
        priority=payload.get("priority"),
        station=payload.get("station") or None,
        metadata={
            **(payload.get("metadata") or {}),
            "integration_branch": payload["branch"],
            "worktree_mode": rules.mode,
        },
        now=now,
    )
    return {"unit_id": unit_id, "title": title}


def _reload(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    """Bring the milestones into line with .sf/plan.md: add new ones, archive removed ones not yet begun.

    A goal that the plan of any folder names is planned once. What was removed, or reverted, counts as not
    there: it is planned again when it is named again. One that does not say whose it is came from an older
    sf: it is this folder's where no other is known, and from now on where this folder names it.
    """
    wanted = {entry["goal"].strip().splitlines()[0]: entry for entry in payload["milestones"]}
    folder = payload.get("folder", "")
    added, removed, kept = [], [], []
    everything = units.listed(tx, archived=True, most=1_000_000)
    present = {
        str(unit.metadata["plan_file"]): unit
        for unit in everything
        if unit.type == "milestone" and "plan_file" in unit.metadata and unit.reverted_at is None
    }
    known = {name for unit in everything for name in (unit.station, unit.metadata.get("plan_folder")) if name}
    origin = folder if known <= {folder} else ""
    for title, unit in present.items():
        named = unit.metadata.get("plan_folder") or ""
        foreign = payload.get("shared", False) and (named or origin) != folder
        if title in wanted and not named:
            units.set_metadata(tx, unit.id, {**unit.metadata, "plan_folder": folder})
        if title in wanted or foreign or unit.completed:
            continue
        if not unit.terminal and unit.attempt > 0:
            kept.append(unit.id)
            continue
        if not unit.terminal:
            lifecycle.cancel(tx, unit, "removed from .sf/plan.md", rules, now)
            removed.append(unit.id)
        left = {key: value for key, value in unit.metadata.items() if key != "plan_file"}
        units.set_metadata(tx, unit.id, left)
    for title, entry in wanted.items():
        if title not in present:
            metadata = {**entry.get("metadata", {}), "plan_file": title, "plan_folder": folder}
            added.append(_plan(tx, {**payload, **entry, "metadata": metadata}, rules, now)["unit_id"])
    return {"added": added, "archived": removed, "in_flight": kept}


def _pause(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    session_id = sessions.ensure(tx, now)
    session = sessions.current(tx)
    if session is not None and session["status"] == "paused":
        return {"paused": True, "already": True}
    sessions.set_status(tx, session_id, "paused", now, payload.get("reason", ""))
    blockers.open_blocker(
        tx, session_id, "Paused", None, payload.get("reason", "") or "paused by operator", now
    )
    return {"paused": True}


def _resume(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    session_id = sessions.ensure(tx, now)
    session = sessions.current(tx)
    if session is not None and session["status"] == "paused":
        sessions.set_status(tx, session_id, "idle", now)
    blockers.resolve_event(tx, "Paused", "user", now)
    return {"resumed": True}


def _abandon(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    unit = units.get(tx, payload["unit_id"])
    ending = _still_claimed(tx, unit)
    if unit.terminal and not ending:
        raise WrongState(f"{unit.id} has ended already")
    if not unit.terminal:
        ending += lifecycle.cancel(tx, unit, payload["reason"], rules, now)
    return {"unit_id": unit.id, "running": ending, "now": payload.get("now", False)}


def called_off_at_once(tx: Tx) -> set[str]:
    """Units whose run was not to end by itself when they were abandoned, whoever applied that."""
    found = [answer for answer in sessions.answers(tx, "abandon") if answer.get("now")]
    return {name for answer in found for name in answer["running"]}


def _still_claimed(tx: Tx, unit: Unit) -> list[str]:
    """Units at or below this one that were called off before, but whose run has not ended yet."""
    own = [unit.id] if unit.status is Status.CANCELED and unit.claim_holder else []
    return own + [name for child in relations.children(tx, unit.id) for name in _still_claimed(tx, child)]


def _parked(tx: Tx, unit_id: str, *kinds: HoldKind) -> Unit:
    unit = units.get(tx, unit_id)
    if unit.hold_kind not in kinds:
        names = " or ".join(kind.value for kind in kinds)
        state = f"held as {unit.hold_kind}" if unit.hold_kind else f"{unit.phase}/{unit.status}"
        raise WrongState(f"{unit.id} is not held as {names}; it is {state}", hint=f"sf why {unit.id}")
    return unit


def _reassess_resolve(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    unit = _parked(tx, payload["unit_id"], HoldKind.ESCALATED, HoldKind.BLOCKED)
    return _answered(tx, unit, payload["answer"], "/sf reassess-resolve", rules, now)


def _uat_approve(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    unit = _parked(tx, payload["unit_id"], HoldKind.UAT)
    return _answered(tx, unit, "approve", "/sf uat-approve", rules, now)


def _uat_reject(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    unit = _parked(tx, payload["unit_id"], HoldKind.UAT)
    return _answered(tx, unit, f"reject: {payload['reason']}", "/sf uat-reject", rules, now)


def _answered(tx: Tx, unit: Unit, answer: str, by: str, rules: Rules, now: Instant) -> Answer:
    return replies.give(tx, replies.find(tx, unit.id), answer, by, rules, now)


def _reply(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    question = replies.find(tx, payload["question_id"])
    return replies.give(tx, question, payload["answer"], "/sf reply", rules, now)


def _merge_resolve(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    kinds = (HoldKind.MERGE_CONFLICT, HoldKind.NO_EVIDENCE, HoldKind.CHECKOUT_DIRTY)
    unit = _parked(tx, payload["unit_id"], *kinds)
    lifecycle.release(tx, unit.id, "/sf merge-resolve", now)
    return {"unit_id": unit.id, "phase": unit.phase.value}


def _force_clear(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    rows = blockers.matching(tx, payload["blocker_id"].upper())
    if len(rows) != 1:
        which = "several open blockers begin or end" if rows else "no open blocker begins or ends"
        raise UnknownBlocker(f"{which} with {payload['blocker_id']!r}", hint="sf status lists them")
    blockers.resolve(tx, rows[0]["id"], "/sf force-clear", now)
    if rows[0]["event"] == "Paused":
        return _resume(tx, payload, rules, now)
    if rows[0]["event"] == replies.BUDGET_EVENT and rows[0]["unit_id"] is None:
        attention.close_kind(tx, SESSION_BUDGET, "/sf force-clear", now)
    unit = units.find(tx, rows[0]["unit_id"] or "")
    if unit is None or unit.held_by != rows[0]["event"]:
        return {"blocker_id": rows[0]["id"]}
    return {"blocker_id": rows[0]["id"], "unit_id": unit.id, "phase": _force(tx, unit, rules, now)}


def _force(tx: Tx, unit: Unit, rules: Rules, now: Instant) -> str:
    """Let a parked unit go without an answer: on where that is safe, to reassess where it is not."""
    workflow = sessions.pinned(tx, unit.workflow_hash)
    match unit.hold_kind:
        case HoldKind.MERGE_CONFLICT:
            move = decide.reassess("merge_conflict", feedback=unit.hold_detail)
        case HoldKind.UAT:
            move = decide.reassess("uat_rejected", feedback="The acceptance blocker was cleared by force.")
        case HoldKind.ESCALATED:
            told = "The operator cleared the question without an answer; decide yourself."
            move = decide.replan(unit, workflow, told, counted=False)
        case _:
            if unit.hold_kind is HoldKind.RUN_LIMIT:
                units.allow_runs(tx, unit.id, replies.MORE_RUNS)
            lifecycle.release(tx, unit.id, "/sf force-clear", now)
            return unit.phase.value
    return lifecycle.apply(tx, unit, move, workflow, rules, now, by="/sf force-clear").phase.value


def _force_dispatch(tx: Tx, payload: dict[str, Any], rules: Rules, now: Instant) -> Answer:
    """Whether a unit may be dispatched out of turn at a station, and what its claim would override."""
    unit = units.get(tx, payload["unit_id"])
    if unit.station is not None and unit.station != payload.get("station"):
        raise WrongState(f"{unit.id} belongs to another folder: {unit.station}", hint="dispatch it there")
    if unit.terminal or unit.status is Status.RUNNING:
        raise WrongState(f"{unit.id} is {'running' if not unit.terminal else 'ended'}")
    if unit.hold_kind is not None:
        raise WrongState(f"{unit.id} waits for you: {unit.hold_kind}", hint=f"sf why {unit.id}")
    if unit.open_children:
        raise WrongState(f"{unit.id} waits for {unit.open_children} open child(ren)")
    if not unit.parent_ready and unit.parent_id:
        raise _too_early(tx, unit, units.get(tx, unit.parent_id))
    owner = relations.lane_owner(tx, unit.parent_id) if unit.in_slice and unit.parent_id else None
    if owner not in (None, unit.id):
        raise WrongState(f"{owner} works in the worktree that {unit.id} needs", hint=f"sf why {owner}")
    return {"unit_id": unit.id, "overrides": _waits_for(tx, unit)}


def _waits_for(tx: Tx, unit: Unit) -> list[str]:
    return [other.id for other in relations.upstream(tx, unit.id) if not other.terminal]


def _too_early(tx: Tx, unit: Unit, container: Unit) -> WrongState:
    """The branch of a slice must begin with what the slice needs."""
    needs = _waits_for(tx, container)
    state = f"waits for {', '.join(needs)}" if needs else f"is in {container.phase}"
    hint = f"sf auto takes them in order; sf why {container.id}"
    return WrongState(f"{unit.id} cannot begin before {container.id}, which {state}", hint=hint)


ANSWERS = frozenset({"reply", "reassess_resolve", "uat_approve", "uat_reject", "merge_resolve"})
"""The intents that answer a question, which is there when they are written or never will be."""

INTENTS: dict[str, Apply] = {
    "plan": _plan,
    "plan_reload": _reload,
    "pause": _pause,
    "resume": _resume,
    "abandon": _abandon,
    "reply": _reply,
    "reassess_resolve": _reassess_resolve,
    "uat_approve": _uat_approve,
    "uat_reject": _uat_reject,
    "merge_resolve": _merge_resolve,
    "force_clear": _force_clear,
    "force_dispatch": _force_dispatch,
}
