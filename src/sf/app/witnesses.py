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
        elif event.name == events.PHASE_CHANGE:
            data = event.data
            log.info(
                "phase change completed",
                unit_id=event.unit_id,
                unit_type=data["type"],
                **{"from": data["from"]},
                to=data["to"],
                reason=data["reason"],
            )
        elif event.name in (events.HELD, events.RUN_ENDED, events.MERGE_CONFLICT, events.GATE_BLOCKED):
            log.info(event.name, unit_id=event.unit_id, unit_type=event.unit_id.split("/")[0], **event.data)

    return write


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
