"""The table of ratios."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Row(msgspec.Struct, frozen=True):
    """One comparison: a measured quantity of sf's against another one, in the same unit."""

    what: str
    ours: float
    unit: str
    against: str = ""
    theirs: float | None = None
    most_ratio: float | None = None
    """The target as a ratio."""
    most: float | None = None
    """The target as a quantity."""
    least: float | None = None
    """The target of a quantity that should be large."""

    @property
    def ratio(self) -> float | None:
        """How many times the other one's."""
        return self.ours / self.theirs if self.theirs else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.most is not None:
            return self.ours <= self.most
        if self.least is not None:
            return self.ours >= self.least
        if self.most_ratio is not None and self.ratio is not None:
            return self.ratio <= self.most_ratio
        return None

    @property
    def target(self) -> str:
        """The target in words."""
        if self.most is not None:
            return f"≤ {_quantity(self.most, self.unit)}"
        if self.least is not None:
            return f"≥ {_quantity(self.least, self.unit)}"
        return f"≤ {self.most_ratio:g}×" if self.most_ratio is not None else ""


def _quantity(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 10 else f"{value:.1f} s"
    return f"{value:,.0f} {unit}" if unit else f"{value:.3f}"


_HEADS = ("what", "sf", "against", "peer", "ratio", "target", "met")


def render(rows: Sequence[Row]) -> str:
    """The rows as lines of text, columns aligned, readable as Markdown."""
    cells = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADS))]
    lines = [_line(line, widths) for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.what,
        _quantity(row.ours, row.unit),
        row.against,
        _quantity(row.theirs, row.unit) if row.theirs is not None else "",
        f"{row.ratio:.2f}×" if row.ratio is not None else "",
        row.target,
        {True: "yes", False: "NO", None: ""}[row.met],
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
