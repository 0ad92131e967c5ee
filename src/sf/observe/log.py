"""The structured log: one line an entry, `key=value`, rotated by size.

What is kept back for a moment is written before whatever comes after it: the lines are in order.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, Literal

from sf.domain.excerpt import unsteering
from sf.domain.utf8 import escaped

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
_LIMIT = 2048
_SPACED = re.compile(r'[ "=]')
_PLAIN = re.compile(r"[\w./:@#+-]{1,500}", re.ASCII)
"""A value that stands in a line as it is."""
_WORDS = re.compile(r"[\w ./:@#+-]{0,500}", re.ASCII)
"""A message that does, and a value within quotes."""


class Log:
    """Writes to a file; to stderr only when asked. A sink that fails never stops the work."""

    def __init__(
        self, path: Path | None, *, max_size: int = 10 * 1024 * 1024, max_files: int = 5, stderr: bool = False
    ) -> None:
        self._path = path
        self._max_size = max_size
        self._max_files = max_files
        self._stderr = stderr
        self._lock = threading.Lock()
        self._kept: list[tuple[int, str, dict[str, Any]]] = []
        self._file: BinaryIO | None = None
        self.sink_failures = 0

    def info(self, message: str, **fields: Any) -> None:
        """Something happened."""
        self.write("INFO", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """Something an operator should know."""
        self.write("WARNING", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        """Something failed."""
        self.write("ERROR", message, fields)

    def write(self, level: Level, message: str, fields: dict[str, Any]) -> None:
        """Write one line."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            self._emit([*self._taken(), _line(now, level, message, fields)])

    def keep(self, at: int, message: str, fields: dict[str, Any]) -> bool:
        """Keep a line until `flush` or until another one is written; whether it is the first that is kept."""
        with self._lock:
            self._kept.append((at, message, fields))
            return len(self._kept) == 1

    def flush(self) -> None:
        """Write what is kept: many lines cost little more than one."""
        with self._lock:
            self._emit(self._taken())

    def _taken(self) -> list[str]:
        kept, self._kept = self._kept, []
        return [_line(at, "INFO", message, fields) for at, message, fields in kept]

    def _emit(self, lines: list[str]) -> None:
        if not lines:
            return
        if self._stderr:
            try:
                sys.stderr.write("".join(lines))
            except (OSError, ValueError):  # nobody reads it any more, or it is closed
                self.sink_failures += 1
        if self._path is None:
            return
        try:
            file = self._file if self._file is not None else self._open(self._path)
            size, data = file.tell(), b""
            for line in lines:
                encoded = line.encode()
                if size and size + len(encoded) > self._max_size:
                    file.write(data)
                    # Should what follows fail, the next line opens it anew.
                    self._file = None
                    file.close()
                    self._rotate(self._path)
                    file = self._open(self._path)
                    size, data = 0, b""
                size += len(encoded)
                data += encoded
            file.write(data)
        except OSError:
            self.sink_failures += 1

    def _open(self, path: Path) -> BinaryIO:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._file.seek(0, os.SEEK_END)
        return self._file

    def _rotate(self, path: Path) -> None:
        for number in range(self._max_files - 1, 0, -1):
            older = path.with_name(f"{path.name}.{number}")
            newer = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)  # noqa: PTH105


def _line(at: int, level: Level, message: str, fields: dict[str, Any]) -> str:
    stamp = f"{_second(at // 1000)}.{at % 1000:03d}Z"
    line = f"{stamp} {level} {message if _WORDS.fullmatch(message) else _one_line(escaped(message))}"
    for key, value in fields.items():
        if value is not None:
            line += f" {key}={_quoted(value)}"
    return line + "\n"


@functools.lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _one_line(text: str) -> str:
    """On one line, and nothing in it that would steer the terminal of who reads it."""
    return unsteering(text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r"))


def _quoted(value: Any) -> str:
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    if _WORDS.fullmatch(text):
        return f'"{text}"'
    text = escaped(text)
    if len(text.encode()) > _LIMIT:
        text = text.encode()[:_LIMIT].decode(errors="ignore") + " (truncated)"
    return (
        '"' + _one_line(text).replace('"', '\\"') + '"'
        if _SPACED.search(text) or not text
        else _one_line(text)
    )
