"""Identifiers: ULIDs for runtime rows, readable ids for units."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Literal

UnitType = Literal["milestone", "slice", "task"]

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_ULID = re.compile(f"[0-7][{_ALPHABET}]{{25}}")
_UNIT = re.compile(r"milestone/m\d+|slice/m\d+/s\d+|task/m\d+/s\d+/t\d+|task/a\d+")
_UNSAFE = re.compile(r"[^a-zA-Z0-9._-]")
_CHILD = re.compile(r"[st]\d+(-|$)")


class _Ulids:
    """Strictly increasing within a process and above the floor, whatever the clock says.

    While the clock is behind, each is above the last by chance, not by one: processes that began at the same
    floor must not make the same ids.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def new(self) -> str:
        chance = int.from_bytes(os.urandom(10), "big")
        fresh = (time.time_ns() // 1_000_000) << 80 | chance
        with self._lock:
            self._last = value = max(fresh, self._last + 1 + (chance >> 20))
        return "".join([_PAIRS[(value >> shift) & 1023] for shift in range(120, -1, -10)])

    def raise_floor(self, newest: str) -> None:
        value = 0
        for letter in newest:
            value = value << 5 | _ALPHABET.index(letter)
        with self._lock:
            self._last = max(self._last, value)


_ULIDS = _Ulids()


def ulid() -> str:
    """A new ULID: unique, and above every one before it. Its time is the clock's unless that was set back."""
    return _ULIDS.new()


def keep_above(newest: str | None) -> None:
    """Let every ULID that this process makes from now on be above this one; anything else is no ULID."""
    if newest is not None and _ULID.fullmatch(newest):
        _ULIDS.raise_floor(newest)


def is_unit_id(text: str) -> bool:
    """Whether this has the form of a unit id."""
    return _UNIT.fullmatch(text) is not None


def full_id(text: str) -> str:
    """A unit's id from its short form: `m1`, `m1/s2`, `m1/s2/t3` or `a4`; anything else as it is."""
    if re.fullmatch(r"m\d+", text):
        return f"milestone/{text}"
    if re.fullmatch(r"m\d+/s\d+", text):
        return f"slice/{text}"
    return f"task/{text}" if re.fullmatch(r"m\d+/s\d+/t\d+|a\d+", text) else text


def unit_type(unit_id: str) -> UnitType:
    """The type that a unit id names."""
    head = unit_id.split("/", 1)[0]
    if head == "milestone":
        return "milestone"
    return "slice" if head == "slice" else "task"


def child_id(parent_id: str, number: int) -> str:
    """The id of a container's nth child."""
    slug = parent_id.split("/", 1)[1]
    return f"slice/{slug}/s{number}" if unit_type(parent_id) == "milestone" else f"task/{slug}/t{number}"


def folder_name(unit_id: str) -> str:
    """A unit id as one safe path segment."""
    return _UNSAFE.sub("_", unit_id)


def branch_name(unit_id: str, title: str) -> str:
    """The branch on which a unit's work is done: `sf/m1-s2-the-title`."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
    stem = unit_id.split("/", 1)[1].replace("/", "-")
    # A title that reads like a child's number is set off, or the child's branch could have the same name.
    between = "--" if _CHILD.match(slug) else "-"
    return f"sf/{stem}{between}{slug}" if slug else f"sf/{stem}"
