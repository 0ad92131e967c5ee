"""Findings as notes: short texts that stand by themselves, to be kept where agents look things up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from sf.survey.found import Found
from sf.survey.wording import counted, listed

Kind = Literal[
    "overview",
    "structure",
    "entry_point",
    "test_command",
    "convention",
    "dependency",
    "module",
    "architecture",
    "hot_area",
    "co_change",
    "people",
]


class Note(msgspec.Struct, frozen=True):
    """One fact or one coherent group; the key stays the same when a later scan says it anew."""

    kind: Kind
    key: str
    text: str


def notes_of(found: Found) -> tuple[Note, ...]:
    """Every note, the most general first; keys are unique."""
    parts = (_overview, _structure, _entry_points, _commands, _conventions, _dependencies, _modules, _past)
    made = (note for part in parts for note in part(found))
    return tuple({note.key: note for note in made}.values())


def _note(kind: Kind, name: str, text: str) -> Note:
    return Note(kind, f"survey/{kind}/{name}", text)


def _overview(found: Found) -> Iterator[Note]:
    code = [share for share in found.languages if share.role == "code"]
    if not code:
        return
    lines = sum(share.lines for share in code)
    shares = listed(
        [f"{share.language} ({share.percent:g} %, {counted(share.files, 'file')})" for share in code], 6
    )
    size = f"{counted(found.files, 'tracked file')} and {counted(lines, 'line')} of code"
    text = f"{found.project} has {size}: {shares}."
    if found.definitions:
        text += (
            f" Its sources define {counted(found.definitions, 'public name')} (functions, classes, types)."
        )
    yield _note("overview", "languages", text)


def _structure(found: Found) -> Iterator[Note]:
    folders = [
        f"{folder.path}/ ({folder.purpose or folder.language or 'other'}, {counted(folder.files, 'file')})"
        for folder in found.structure.folders
    ]
    if folders:
        yield _note("structure", "folders", f"Top folders of {found.project}: {listed(folders, 12)}.")
    packages = [f"{item.name} in {item.path} ({item.kind})" for item in found.structure.packages]
    if packages:
        yield _note("structure", "packages", f"Packages of {found.project}: {listed(packages, 15)}.")
    if found.structure.test_files:
        where = listed([f"{folder}/" for folder in found.structure.test_folders], 6)
        number = counted(found.structure.test_files, "test file")
        yield _note("structure", "tests", f"{found.project} has {number}, in {where}.")


def _entry_points(found: Found) -> Iterator[Note]:
    for item in [item for item in found.entry_points if item.kind not in ("target", "script")][:12]:
        starts = f" starts {item.target}" if item.target and item.target != item.found_in else ""
        text = f"Entry point of {found.project} ({item.kind}): {item.name}{starts}; see {item.found_in}."
        yield _note("entry_point", f"{item.found_in}:{item.name}", text)
    targets = [item.name for item in found.entry_points if item.kind in ("target", "script")]
    if targets:
        text = f"Targets and scripts that {found.project} offers: {listed(targets, 20)}."
        yield _note("entry_point", "targets", text)


_VERBS = {"test": "test", "lint": "lint", "types": "check the types of", "build": "build"}
_DOUBTS = {
    "sure": "",
    "likely": " Likely, not certain.",
    "guess": " A guess: it may need a network or a build.",
}


def _commands(found: Found) -> Iterator[Note]:
    for item in found.commands[:10]:
        text = f"To {_VERBS[item.purpose]} {found.project}: `{item.command}` (from {item.found_in})."
        yield _note("test_command", f"{item.purpose}:{item.command}", text + _DOUBTS[item.surety])


def _conventions(found: Found) -> Iterator[Note]:
    if found.conventions:
        text = f"Conventions of {found.project}: {'; '.join(found.conventions[:14])}."
        yield _note("convention", "agreements", text)


def _dependencies(found: Found) -> Iterator[Note]:
    for registry in dict.fromkeys(item.registry for item in found.dependencies):
        mine = [item for item in found.dependencies if item.registry == registry]
        needed = [f"{item.name} {item.versions}".strip() for item in mine if not item.development]
        tools = [item.name for item in mine if item.development]
        text = f"{registry} dependencies of {found.project}: {listed(needed, 25) or 'none at run time'}."
        if tools:
            text += f" For development: {listed(tools, 15)}."
        yield _note("dependency", registry.lower(), text)


def _modules(found: Found) -> Iterator[Note]:
    for module in found.linkage.modules[:15]:
        if module.importers < 3:
            return
        offers = listed([f"{item.name} ({item.kind}, line {item.line})" for item in module.definitions], 10)
        text = f"{module.path} is needed by {counted(module.importers, 'file')} of {found.project}."
        yield _note("module", module.path, text + (f" It defines {offers}." if offers else ""))
    edges = [
        f"{edge.source} → {edge.target} ({edge.imports})" for edge in found.linkage.edges if edge.imports > 1
    ]
    if edges:
        text = (
            f"Which areas of {found.project} import which, with the number of imports: {listed(edges, 15)}."
        )
        yield _note("architecture", "imports", text)


def _past(found: Found) -> Iterator[Note]:
    past = found.past
    if past.areas:
        areas = listed([f"{area.path} ({counted(area.commits, 'commit')})" for area in past.areas], 8)
        text = f"Where {found.project} changes most, recent commits weighing more (to {past.until}): {areas}."
        yield _note("hot_area", "folders", text)
    if past.hot_files:
        files = listed([f"{file.path} ({file.commits})" for file in past.hot_files], 10)
        yield _note("hot_area", "files", f"Files of {found.project} that change most often: {files}.")
    for pair in past.pairs[:15]:
        text = (
            f"{pair.first} and {pair.second} change together: in {pair.support} commits of {found.project},"
            f" {pair.confidence:.0%} of those that change the rarer one. Look at both."
        )
        yield _note("co_change", f"{pair.first}+{pair.second}", text)
    if past.contributors:
        people = listed([f"{one.name} ({one.commits}, {one.recent} recent)" for one in past.contributors], 8)
        number = f"{'' if past.complete else 'the newest '}{counted(past.commits, 'commit')}"
        text = f"{found.project}: {number} from {past.since} to {past.until}, by {people}."
        yield _note("people", "contributors", text)
