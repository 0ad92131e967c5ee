"""The trace: one span a line, a file a day, a `_meta` line first. Written behind the work, never dropped."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from sf import __version__
from sf.domain import utf8
from sf.domain.clock import rfc3339
from sf.domain.ids import ulid

SCHEMA_VERSION = 1
_GATHER = 0.02
Operation = Literal[
    "unit", "run", "phase_transition", "model_request", "tool_call", "gate", "hook", "recall", "intent"
]


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that took time."""

    trace_id: str
    span_id: str
    operation: Operation
    started_at: int
    duration_ms: int
    parent_span_id: str = ""
    attrs: dict[str, Any] = {}
    error: str = ""


class Tracer:
    """A bounded buffer and a thread that writes it out; when the buffer is full, callers wait."""

    def __init__(self, folder: Path, *, buffer: int = 10_000, today: Callable[[], str] | None = None) -> None:
        self._folder = folder
        self._today = today or (lambda: datetime.now().astimezone().strftime("%Y-%m-%d"))
        self._most = buffer
        self._spans: list[Span] = []
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_closing = False
        self._file: BinaryIO | None = None
        self.write_failures = 0
        self._thread = threading.Thread(target=self._serve, name="sf-trace", daemon=True)
        self._thread.start()

    def emit(self, span: Span) -> None:
        """Hand a span over; blocks briefly rather than lose one, unless nobody writes any more."""
        with self._lock:
            while len(self._spans) >= self._most and not self._is_closing:
                self._changed.wait()
            self._spans.append(span)
            if len(self._spans) in (1, self._most):
                self._changed.notify_all()

    def span(
        self,
        operation: Operation,
        *,
        trace_id: str,
        started_at: int,
        attrs: dict[str, Any],
        error: str = "",
        parent: str = "",
        span_id: str = "",
    ) -> None:
        """Emit a span that ends now."""
        now = time.time_ns() // 1_000_000
        self.emit(
            Span(trace_id, span_id or ulid(), operation, started_at, now - started_at, parent, attrs, error)
        )

    def current_file(self) -> Path:
        """Today's file."""
        return self._folder / f"trace-{self._today()}.jsonl"

    def close(self) -> None:
        """Write out what is buffered."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _serve(self) -> None:
        while batch := self._gathered():
            self._write(batch)
        if self._file is not None:
            self._file.close()

    def _gathered(self) -> list[Span]:
        """What is to be written next; nothing once everything is."""
        with self._changed:
            self._changed.wait_for(lambda: self._spans or self._is_closing)
            # A short wait gathers what belongs together: one write instead of many, and a rested interpreter.
            self._changed.wait_for(lambda: self._is_closing or len(self._spans) >= self._most, _GATHER)
            batch, self._spans = self._spans, []
            self._changed.notify_all()
        return batch

    def _write(self, batch: list[Span]) -> None:
        try:
            out = self._opened(self.current_file())
            out.write(b"".join(utf8.as_json(span) + b"\n" for span in batch))
        except Exception:  # were the thread to end, whoever hands spans over would wait for ever
            self.write_failures += len(batch)

    def _opened(self, path: Path) -> BinaryIO:
        """Today's file, kept open until midnight; a new one begins with its `_meta` line."""
        if self._file is not None and self._file.name == str(path):
            return self._file
        if self._file is not None:
            self._file.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        out: BinaryIO = path.open("ab+", buffering=0)
        _end_torn_line(out)
        if out.tell() == 0:
            out.write(msgspec.json.encode(_meta()) + b"\n")
            self._index()
        self._file = out
        return out

    def _index(self) -> None:
        _write_index(self._folder)


def _write_index(folder: Path) -> None:
    """`_meta.json`: the schema version and the files there are."""
    files = sorted(file.name for file in folder.glob("trace-*.jsonl"))
    (folder / "_meta.json").write_bytes(msgspec.json.encode({**_meta(), "files": files}))


def older(folder: Path, before: date) -> list[Path]:
    """The files of days before a date, oldest first."""
    return [file for file in sorted(folder.glob("trace-*.jsonl")) if (day_of(file.name) or before) < before]


def day_of(name: str) -> date | None:
    """The day that a file's name gives, as `trace-2026-01-31.jsonl` or `2026-01-31-anything` do."""
    found = re.match(r"(?:trace-)?(\d{4}-\d\d-\d\d)\b", name)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def rotate(file: Path, archive: Path) -> Path:
    """Move a day's file to the archive by one rename; where it is now."""
    archive.mkdir(parents=True, exist_ok=True)
    target, number = archive / file.name, 1
    while target.exists():
        number += 1
        target = archive / f"{file.stem}.{number}.jsonl"
    file.rename(target)
    _write_index(file.parent)
    return target


def _end_torn_line(out: BinaryIO) -> None:
    """A crash may have left half a line; what comes after it must not be joined to it."""
    size = out.seek(0, 2)
    if size:
        out.seek(size - 1)
        if out.read(1) != b"\n":
            out.write(b"\n")


def _meta() -> dict[str, Any]:
    return {
        "_meta": True,
        "trace_schema_version": SCHEMA_VERSION,
        "sf_version": __version__,
        "created_at": rfc3339(time.time_ns() // 1_000_000),
    }


def read(file: Path) -> list[dict[str, Any]]:
    """The spans of a file; lines that a crash tore are left out. Raises ValueError for an unknown version."""
    spans: list[dict[str, Any]] = []
    for line in file.read_bytes().split(b"\n"):
        try:
            record = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if record.get("_meta"):
            if record.get("trace_schema_version") != SCHEMA_VERSION:
                raise ValueError(f"{file}: trace schema {record.get('trace_schema_version')} is not known")
            continue
        spans.append(record)
    return spans
