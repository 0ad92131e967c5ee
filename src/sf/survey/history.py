"""How a repository moves: where it is active, what changes together, who works on it."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from sf.domain.past import PastCommit
from sf.survey.structure import areas_of
from sf.survey.wording import plain, shown

MAX_COMMITS = 5_000
_DAY = 86_400
_HALF_LIFE = 90 * _DAY
_HUGE = 40
"""Files of a commit beyond which it says nothing about which of them belong together."""
_PAIRS = 400_000
_SUPPORT, _CONFIDENCE = 3, 0.5
_MOST = 15
_TOUCHED = 2_000


class Area(msgspec.Struct, frozen=True):
    """A folder or file by how much it changes; `weight` halves for every 90 days before the newest commit."""

    path: str
    commits: int
    weight: float


class Pair(msgspec.Struct, frozen=True):
    """Two files that change together: in how many commits, and in which part of those of the rarer one."""

    first: str
    second: str
    support: int
    confidence: float


class Contributor(msgspec.Struct, frozen=True):
    """A name, its commits, and those of the last 90 days before the newest."""

    name: str
    commits: int
    recent: int


class Past(msgspec.Struct, frozen=True):
    """What the newest commits tell, merges left out."""

    commits: int = 0
    complete: bool = True
    """Whether these are all commits there are."""
    since: str = ""
    until: str = ""
    areas: tuple[Area, ...] = ()
    hot_files: tuple[Area, ...] = ()
    pairs: tuple[Pair, ...] = ()
    people: int = 0
    """How many names the commits have."""
    contributors: tuple[Contributor, ...] = ()
    subjects: tuple[str, ...] = ()
    typical_size: int = 0
    """Files in the median commit."""
    style: str = ""
    """How subjects are written, where most keep to one form."""


def past_of(
    commits: Sequence[PastCommit], present: Collection[str], *, complete: bool = True, now: int | None = None
) -> Past:
    """What commits, newest first, tell about the files that are there now. A date after `now` is now."""
    if not commits:
        return Past()
    newest = max(commit.at for commit in commits)
    newest = newest if now is None else min(newest, now)
    weights = [0.5 ** (max(0, newest - commit.at) / _HALF_LIFE) for commit in commits]
    return Past(
        commits=len(commits),
        complete=complete,
        since=_date(min(commit.at for commit in commits)),
        until=_date(newest),
        areas=_areas(commits, weights, present),
        hot_files=_hot(commits, weights, present),
        pairs=pairs_of(commits, present),
        people=len({_person(commit.author) for commit in commits}),
        contributors=_contributors(commits, newest),
        subjects=tuple(plain(commit.subject, 100) for commit in commits[:10]),
        typical_size=int(statistics.median(len(commit.paths) for commit in commits)),
        style=_style([commit.subject for commit in commits[:200]]),
    )


def _date(at: int) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return "an impossible date"


def _areas(
    commits: Sequence[PastCommit], weights: Sequence[float], present: Collection[str]
) -> tuple[Area, ...]:
    area, count, weight = areas_of(present), Counter[str](), defaultdict[str, float](float)
    there = {area(path) for path in present}
    for commit, worth in zip(commits, weights, strict=True):
        for folder in {area(path) for path in commit.paths[:_TOUCHED]} & there - {""}:
            count[folder] += 1
            weight[folder] += worth
    return _ranked([folder for folder in weight if count[folder] > 1], count, weight)


def _hot(
    commits: Sequence[PastCommit], weights: Sequence[float], present: Collection[str]
) -> tuple[Area, ...]:
    count, weight = Counter[str](), defaultdict[str, float](float)
    for commit, worth in zip(commits, weights, strict=True):
        if len(commit.paths) <= _HUGE:
            for path in dict.fromkeys(commit.paths):
                if path in present:
                    count[path] += 1
                    weight[path] += worth
    return _ranked([path for path in weight if count[path] > 1], count, weight)


def _ranked(paths: list[str], count: Mapping[str, int], weight: Mapping[str, float]) -> tuple[Area, ...]:
    first = sorted(paths, key=lambda path: (-weight[path], path))[:_MOST]
    return tuple(Area(shown(path), count[path], round(weight[path], 2)) for path in first)


def pairs_of(commits: Sequence[PastCommit], present: Collection[str]) -> tuple[Pair, ...]:
    """The files that change together more often than not, the best supported first; no file in many pairs."""
    changes: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for commit in commits:
        paths = sorted({path for path in commit.paths if path in present})
        if len(commit.paths) > _HUGE:
            continue
        changes.update(paths)
        if len(together) < _PAIRS:
            together.update(itertools.combinations(paths, 2))
    found = []
    for (first, second), support in together.items():
        confidence = support / min(changes[first], changes[second])
        if support >= _SUPPORT and confidence >= _CONFIDENCE:
            found.append((support * confidence, first, second, support, confidence))
    found.sort(key=lambda item: (-item[0], item[1], item[2]))
    seen: Counter[str] = Counter()
    kept: list[Pair] = []
    for _, first, second, support, confidence in found:
        if seen[first] < 3 and seen[second] < 3 and len(kept) < _MOST * 2:
            seen.update((first, second))
            kept.append(Pair(shown(first), shown(second), support, round(confidence, 2)))
    return tuple(kept)


def _contributors(commits: Sequence[PastCommit], newest: int) -> tuple[Contributor, ...]:
    count: Counter[str] = Counter()
    recent: Counter[str] = Counter()
    for commit in commits:
        name = _person(commit.author)
        count[name] += 1
        recent[name] += commit.at >= newest - _HALF_LIFE
    ranked = sorted(count, key=lambda name: (-count[name], name))[:_MOST]
    return tuple(Contributor(name, count[name], recent[name]) for name in ranked)


def _person(author: str) -> str:
    """A name without what follows an @: some people are known to git by their address alone."""
    return plain(" ".join(word.split("@")[0] for word in author.split()), 60) or "(no name)"


def _style(subjects: Sequence[str]) -> str:
    """The form that at least seven in ten subjects have; empty when they have none in common."""
    forms: defaultdict[str, int] = defaultdict(int)
    for subject in subjects:
        head, colon, _ = subject.partition(": ")
        kind = head.partition("(")[0].rstrip("!")
        if colon and kind in _CONVENTIONAL:
            forms["Conventional Commits (type: subject)"] += 1
        elif colon and " " not in head:
            forms["an area and a colon before the subject"] += 1
        elif subject[:1].isupper():
            forms["a plain sentence with a capital letter"] += 1
        elif subject[:1].islower():
            forms["a plain sentence in lower case"] += 1
    best = max(forms, key=lambda form: forms[form], default="")
    return best if len(subjects) >= 5 and best and forms[best] >= 0.7 * len(subjects) else ""


_CONVENTIONAL = frozenset(
    ("feat", "fix", "docs", "chore", "refactor", "test", "tests", "style", "perf", "build", "ci", "revert")
)
