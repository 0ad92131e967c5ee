"""Taking commands in: written as rows, applied by the live loop, or here when none is alive."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Any

import msgspec

from sf.app import clones, stores, witnesses
from sf.app.trust import load_config
from sf.config.schema import Attention, Config
from sf.domain.attention import Patience
from sf.domain.clock import Instant, SystemClock
from sf.domain.events import Event
from sf.domain.facts import WorktreeMode
from sf.domain.ids import full_id
from sf.domain.limits import Limits
from sf.domain.spending import Caps, micro_usd
from sf.errors import BadUsage, InvalidConfig, InvalidWorkflow, ProjectLocked, SfError, StoreUnusable
from sf.harness.rules import Rules
from sf.paths import Project
from sf.scheduler import doorbell, intents, lock
from sf.store import sessions
from sf.store.connection import open_reader, transact
from sf.store.place import Place
from sf.store.tx import Tx

_PATIENCE = 10.0


class Queued(SfError):
    """The autopilot is busy; what was asked for is written down and will be applied."""

    code = "queued"
    exit_code = 0


class Refused(SfError):
    """An intent was applied by another process, which refused it."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer["error"], hint=answer.get("hint", ""))
        self.code = answer.get("code", "internal")  # type: ignore[misc]
        self.exit_code = answer.get("exit_code", 1)  # type: ignore[misc]


def rules_of(config: Config, mode: WorktreeMode | None = None, bank: str = "") -> Rules:
    """The rules that a configuration means."""
    harness = config.harness
    return Rules(
        mode=mode or harness.worktree_mode,
        base=Limits(
            max_attempts=harness.max_attempts,
            max_runs=harness.max_runs_per_unit,
            first_backoff_ms=int(harness.retry_backoff * 1000),
            max_backoff_ms=int(harness.max_retry_backoff * 1000),
        ),
        post_task=harness.gates.post_task,
        post_slice=harness.gates.post_slice,
        post_milestone=harness.gates.post_milestone,
        max_children=harness.max_children,
        patience=_patience(config.attention),
        caps=Caps(
            unit=_cap(config.budget.unit_usd),
            milestone=_cap(config.budget.milestone_usd),
            session=_cap(config.budget.session_usd),
        ),
        bank=bank,
    )


def _cap(usd: float) -> int:
    """A limit in micro-dollars; one that is less than that is no room, not no limit."""
    return micro_usd(usd) or int(usd > 0)


def _patience(settings: Attention) -> dict[str, Patience]:
    """Only a kind that has both is answered by itself; everything else stays until a person answers.

    A deadline of 0 is none.
    """
    return {
        kind: Patience(answer, int(settings.deadlines[kind] * 1000))
        for kind, answer in settings.defaults.items()
        if settings.deadlines.get(kind)
    }


def submit(project: Project, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Have an intent applied and return its answer. Raises what refused it."""
    config = _usable_config(project)
    _require_text(payload)
    if "unit_id" in payload:
        payload = {**payload, "unit_id": full_id(payload["unit_id"])}
    now = SystemClock().now()
    place = stores.chosen(project, config) if config else stores.place_of(project)
    clones.require_kin(project, place)
    rules = rules_of(config or Config())
    intent_id = transact(place, lambda tx: _written(tx, kind, payload, rules, now))
    doorbell.ring(project.runtime)
    try:
        return _seen_to(project, place, config, kind, intent_id)
    except StoreUnusable as error:
        # To say that it failed would have it said again, and done twice.
        told = f"it is written down, and the next command, or sf auto, applies it; meanwhile {error.message}"
        raise Queued(told, hint=error.hint) from error


def _usable_config(project: Project) -> Config | None:
    """The configuration; none where it is unusable and a live loop goes on with the last that was not.

    Raises InvalidConfig or InvalidWorkflow when there is no such loop.
    """
    try:
        return load_config(project)
    except (InvalidConfig, InvalidWorkflow):
        holder = lock.is_held(project.lock)
        if holder is None or holder.purpose != lock.AUTOPILOT:
            raise
        return None


def _seen_to(
    project: Project, place: Place, config: Config | None, kind: str, intent_id: str
) -> dict[str, Any]:
    """The answer to an intent that is written down: by the live loop, or here when none is alive."""
    read = open_reader(place)
    deadline = time.monotonic() + _PATIENCE
    while (answer := _answer(read, intent_id)) is None:
        holder = lock.is_held(project.lock)
        if holder is None and config is None:
            told = "it is written down, but the autopilot has ended: sf auto applies it"
            raise Queued(told, hint="mend the configuration first: sf config check")
        if holder is None and config is not None:
            rules = rules_of(config)
            # One that starts at this moment may be faster, and applies it itself.
            with contextlib.suppress(ProjectLocked), lock.hold(project, f"sf {kind}"):
                announced = transact(place, partial(_apply, intent_id=intent_id, rules=rules))
                witnesses.write_down(project, config, announced)
                continue
        if time.monotonic() > deadline:
            raise _queued(holder)
        time.sleep(0.01)
    return answer


def _queued(holder: lock.Holder | None) -> Queued:
    if holder is not None and holder.purpose == lock.AUTOPILOT:
        return Queued("the autopilot is busy; it applies this as soon as it can", hint="sf status")
    busy = holder.purpose if holder else "another sf"
    return Queued(f"{busy} is busy; the next command, or sf auto, applies this", hint="sf status")


def _require_text(payload: dict[str, Any]) -> None:
    try:
        msgspec.json.encode(payload)
    except UnicodeEncodeError:
        raise BadUsage(
            "what you wrote is not UTF-8", hint="set the terminal to UTF-8, or use ASCII"
        ) from None


def _written(tx: Tx, kind: str, payload: dict[str, Any], rules: Rules, now: Instant) -> str:
    """Write an intent down; its id. An answer that nothing takes is refused while its author looks on."""
    # What is open may change what can be answered.
    if kind in intents.ANSWERS and not sessions.open_intents(tx):
        intents.try_out(tx, kind, payload, rules, now)
    return sessions.intend(tx, kind, payload, now)


def _apply(tx: Tx, intent_id: str, rules: Rules) -> list[Event]:
    """Apply an intent, and before it what a loop that is gone left open; what is to be announced."""
    intents.apply_open(tx, rules, SystemClock().now(), awaited=intent_id)
    return tx.events


def _answer(read: Tx, intent_id: str) -> dict[str, Any] | None:
    row = sessions.intent(read, intent_id)
    if row is None or row["applied_at"] is None:
        return None
    answer: dict[str, Any] = msgspec.json.decode(row["answer"])
    if not row["ok"]:
        raise Refused(answer)
    return answer
