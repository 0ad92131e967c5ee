"""How a command speaks: to a person on a terminal, as plain lines, or as JSON."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import Any

import msgspec

from sf.domain import utf8
from sf.domain.excerpt import STEERING, unsteering
from sf.surfaces.cli import cells

_COLOURS = {"green": "32", "red": "31", "yellow": "33", "dim": "2", "bold": "1", "cyan": "36"}
_PAINTED = re.compile(rf"\x1b\[(0|{'|'.join(_COLOURS.values())})m")
_NOTHING = re.compile(r"(?!)")
_UNSAFE = re.compile(f"{_PAINTED.pattern}|[{STEERING}]")
"""A colour is found as a whole."""
_NARROWEST = 10
"""Cells that a column of a table keeps; a commit has as many."""


class Speech:
    """Where output goes. `headless` is one JSON object per line, with a result at the end."""

    def __init__(self, *, headless: bool = False) -> None:
        self.headless = headless
        self.result: Any = None

    @property
    def live(self) -> bool:
        """Whether rows may be redrawn in place."""
        return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb") and not self.headless

    @property
    def colour(self) -> bool:
        """Whether colour is welcome."""
        return self.live and not os.environ.get("NO_COLOR")

    def say(self, text: str = "") -> None:
        """A line for a person; silent when headless. What could steer their terminal is shown, not sent."""
        if not self.headless:
            print(self.shown(text), flush=True)

    def shown(self, text: str) -> str:
        """The text as a terminal may have it: of control characters only line ends, tabs and sf's colours."""
        kept = _PAINTED if self.colour else _NOTHING
        return _UNSAFE.sub(lambda found: found[0] if kept.fullmatch(found[0]) else _escape(found[0]), text)

    def event(self, name: str, **data: Any) -> None:
        """A line for a program; silent otherwise."""
        if self.headless:
            print(unsteering(utf8.as_json({"event": name, **data}).decode()), flush=True)

    def answer(self, data: Any, *, as_json: bool) -> bool:
        """Give a result: as JSON when asked, kept for the end when headless. True when it was given so."""
        self.result = data
        if as_json and not self.headless:
            print(unsteering(msgspec.json.format(utf8.as_json(data), indent=2).decode()))
        return as_json or self.headless

    def paint(self, text: str, colour: str) -> str:
        """Coloured text where colour is welcome."""
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.colour else text


def _escape(text: str) -> str:
    code = ord(text[0])
    return (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}") + text[1:]


def table(rows: list[list[str]], header: list[str], *, indent: int = 0) -> list[str]:
    """Rows as aligned columns, on a terminal within its width."""
    lines = [header, *rows]
    widths = [max(cells.width(line[column]) for line in lines) for column in range(len(header))]
    if sys.stdout.isatty():
        widths = _fitted(widths, shutil.get_terminal_size().columns - indent)
    told = [
        "  ".join(cells.padded(cells.cut(cell, most), most) for cell, most in zip(line, widths, strict=True))
        for line in lines
    ]
    rule = "  ".join("─" * width for width in widths)
    return [told[0].rstrip(), rule, *(line.rstrip() for line in told[1:])]


def _fitted(widths: list[int], columns: int) -> list[int]:
    """The widths with the widest made narrower; the first is a name to copy, and none gets unreadable."""
    first, *others = widths
    over = first + sum(2 + width for width in others) - columns
    while over > 0 and others and max(others) > _NARROWEST:
        others[others.index(max(others))] -= 1
        over -= 1
    return [first, *others]


def money(micro_usd: int) -> str:
    """An amount for people."""
    return f"${micro_usd / 1_000_000:.4f}" if micro_usd < 1_000_000 else f"${micro_usd / 1_000_000:.2f}"


def count(number: int) -> str:
    """A count for people: 842, 12.3k, 4.1M."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def progress_bar(done: int, total: int) -> str:
    """`7 / 18 (39%)`"""
    return f"{done} / {total} ({done * 100 // total if total else 0}%)"
