"""The structured log: one line an entry, `key=value`, rotated by size."""

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
"""A message that does."""


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
        line = f"{_stamp()} {level} {message if _WORDS.fullmatch(message) else _one_line(escaped(message))}"
        for key, value in fields.items():
            if value is not None:
                line += f" {key}={_quoted(value)}"
        with self._lock:
            self._emit(line + "\n")

    def _emit(self, line: str) -> None:
        if self._stderr:
            sys.stderr.write(line)
        if self._path is None:
            return
        try:
            file = self._file if self._file is not None else self._open(self._path)
            data = line.encode()
            if file.tell() + len(data) > self._max_size and file.tell():
                file.close()
                self._rotate(self._path)
                file = self._open(self._path)
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


def _stamp() -> str:
    now = time.time_ns() // 1_000_000
    return f"{_second(now // 1000)}.{now % 1000:03d}Z"


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
    text = escaped(text)
    if len(text.encode()) > _LIMIT:
        text = text.encode()[:_LIMIT].decode(errors="ignore") + " (truncated)"
    return (
        '"' + _one_line(text).replace('"', '\\"') + '"'
        if _SPACED.search(text) or not text
        else _one_line(text)
    )
