"""Answers to questions: a person's, or the default's when nobody answered in time. One way for both."""

from __future__ import annotations

from typing import Any

import msgspec

from sf.domain import attention as rules_of_answers
from sf.domain import decide
from sf.domain.attention import ABANDON, ANSWERS, SESSION_BUDGET, Question
from sf.domain.clock import Instant
from sf.domain.spending import Breach, micro_usd
from sf.domain.units import HoldKind, Unit
from sf.errors import BadUsage, UnknownQuestion
from sf.harness import lifecycle
from sf.harness.rules import Rules
from sf.scheduler.allotment import Allotment
from sf.store import attention, blockers, records, sessions, spending, units
from sf.store.tx import Tx

MORE_RUNS = 100
_CAPS = "caps"
"""The key of a question's data that has the session's cap of every station that asked."""
_WANTS = "wants"
"""The key of a question's data that has what each unit wanted of the session for which there was no room."""


def find(tx: Tx, name: str) -> Question:
    """The open question of this id (or its beginning or end), or the one about this unit."""
    waiting = attention.waiting(tx)
    key = name.upper()
    found = [item for item in waiting if item.unit_id == name] or [
        item for item in waiting if key.strip() and (item.id.startswith(key) or item.id.endswith(key))
    ]
    if len(found) != 1:
        which = "several questions fit" if found else "no question waits as"
        raise UnknownQuestion(f"{which} {name!r}", hint="sf attention lists them")
    return found[0]


def give(tx: Tx, question: Question, answer: str, by: str, rules: Rules, now: Instant) -> dict[str, Any]:
    """Apply an answer and close the question. Raises BadUsage when the answer means nothing to it."""
    if not rules_of_answers.takes(question.kind, answer):
        raise BadUsage(f"{answer!r} is no answer to this; it takes {ANSWERS[question.kind]}")
    attention.close(tx, question.id, answer, by, now)
    if question.unit_id is None:
        return _allow_session(tx, question, answer, by, now)
    unit = units.get(tx, question.unit_id)
    if answer.strip().lower() == ABANDON:
        running = lifecycle.cancel(tx, unit, f"abandoned in answer to: {question.question[:200]}", rules, now)
        return {"unit_id": unit.id, "phase": "canceled", "running": running}
    _apply(tx, unit, question, answer, by, rules, now)
    return {"unit_id": unit.id, "phase": units.get(tx, unit.id).phase.value}


def _apply(tx: Tx, unit: Unit, question: Question, answer: str, by: str, rules: Rules, now: Instant) -> None:
    workflow = sessions.pinned(tx, unit.workflow_hash)
    match unit.hold_kind:
        case HoldKind.UAT:
            accepted = rules_of_answers.acceptance(answer)
            move = (
                decide.forward(unit, workflow, rules.facts(tx, unit), "accepted")
                if accepted is not None and accepted[0]
                else decide.reassess(
                    "uat_rejected", feedback=f"Acceptance was refused: {accepted[1] if accepted else answer}"
                )
            )
            lifecycle.apply(tx, unit, move, workflow, rules, now, by=by)
        case HoldKind.ESCALATED:
            move = decide.replan(unit, workflow, _quoted(unit, answer), counted=False)
            lifecycle.apply(tx, unit, move, workflow, rules, now, by=by)
        case HoldKind.BLOCKED:
            lifecycle.release(tx, unit.id, by, now)
            records.give_feedback(tx, unit.id, _quoted(unit, answer), now)
        case HoldKind.BUDGET:
            amount = micro_usd(rules_of_answers.money(answer) or 0)
            spending.allow(tx, question.data["scope"], question.data["key"], amount)
            lifecycle.release(tx, unit.id, by, now)
        case _:
            if unit.hold_kind is HoldKind.RUN_LIMIT:
                units.allow_runs(tx, unit.id, MORE_RUNS)
            lifecycle.release(tx, unit.id, by, now)


def _quoted(unit: Unit, answer: str) -> str:
    return f"You asked: {unit.hold_detail}\nThe operator answered: {answer}"


def _allow_session(tx: Tx, question: Question, answer: str, by: str, now: Instant) -> dict[str, Any]:
    spending.allow(tx, "session", question.session_id, micro_usd(rules_of_answers.money(answer) or 0))
    blockers.resolve(tx, question.blocker_id or "", by, now)
    return {"session": "may spend more"}


BUDGET_EVENT = "BudgetReached"


def asked_for_session(tx: Tx) -> Question | None:
    """The open question about the session's money; there is at most one."""
    return next((item for item in attention.waiting(tx) if item.kind == SESSION_BUDGET), None)


def ask_for_session(tx: Tx, unit: Unit, wanted: int, rules: Rules, now: Instant, station: str = "") -> None:
    """Ask for the session's money with the amounts of now; of several needs the largest is asked for.

    Each folder on a store has a cap of its own: there is room when there is for everyone who asked.
    """
    asked, session_id = asked_for_session(tx), unit.session_id
    data = asked.data if asked is not None else {}
    caps = {**data.get(_CAPS, {}), station: rules.caps.session}
    wants = data.get(_WANTS, {})
    wants = {**wants, unit.id: max(wanted, wants.get(unit.id, 0))}
    largest = max(wanted, wanted_by(tx, asked) if asked is not None else 0)
    account = spending.account(tx, "session", session_id)
    detail = Breach(account, rules.caps.session, largest).told()
    if asked is not None:
        attention.reword(tx, asked.id, detail, {**data, "wanted": largest, _WANTS: wants, _CAPS: caps})
        blockers.reword(tx, asked.blocker_id or "", detail)
        return
    blocker_id = blockers.open_blocker(tx, session_id, BUDGET_EVENT, None, detail, now)
    attention.ask(
        tx,
        session_id,
        SESSION_BUDGET,
        detail,
        now,
        blocker_id=blocker_id,
        data={"wanted": largest, _WANTS: wants, _CAPS: caps},
        patience=rules.patience.get(SESSION_BUDGET),
    )


def wanted_by(tx: Tx, question: Question) -> int:
    """What there was no room for: the next step, and what a run spends before it comes to that.

    Of the session the largest that a unit wants which has not ended meanwhile.
    """
    wants = question.data.get(_WANTS)
    if wants is None:
        return int(question.data.get("wanted", 1))
    return max((wants[name] for name in wants if not units.get(tx, name).terminal), default=1)


def askers(question: Question) -> frozenset[str]:
    """The stations that had no room; none is told where another version of sf asked."""
    return frozenset(question.data.get(_CAPS, {}))


def asks_for(question: Question, station: str) -> bool:
    """Whether a station is among those that had no room, as far as that is told."""
    return station in askers(question) or not askers(question)


def has_room(tx: Tx, asked: Question, rules: Rules, station: str = "") -> bool:
    """Whether there is room now for what a question about the session's money asks, for all who asked."""
    account, wanted = spending.account(tx, "session", asked.session_id), wanted_by(tx, asked)
    theirs = {name: cap for name, cap in asked.data.get(_CAPS, {}).items() if name != station}
    ours = [rules.caps.session] if not theirs or station in askers(asked) else []
    rooms = [
        account.room(msgspec.structs.replace(rules.caps, session=cap)) for cap in (*theirs.values(), *ours)
    ]
    return all(room is None or room >= wanted for room in rooms)


def withdraw_for_session(tx: Tx, rules: Rules, now: Instant, station: str = "") -> bool:
    """Withdraw the question about the session's money if there is room for what it asks; whether it was."""
    asked = asked_for_session(tx)
    if asked is None or not has_room(tx, asked, rules, station):
        return False
    withdraw_asked(tx, now)
    return True


def withdraw_asked(tx: Tx, now: Instant) -> None:
    """Withdraw the question about the session's money, if there is one."""
    asked = asked_for_session(tx)
    if asked is not None:
        attention.withdraw(tx, asked.id, "auto", now)
        blockers.resolve(tx, asked.blocker_id or "", "auto", now)


def withdraw_unneeded(tx: Tx, now: Instant) -> None:
    """Withdraw the question about the session's money when nothing is left that could spend any."""
    asked = asked_for_session(tx)
    if asked is None or units.open_count(tx):
        return
    withdraw_asked(tx, now)
    session = sessions.current(tx)
    if session is not None and session["detail"] == asked.question:
        sessions.set_status(tx, session["id"], session["status"], now)


def drop_unlawful(tx: Tx) -> None:
    """Let questions stay for a person whose default may not be one: another version of sf asked them."""
    for item in attention.waiting(tx):
        answer = item.default_answer or ""
        lawful = rules_of_answers.may_be_default(item.kind, answer) and rules_of_answers.takes(
            item.kind, answer
        )
        if item.due_at is not None and not lawful:
            attention.drop_default(tx, item.id)


def is_elsewhere(tx: Tx, question: Question, station: str) -> bool:
    """Whether a question is about a unit of another folder on the store."""
    if not station or question.unit_id is None:
        return False
    return units.get(tx, question.unit_id).station not in (None, station)


def answer_due(tx: Tx, rules: Rules, now: Instant, station: str = "") -> list[str]:
    """Answer by their defaults the questions whose time is up, and that still need it; the ids."""
    withdraw_for_session(tx, rules, now, station)
    drop_unlawful(tx)
    due = [item for item in attention.waiting(tx) if item.due_at is not None and item.due_at <= now]
    allotment, answered = Allotment(tx, rules.caps, now), []
    for item in due:
        if is_elsewhere(tx, item, station):
            # With caps of its own that are not known here.
            continue
        unit = units.get(tx, item.unit_id) if item.unit_id is not None else None
        default = item.default_answer or ""
        amount = rules_of_answers.money(default)
        if unit is None:
            _add_to_session(tx, item, amount or 0, rules, now, station)
        elif item.kind != HoldKind.BUDGET:
            give(tx, item, default, "default", rules, now)
        elif allotment.reaches(item):
            # What another question about the same money was given is enough for this one too.
            lifecycle.release(tx, unit.id, "auto", now)
            allotment.take(item)
            continue
        elif amount is not None:
            _add(tx, unit, item, amount, allotment, rules, now)
        elif allotment.has_room(item):
            # Others are at its money just now: nobody is given up for that.
            _ask_on(tx, item, rules, now)
            continue
        else:
            give(tx, item, default, "default", rules, now)
        answered.append(item.id)
    withdraw_unneeded(tx, now)
    return answered


def _add(
    tx: Tx, unit: Unit, question: Question, amount: float, allotment: Allotment, rules: Rules, now: Instant
) -> None:
    """Give a unit the default amount; while that is not enough for its next step, it goes on asking."""
    scope, key = question.data["scope"], question.data["key"]
    spending.allow(tx, scope, key, micro_usd(amount))
    if allotment.has_room(question):
        attention.close(tx, question.id, question.default_answer or "", "default", now)
        lifecycle.release(tx, unit.id, "default", now)
        allotment.take(question)
        return
    short = Breach(spending.account(tx, scope, key), rules.caps.of(scope), wanted_by(tx, question))
    units.set_hold(tx, unit.id, HoldKind.BUDGET, short.told(), now)
    _reword(tx, question, short)
    _ask_on(tx, question, rules, now)


def _add_to_session(
    tx: Tx, question: Question, amount: float, rules: Rules, now: Instant, station: str
) -> None:
    """Let the session spend the default amount; while that is not enough here, it goes on asking.

    Of several folders each judges by its own cap. Another that has too little still asks again; one that is
    gone asks for no more.
    """
    spending.allow(tx, "session", question.session_id, micro_usd(amount))
    account, wanted = spending.account(tx, "session", question.session_id), wanted_by(tx, question)
    room = account.room(rules.caps)
    if not asks_for(question, station) or room is None or room >= wanted:
        attention.close(tx, question.id, question.default_answer or "", "default", now)
        blockers.resolve(tx, question.blocker_id or "", "default", now)
        return
    _reword(tx, question, Breach(account, rules.caps.session, wanted))
    _ask_on(tx, question, rules, now)


def _reword(tx: Tx, question: Question, short: Breach) -> None:
    """Tell in a question how much is still missing."""
    attention.reword(tx, question.id, short.told(), question.data)
    blockers.reword(tx, question.blocker_id or "", short.told())


def _ask_on(tx: Tx, question: Question, rules: Rules, now: Instant) -> None:
    """Let a question wait for its default once more."""
    patience = rules.patience.get(question.kind)
    if patience is None:
        attention.drop_default(tx, question.id)
    else:
        attention.postpone(tx, question.id, Instant(now + patience.deadline_ms), now)
