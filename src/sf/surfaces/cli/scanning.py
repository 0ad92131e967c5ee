"""What is shown while the deep scan reads: one row that redraws on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from sf.surfaces.cli.speech import Speech, progress_bar

_REDRAW, _LINE = 0.1, 5.0
_ERASE = "\r\x1b[K"


class Scanning:
    """Follows one scan; silent where the answer is JSON."""

    def __init__(self, speech: Speech, *, silent: bool) -> None:
        self._speech = speech
        self._silent = silent
        self._next = 0.0
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        """Take in how many files of how many are done."""
        now = time.monotonic()
        if self._silent or now < self._next:
            return
        self._next = now + (_REDRAW if self._speech.live else _LINE)
        text = f"scanning:  {progress_bar(done, total)} files" if done else f"scanning:  {total} files"
        if self._speech.live:
            sys.stdout.write(_ERASE + text)
            sys.stdout.flush()
            self._drawn = True
        else:
            self._speech.say(text)
            self._speech.event("scan", done=done, total=total)

    def close(self) -> None:
        """Take the live row off the screen."""
        if self._drawn:
            sys.stdout.write(_ERASE)
            sys.stdout.flush()
            self._drawn = False
