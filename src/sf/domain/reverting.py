"""Which commits of a branch undo a unit: decided from what their messages name, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Literal

import msgspec

from sf.domain.ids import unit_type

_TRAILER = re.compile(r"^[ \t]*Sf-Unit: (\S+)[ \t\r]*$", re.MULTILINE)
_NUMBERED = re.compile(r" \(#\d+\)$")


class Authored(msgspec.Struct, frozen=True):
    """A commit and the units that its message names; `committed_at` in UNIX seconds."""

    id: str
    parents: tuple[str, ...]
    subject: str
    committed_at: int
    units: frozenset[str]


class Step(msgspec.Struct, frozen=True):
    """One commit to revert. A merge goes back to its first parent, with everything it brought in."""

    commit: str
    subject: str
    committed_at: int
    back_to: str | None
    """The commit whose content returns; None for the first commit of all."""
    is_merge: bool = False
    brought: int = 0
    """Of a merge: how many commits it brought in."""
    by_subject: bool = False
    """Found by its subject alone: the message names no unit."""


class Ghost(msgspec.Struct, frozen=True):
    """A commit on record that the branch no longer has, and what stands there in its place."""

    unit_id: str
    commit: str
    subject: str
    found: tuple[str, ...] = ()
    how: Literal["name", "subject", ""] = ""


class Choice(msgspec.Struct, frozen=True):
    """What to revert, newest first, and what cannot be: commits that are not the unit's alone."""

    steps: tuple[Step, ...]
    shared: tuple[Authored, ...] = ()
    """Commits that hold the work of other units too."""
    joining: tuple[Authored, ...] = ()
    """Merges by the unit that took in the work of others; harmless when they changed nothing themselves."""
    undone: int = 0
    """How many were left out because their unit was reverted before."""


def named_units(message: str) -> frozenset[str]:
    """The units that a commit message names, also where a squash has moved or indented the lines."""
    return frozenset(_TRAILER.findall(message))


def naming_none(text: str) -> str:
    """A text for a commit message, with what it quotes of other messages marked: only sf names the maker."""
    return _TRAILER.sub(lambda line: f"> {line[0].strip()}", text)


def naming_pattern(unit_id: str) -> str:
    """An extended regular expression for the message lines of a unit and of everything below it."""
    slug = re.escape(unit_id.split("/", 1)[1])
    parts = [re.escape(unit_id)]
    if unit_type(unit_id) == "milestone":
        parts += [f"slice/{slug}/s[0-9]+", f"task/{slug}/s[0-9]+/t[0-9]+"]
    elif unit_type(unit_id) == "slice":
        parts.append(f"task/{slug}/t[0-9]+")
    return rf"^[[:space:]]*Sf-Unit: ({'|'.join(parts)})[[:space:]]*$"


def is_within(unit_id: str, top: str) -> bool:
    """Whether a unit is `top` or below it, going by the ids."""
    return unit_id == top or unit_id.split("/", 1)[-1].startswith(top.split("/", 1)[1] + "/")


def is_kin(unit_id: str, other: str) -> bool:
    """Whether one of two units is the other, or above it."""
    return is_within(unit_id, other) or is_within(other, unit_id)


def work_subject(title: str) -> str:
    """The subject of a commit with a unit's own work; it is found by it again."""
    return naming_none(title)


def landing_subject(unit_id: str, title: str) -> str:
    """The subject of the commit by which a unit lands on the integration branch."""
    return f"Merge {unit_id}: {title}"


def has_subject(commit: Authored, subject: str) -> bool:
    """Whether a commit carries this subject, perhaps with the number that a forge puts behind it."""
    return _NUMBERED.sub("", commit.subject) == subject


def choose(
    found: Sequence[Authored],
    brought: Mapping[str, Sequence[Authored]],
    top: str,
    undone: Set[str],
    by_subject: Set[str] = frozenset(),
) -> Choice:
    """Choose what undoes the unit `top` from the commits that name it or something below it, newest first.

    `brought` has for each merge among them what it brought in. A merge that brought in nothing but this
    unit's work stands for all of it. `undone` are units reverted before, `by_subject` commits that only
    their subject gave away.
    """
    steps: list[Step] = []
    shared: list[Authored] = []
    joining: list[Authored] = []
    covered: set[str] = set()
    left_out = 0
    for commit in found:
        if commit.id in covered:
            continue
        if commit.units and commit.units <= undone:
            left_out += 1
        elif len(commit.parents) < 2:
            if commit.id in by_subject or _is_own(commit, top):
                steps.append(_step(commit, by_subject))
            else:
                shared.append(commit)
        elif _is_own(commit, top) and all(_is_own(other, top) for other in brought[commit.id]):
            covered |= {other.id for other in brought[commit.id]}
            steps.append(_step(commit, by_subject, len(brought[commit.id])))
        else:
            joining.append(commit)
    return Choice(tuple(steps), tuple(shared), tuple(joining), left_out)


def _is_own(commit: Authored, top: str) -> bool:
    return bool(commit.units) and all(is_within(name, top) for name in commit.units)


def _step(commit: Authored, by_subject: Set[str], brought: int = 0) -> Step:
    back_to = commit.parents[0] if commit.parents else None
    return Step(
        commit.id,
        commit.subject,
        commit.committed_at,
        back_to,
        is_merge=len(commit.parents) > 1,
        brought=brought,
        by_subject=commit.id in by_subject,
    )


def revert_message(step: Step, unit_id: str) -> str:
    """The message of the commit that reverts a step; it does not name the unit as its maker."""
    subject = f'Revert "{step.subject}"'
    what = f"This reverts commit {step.commit}"
    if step.is_merge:
        what += f", reversing\nchanges made to {step.back_to}"
    return f"{subject}\n\n{what}.\n\nSf-Reverted: {unit_id}\n"
