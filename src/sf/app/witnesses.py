"""Who writes down what happens: the log, the trace, and what the event loop complains of."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from sf.app.logs import log_of
from sf.config.schema import Config
from sf.domain import events
from sf.observe.log import Log
from sf.observe.trace import Tracer
from sf.paths import Project

Watcher = Callable[[events.Event], None]
_MOMENT = 0.02
"""Seconds for which lines about what happens are gathered, as the trace gathers its spans."""
_AS_IT_IS = (events.HELD, events.RUN_ENDED, events.MERGE_CONFLICT, events.GATE_BLOCKED)
LOGGED = (events.WARNING, events.PHASE_CHANGE, *_AS_IT_IS)
TRACED = (events.WARNING, events.PHASE_CHANGE)


def complaints(log: Log) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """What the event loop would print among the lines for people is for the log."""

    def heed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        told = "".join(traceback.format_exception(error)) if error is not None else None
        log.error("event loop", detail=context["message"], error=told)

    return heed


def logger(log: Log) -> Watcher:
    """Writes to the log what a person looks for there."""

    def write(event: events.Event) -> None:
        if event.name == events.WARNING and event.data.get("log"):
            log.warning(event.data["detail"])
        elif (entry := _entry(event)) is not None:
            log.info(entry[0], **entry[1])

    return write


def gatherer(log: Log) -> Watcher:
    """The same for a loop: what is no warning is written a moment later, together.

    A kill may cost that moment.
    """
    loop, write = asyncio.get_running_loop(), logger(log)

    def gather(event: events.Event) -> None:
        if (entry := _entry(event)) is None:
            write(event)
        elif log.keep(event.at, *entry):
            loop.call_later(_MOMENT, log.flush)

    return gather


def _entry(event: events.Event) -> tuple[str, dict[str, Any]] | None:
    """The message and fields under which an event stands in the log, if it does and is no warning."""
    data, unit_id = event.data, event.unit_id
    if event.name == events.PHASE_CHANGE:
        moved = {"from": data["from"], "to": data["to"], "reason": data["reason"]}
        return "phase change completed", {"unit_id": unit_id, "unit_type": data["type"], **moved}
    if event.name in _AS_IT_IS:
        return event.name, {"unit_id": unit_id, "unit_type": unit_id.split("/")[0], **data}
    return None


def spans(tracer: Tracer) -> Watcher:
    """Writes changes of phase, and what was refused later than asked for, to the trace."""

    def write(event: events.Event) -> None:
        if event.name == events.PHASE_CHANGE:
            tracer.span(
                "phase_transition",
                trace_id=event.unit_id,
                started_at=event.at,
                attrs={"unit_id": event.unit_id, **event.data},
            )
        elif event.name == events.WARNING and "intent" in event.data:
            tracer.span(
                "intent",
                trace_id=event.unit_id,
                started_at=event.at,
                attrs={"kind": event.data["intent"]},
                error=event.data["detail"],
            )

    return write


def write_down(project: Project, config: Config, announced: Sequence[events.Event]) -> None:
    """Log and trace what a command made true by itself; hooks are told by an autopilot only."""
    if not announced:
        return
    log, tracer = log_of(project, config), Tracer(project.trace)
    try:
        for event in announced:
            for write in (logger(log), spans(tracer)):
                write(event)
    finally:
        tracer.close()
