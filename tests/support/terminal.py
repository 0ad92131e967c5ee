"""A terminal for tests: a command runs on it, and what is on the screen or has scrolled away can be read."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

_PIECE = re.compile(r"\x1b\[(?P<given>[?\d;]*)(?P<final>[A-Za-z])|(?P<one>.)", re.DOTALL)


class Screen:
    """The lines of a window and its history; it knows the few sequences that sf uses."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._history: list[str] = []
        self._window = [""]
        self._row = self._column = 0
        self.wraps = True

    @property
    def lines(self) -> list[str]:
        """Everything that a person can scroll to."""
        return [line.rstrip() for line in self._history + self._window]

    def feed(self, text: str) -> None:
        """Take output in."""
        for found in _PIECE.finditer(text):
            if found["one"] is not None:
                self._put(found["one"])
            else:
                self._steer(found["final"], found["given"])

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._down()
        elif character.isprintable() and not unicodedata.combining(character):
            wide = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            if self._column + wide > self._columns:
                if not self.wraps:
                    return
                self._column = 0
                self._down()
            line = self._window[self._row].ljust(self._column)
            # The second half of a wide character is a cell that nothing is in.
            self._window[self._row] = line[: self._column] + character.ljust(wide, "\0")
            self._column += wide

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._window):
            self._window.append("")
        if self._row == self._rows:
            self._history.append(self._window.pop(0))
            self._row -= 1

    def _steer(self, final: str, given: str) -> None:
        if final in "AF":
            self._row = max(0, self._row - int(given or 1))
            self._column = 0 if final == "F" else self._column
        elif final == "K":
            self._window[self._row] = ""
        elif final == "J":
            if (self._row, self._column) == (0, 0):
                self._history += self._window
            self._window[self._row :] = [""]
        elif given == "?7":
            self.wraps = final == "h"


class Seat:
    """A command at a terminal of its own."""

    def __init__(self, cwd: Path, home: Path, *arguments: str, columns: int, rows: int) -> None:
        self.told = ""
        self.size = (columns, rows)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        own = {"SF_HOME": str(home), "HOME": str(home.parent), "TERM": "xterm", "NO_COLOR": "1"}
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sf", *arguments],
            cwd=cwd,
            env={**kept, **own},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def until(self, holds: Callable[[str], bool], seconds: float = 30.0) -> str:
        """Read until what was told holds; all of it."""
        deadline = time.monotonic() + seconds
        while not holds(self.told):
            assert time.monotonic() < deadline, self.told
            if not self._read(0.05) and self.process.poll() is not None:
                break
        assert holds(self.told), self.told
        return self.told

    def end(self, seconds: float = 60.0) -> list[str]:
        """Read until the command has ended; what a person finds on the terminal then."""
        deadline = time.monotonic() + seconds
        while self._read(0.05) or self.process.poll() is None:
            assert time.monotonic() < deadline, self.told
        os.close(self._master)
        screen = Screen(*self.size)
        screen.feed(self.told)
        assert screen.wraps
        return screen.lines

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        try:
            read = os.read(self._master, 65536) if ready else b""
        except OSError:  # nobody has the other end open any more
            return False
        self.told += read.decode(errors="ignore")
        return bool(read)
