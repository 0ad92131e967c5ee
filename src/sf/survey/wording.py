"""Text of the repository as findings may carry it: no control characters, of bounded length."""

from __future__ import annotations

from sf.domain.excerpt import one_line, printable


def plain(text: str, limit: int = 120) -> str:
    """Words on one line: what cannot be printed becomes a space, what is too long is cut."""
    return one_line(printable(text[: limit * 8]), limit)


def shown(path: str, limit: int = 200) -> str:
    """A path on one line: what cannot be printed is escaped, what is too long is cut in front."""
    text = "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in path[-limit * 2 :]
    )
    return text if len(text) <= limit else "…" + text[1 - limit :]


def listed(items: list[str], most: int) -> str:
    """The first of the items; dots where there are more."""
    return ", ".join([*items[:most], *(["…"] if len(items) > most else [])])


def fitting(items: list[str], room: int) -> str:
    """As many of the items as fit into a line, at least one; dots where there are more."""
    number = len(items)
    while number > 1 and len(listed(items, number)) > room:
        number -= 1
    return listed(items, number)


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 file`, `12,000 files`."""
    if number == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith(("s", "ch")) else "s")
    return f"{number:,} {plural}"
