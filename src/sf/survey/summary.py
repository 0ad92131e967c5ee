"""Findings for a person at a terminal: a screenful, the important first."""

from __future__ import annotations

from collections.abc import Iterator

from sf.survey.found import Found
from sf.survey.wording import counted, fitting, listed

_WIDTH = 100
_ROOM = 85
_WHY = {
    "vendored": "vendored",
    "generated": "generated",
    "minified": "minified",
    "binary": "binary",
    "large": "larger than 1 MiB",
    "link": "links",
    "unreadable": "not readable",
    "crashed": "the parser gave up on",
    "late": "out of time",
}


def summary_of(found: Found) -> tuple[str, ...]:
    """The findings in twenty to forty lines, fewer where there is less to say."""
    parts = (_languages, _structure, _entry_points, _commands, _dependencies, _core, _past, _left_out)
    return tuple(_cut(line) for part in parts for line in part(found))


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _languages(found: Found) -> Iterator[str]:
    code = [share for share in found.languages if share.role == "code"]
    lines = sum(share.lines for share in code)
    yield f"{found.project}: {counted(found.files, 'file')}, {counted(lines, 'line')} of code"
    if code:
        yield "languages:    " + fitting(
            [f"{share.language} {share.percent:g} %" for share in code if share.percent >= 0.1], _ROOM
        )


def _structure(found: Found) -> Iterator[str]:
    head = "structure:    "
    for folder in found.structure.folders[:8]:
        size = f"{counted(folder.files, 'file'):>12} {counted(folder.lines, 'line'):>15}"
        yield f"{head}{folder.path + '/':<20} {size}  {folder.purpose or folder.language}".rstrip()
        head = " " * len(head)
    if len(found.structure.folders) > 8:
        yield f"{head}…"
    packages = [f"{item.name} ({item.path})" for item in found.structure.packages if item.path != "."]
    if packages:
        yield "packages:     " + fitting(packages, _ROOM)


def _entry_points(found: Found) -> Iterator[str]:
    head = "entry points: "
    first = [item for item in found.entry_points if item.kind not in ("target", "script")]
    for item in first[:5]:
        starts = "" if item.target == item.found_in else f" → {item.target}"
        yield f"{head}{item.name}{starts} ({item.found_in})"
        head = " " * len(head)
    if len(first) > 5:
        yield f"{head}…"
    targets = [item.name for item in found.entry_points if item.kind in ("target", "script")]
    if targets:
        yield "targets:      " + fitting(targets, _ROOM)


def _commands(found: Found) -> Iterator[str]:
    head = "commands:     "
    for item in found.commands[:5]:
        yield f"{head}{item.purpose}: {item.command}   ({item.surety}, from {item.found_in})"
        head = " " * len(head)


def _dependencies(found: Found) -> Iterator[str]:
    needed = [item.name for item in found.dependencies if not item.development]
    development = len(found.dependencies) - len(needed)
    if found.dependencies:
        also = f" · {development} for development" if development else ""
        yield f"dependencies: {len(needed)}{also}" + (f": {fitting(needed, 60)}" if needed else "")


def _core(found: Found) -> Iterator[str]:
    head = "most needed:  "
    for module in found.linkage.modules[:5]:
        offers = listed([item.name for item in module.definitions], 3)
        yield f"{head}{module.path} ({counted(module.importers, 'importer')})" + (
            f": {offers}" if offers else ""
        )
        head = " " * len(head)


def _past(found: Found) -> Iterator[str]:
    past = found.past
    if not past.commits:
        return
    number = f"{'' if past.complete else 'the newest '}{counted(past.commits, 'commit')}"
    yield f"history:      {number} by {counted(past.people, 'name')}, {past.since} to {past.until}"
    yield "people:       " + fitting([f"{one.name} ({one.commits})" for one in past.contributors], _ROOM)
    if past.areas:
        yield "active:       " + fitting([f"{area.path} ({area.commits})" for area in past.areas], _ROOM)
    if past.hot_files:
        yield "hot files:    " + fitting([f"{file.path} ({file.commits})" for file in past.hot_files], _ROOM)
    head = "together:     "
    for pair in past.pairs[:4]:
        yield f"{head}{pair.first} + {pair.second} ({pair.support}×, {pair.confidence:.0%})"
        head = " " * len(head)


def _left_out(found: Found) -> Iterator[str]:
    if found.left_out:
        parts = [f"{_WHY[reason]} {number}" for reason, number in found.left_out.items()]
        yield "left out:     " + ", ".join(parts)
    if found.broken:
        such = listed([*found.broken_files], 2)
        yield f"syntax:       not understood in full: {counted(found.broken, 'file')}, such as {such}"
    for line in found.trouble:
        yield f"trouble:      {line}"
