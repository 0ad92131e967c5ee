"""What `sf init` needs to know at once: the languages, and the commands that become gates. Parses nothing."""

from __future__ import annotations

from collections import Counter

import msgspec

from sf.survey import languages
from sf.survey.commands import Command, Purpose, commands_of
from sf.survey.tree import Tree

_PREFERENCE = ("sure", "likely")


class Stack(msgspec.Struct, frozen=True):
    """What was detected. An empty command means that none was recognised."""

    languages: tuple[str, ...]
    tests: str
    lint: str


def stack_of(tree: Tree) -> Stack:
    """Look at names and manifests only. A command that is a mere guess makes no gate."""
    found = commands_of(tree)
    headers = languages.headers_of(tree.files)
    counts = Counter(languages.of_name(name, headers) for name in tree.own)
    return Stack(
        languages=tuple(name for name, _ in counts.most_common() if languages.ROLES.get(name) == "code"),
        tests=_best(found, "test"),
        lint=_best(found, "lint"),
    )


def _best(found: tuple[Command, ...], purpose: Purpose) -> str:
    for surety in _PREFERENCE:
        for command in found:
            if command.purpose == purpose and command.surety == surety:
                return command.command
    return ""
