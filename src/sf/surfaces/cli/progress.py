"""What is shown while the autopilot works: rows that redraw on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping

from sf.domain import events
from sf.domain.clock import brief_duration
from sf.domain.decide import PASSED
from sf.domain.excerpt import one_line
from sf.surfaces.cli import cells
from sf.surfaces.cli.live import LiveLines
from sf.surfaces.cli.speech import Speech, count, money

_REDRAW = 0.1


class _Row:
    def __init__(self, event: events.Event) -> None:
        self.unit_id = event.unit_id
        self.phase = str(event.data["phase"])
        self.title = str(event.data["title"])
        self.started = time.monotonic()
        self.tokens = 0
        self.cost = 0
        self.last = ""


class Progress:
    """Follows the event bus of one autopilot; `delayed` is in how many milliseconds which unit is due."""

    def __init__(self, speech: Speech, delayed: Mapping[str, int] | None = None) -> None:
        self._speech = speech
        self._rows: dict[str, _Row] = {}
        self._live = LiveLines()
        self._drawn_at = 0.0
        self._started = time.monotonic()
        self._due = {unit_id: self._started + left / 1000 for unit_id, left in (delayed or {}).items()}
        self.tokens = 0
        self.cost = 0

    def __call__(self, event: events.Event) -> None:
        """Take an event in."""
        if self._speech.headless:
            if event.name != events.AUTO_LOOP:
                self._speech.event(event.name, unit_id=event.unit_id, at=event.at, **event.data)
            return
        self._follow(event)
        line = self._line(event)
        if line:
            self._live.clear()
            self._speech.say(line)
        if self._speech.live and (line or time.monotonic() - self._drawn_at > _REDRAW):
            self._draw()

    def close(self) -> None:
        """Take the live rows off the screen."""
        self._live.clear()

    def _follow(self, event: events.Event) -> None:
        row = self._rows.get(event.unit_id)
        if event.name == events.RUN_STARTED:
            self._rows[event.unit_id] = _Row(event)
            self._due.pop(event.unit_id, None)
        elif event.name == events.RUN_ENDED:
            self._rows.pop(event.unit_id, None)
        elif event.name in (events.UNIT_CLOSED, events.HELD):
            self._due.pop(event.unit_id, None)
        elif event.name == events.DELAYED:
            self._due[event.unit_id] = time.monotonic() + event.data["due_in_ms"] / 1000
        elif row is not None and event.name == events.TURN_ENDED:
            spent = int(event.data["input_tokens"]) + int(event.data["output_tokens"])
            row.tokens += spent
            row.cost += int(event.data["cost_micro_usd"])
            self.tokens += spent
            self.cost += int(event.data["cost_micro_usd"])
        elif row is not None:
            row.last = _step(event) or row.last

    def _line(self, event: events.Event) -> str:
        """The line that an event leaves behind, if any."""
        text = self._told(event)
        if not text:
            return ""
        stamp = self._speech.paint(f"{time.monotonic() - self._started:6.1f}s", "dim")
        return f"{stamp}  {event.unit_id or 'sf':<16} {text}"

    def _told(self, event: events.Event) -> str:
        paint, data = self._speech.paint, event.data
        match event.name:
            case events.RUN_STARTED:
                return (
                    f"{paint(str(data['phase']), 'cyan')}: {data['title']}" if not self._speech.live else ""
                )
            case events.GATE_RESULT if data["passed"]:
                return (
                    paint(f"gate {data['gate']} passed", "green")
                    + f" ({brief_duration(data['duration_ms'])})"
                )
            case events.GATE_RESULT:
                return paint(f"gate {data['gate']} failed", "red")
            case events.PHASE_CHANGE if data["reason"] == PASSED:
                return ""
            case events.PHASE_CHANGE:
                return self._moved(str(data["to"]), str(data["reason"]))
            case events.HELD:
                return paint(f"waits for you ({data['kind']}): ", "yellow") + one_line(
                    str(data["detail"]), 200
                )
            case events.MERGE_CONFLICT:
                return paint("merge conflict", "yellow")
            case events.RUN_ENDED if data["error_code"] and data["outcome"] != "success":
                detail = one_line(str(data["detail"]), 160)
                return paint(data["error_code"] + (": " if detail else ""), "yellow") + detail
            case events.DELAYED:
                return paint(f"again in {brief_duration(data['due_in_ms'])}", "dim")
            case events.STOPPING:
                return paint(_stopping(int(data["running"])), "yellow")
            case events.WARNING:
                return paint(str(data["detail"]), "yellow")
            case events.CONFIG_RELOADED:
                return "configuration reloaded"
            case _:
                return ""

    def _moved(self, to: str, reason: str) -> str:
        arrow = f"→ {to:<9}"
        if to == "complete":
            return self._speech.paint(f"{arrow} {reason}", "green")
        setback = to == "reassess" or reason.startswith(("gate ", "review wants", "merge conflict"))
        return f"{arrow} {self._speech.paint(reason, 'yellow' if setback else 'dim')}"

    def _draw(self) -> None:
        rows = [self._speech.shown(self._row(row)) for row in self._rows.values()]
        told = "" if self._rows else self._awaited()
        total = f"{len(self._rows)} running{told} · {count(self.tokens)} tokens · {money(self.cost)}"
        self._live.draw(rows, total)
        self._drawn_at = time.monotonic()

    def _awaited(self) -> str:
        """What comes next when nothing runs."""
        left = [(due - time.monotonic(), unit_id) for unit_id, due in self._due.items()]
        soonest = min((item for item in left if item[0] > 0), default=None)
        return f", {soonest[1]} again in {brief_duration(int(soonest[0] * 1000))}" if soonest else ""

    def _row(self, row: _Row) -> str:
        elapsed = brief_duration(int((time.monotonic() - row.started) * 1000))
        head = f"⠿ {row.unit_id:<16} {row.phase:<8} {elapsed:>6} {count(row.tokens):>6} {money(row.cost):>8}"
        return f"{head}  {cells.cut(one_line(row.title, 40), 40)}  {one_line(row.last, 60)}"


def _step(event: events.Event) -> str:
    """The step that an event begins or ends, if any."""
    data = event.data
    match event.name:
        case events.STATE_CHANGED:
            return str(data["state"]).replace("_", " ")
        case events.TOOL_STARTED:
            return f"{data['tool']} {data['arguments']}"
        case events.TOOL_CALLED:
            return f"{data['tool']}: {data['output']}"
        case events.GATE_STARTED:
            return f"gate {data['gate']}"
        case events.GATE_RESULT:
            return f"gate {data['gate']} {'passed' if data['passed'] else 'failed'}"
        case _:
            return ""


def _stopping(running: int) -> str:
    if not running:
        return "stopping …"
    return "stopping: one run is ended …" if running == 1 else f"stopping: {running} runs are ended …"
