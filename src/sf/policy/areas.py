"""Judge a diff by where it changes files: the plan's areas, protected paths, links and nested repositories.

Patterns are matched against whole paths from the repository's root. `*` and `?` do not cross `/`; `[a-z]`,
`[!a]` and `\\` work as in gitignore; `**` as a whole segment stands for any number of folders. A pattern
whose last segment has no wildcard, or that ends in `/`, also means everything below it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

import msgspec

Rule = Literal["malformed", "protected", "gitlink", "symlink", "forbidden", "outside"]

PROTECTED: tuple[str, ...] = (
    *(".git/**", ".sf/**", "**/.git/**", ".gitmodules"),
    *(".git", ".sf", "**/.git"),
)

_SYMLINK = "120000"
_GITLINK = "160000"
_WILD = "*?["


class Change(msgspec.Struct, frozen=True):
    """One path of a diff, with git's status letter and six-digit modes."""

    path: str
    status: str
    old_mode: str
    new_mode: str


class Violation(msgspec.Struct, frozen=True):
    """One path that may not be changed so, and why."""

    path: str
    rule: Rule
    reason: str


def violations(
    changed: Sequence[Change],
    *,
    allowed: Sequence[str],
    forbidden: Sequence[str],
    protected: Sequence[str] = PROTECTED,
) -> list[Violation]:
    """What is wrong with the changes, at most one violation a path, in the order given.

    Empty `allowed` means everything that is neither forbidden nor protected. A symlink is let through only
    where `allowed` names exactly its path, because its target is not looked at; a gitlink never is.
    Changes of the executable bit are no violation.
    """
    found = []
    for change in changed:
        rule = _broken(change, allowed, forbidden, protected)
        if rule is not None:
            found.append(Violation(change.path, *rule))
    return found


def _broken(
    change: Change, allowed: Sequence[str], forbidden: Sequence[str], protected: Sequence[str]
) -> tuple[Rule, str] | None:
    path = change.path
    if {"", ".", ".."} & set(path.split("/")):
        return "malformed", "not a plain path inside the repository"
    # Some file systems take .GIT for .git.
    if pattern := _first(path.casefold(), [each.casefold() for each in protected]):
        return "protected", f"{pattern} is protected"
    if _GITLINK in (change.old_mode, change.new_mode):
        return "gitlink", "nested repositories and submodules may not be added or changed"
    if pattern := _first(path, forbidden):
        return "forbidden", f"the plan forbids {pattern}"
    if allowed and not _first(path, allowed):
        return "outside", "outside the areas that the plan allows"
    if change.new_mode == _SYMLINK and path not in allowed:
        return "symlink", "a symbolic link needs its exact path among the allowed areas"
    return None


def _first(path: str, patterns: Sequence[str]) -> str:
    return next((pattern for pattern in patterns if matches(pattern, path)), "")


def matches(pattern: str, path: str) -> bool:
    """Say whether the pattern covers the path; takes time linear in each for a fixed other."""
    return _covers(_segments(pattern), tuple(path.split("/")))


@functools.lru_cache(maxsize=1024)
def _segments(pattern: str) -> tuple[str, ...]:
    below = pattern.endswith("/")
    segments = [each for each in pattern.split("/") if each not in ("", ".")]
    if not segments:
        return ("**",) if pattern else ()
    if segments[-1] != "**":
        if below:
            return (*segments, "**")
        if not any(char in segments[-1] for char in _WILD):
            # An empty segment stands for the path itself or anything below it.
            return (*segments, "")
    return tuple(segments)


def _covers(segments: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Follow all ways through the pattern at once: `open_at` are the segments that may come next."""
    open_at = _spread({0}, segments)
    for part in path:
        following: set[int] = set()
        for at in open_at:
            if at >= len(segments):
                continue
            if segments[at] in ("**", ""):
                following.add(at)
                if at == len(segments) - 1:
                    following.add(len(segments))
            elif _segment_matches(segments[at], part):
                following.add(at + 1)
        open_at = _spread(following, segments)
    return len(segments) in open_at


def _spread(positions: set[int], segments: tuple[str, ...]) -> set[int]:
    """Add the positions reachable without a path segment: `**` may be none, except at the end."""
    spread = set(positions)
    for at in sorted(positions):
        while at < len(segments) and (
            segments[at] == "" or (segments[at] == "**" and at < len(segments) - 1)
        ):
            at += 1
            spread.add(at)
    return spread


def _segment_matches(pattern: str, text: str) -> bool:
    """Match one segment, returning to the last star on a mismatch: enough, as a star takes anything."""
    tokens = _tokens(pattern)
    at = token = 0
    star = star_at = -1
    while at < len(text):
        if token < len(tokens) and tokens[token] is None:
            star, star_at = token, at
            token += 1
        elif token < len(tokens) and _accepts(tokens[token], text[at]):
            token += 1
            at += 1
        elif star >= 0:
            star_at += 1
            token, at = star + 1, star_at
        else:
            return False
    return all(each is None for each in tokens[token:])


class _Set(msgspec.Struct, frozen=True):
    """One character of these ranges, or none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool


def _accepts(token: _Set | None, char: str) -> bool:
    return token is not None and any(low <= char <= high for low, high in token.ranges) != token.negated


@functools.lru_cache(maxsize=1024)
def _tokens(pattern: str) -> tuple[_Set | None, ...]:
    """The segment as sets of characters, with None for a star."""
    tokens: list[_Set | None] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            tokens.append(None)
        elif char == "?":
            tokens.append(_Set((), True))
        elif char == "[" and (end := _class_end(pattern, at)) > 0:
            tokens.append(_class(pattern[at + 1 : end]))
            at = end
        else:
            if char == "\\" and at + 1 < len(pattern):
                at += 1
            tokens.append(_Set(((pattern[at], pattern[at]),), False))
        at += 1
    return tuple(tokens)


def _class_end(pattern: str, start: int) -> int:
    """Where the bracket closes; a bracket right after the opening is one of its characters."""
    first = start + 2 if pattern[start + 1 : start + 2] in ("!", "^") else start + 1
    return pattern.find("]", first + 1)


def _class(inner: str) -> _Set:
    negated = inner[:1] in ("!", "^")
    body = inner[1:] if negated else inner
    ranges = []
    at = 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            ranges.append((body[at], body[at + 2]))
            at += 3
        else:
            ranges.append((body[at], body[at]))
            at += 1
    return _Set(tuple(ranges), negated)
