"""Lines at the foot of a terminal that are drawn again and again in the same place."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from sf.surfaces.cli import cells

_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_ERASE, _UP = "\r\x1b[2K", "\x1b[1A"


class LiveLines:
    """What is drawn now. It never fills more lines than can be taken off again."""

    def __init__(self) -> None:
        self._drawn: list[int] = []

    def draw(self, rows: Sequence[str], foot: str) -> None:
        """Put these in place of what is drawn: the foot, and as many rows above it as the window holds."""
        columns, height = shutil.get_terminal_size()
        # The last line of the window is the cursor's; what scrolls out at the top is out of reach.
        room = height - 1
        lines = [*rows[: max(0, room - 1)], foot][: max(0, room)]
        lines = [cells.cut(line, columns - 1) for line in lines]
        # In one piece, so that nothing can come between: a terminal may count cells in another way than sf.
        told = "".join(f"{line}\n" for line in lines)
        self._write(f"{self._erasure(columns)}{_NO_WRAP}{told}{_WRAP}")
        self._drawn = [cells.width(line) for line in lines]

    def clear(self) -> None:
        """Take off what is drawn."""
        if self._drawn:
            self._write(self._erasure(shutil.get_terminal_size().columns) + _WRAP)
            self._drawn = []

    def _erasure(self, columns: int) -> str:
        """Line by line: terminals keep what is erased from the top of the window to its end, as history.

        A window that became narrower has folded the lines that no longer fitted.
        """
        if not self._drawn:
            return ""
        lines = sum(max(1, -(-drawn // columns)) for drawn in self._drawn)
        return _ERASE + f"{_UP}{_ERASE}" * lines

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
