"""Sets of texts and questions for judging a memory, the same on every run.

Conversations and what was said in them, lessons and their paraphrases, functions of the standard library and
what they do, and a few words of each.
"""

from __future__ import annotations

import ast
import itertools
import json
import random
import re
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from singularity_memory import words

_MATTER = json.loads(Path(__file__).with_name("memory_matter.json").read_text(encoding="utf-8"))
_NAME = re.compile(r"[A-Za-z_]{3,}")
_PAIRS = 12
_SESSIONS = 15
_TURNS = 16
_QUERIES = 400
_MOST = 3
"""A question that more texts answer is not asked."""


class Asked(NamedTuple):
    """A question and the numbers of the texts that answer it."""

    text: str
    relevant: frozenset[int]


class Judged(NamedTuple):
    """Texts, and questions about them."""

    name: str
    texts: tuple[str, ...]
    asked: tuple[Asked, ...]


def every() -> list[Judged]:
    """All sets."""
    talk, told = conversations()
    lessons, names = notes()
    code, prose = library()
    return [
        talk,
        few_words(talk, 2),
        few_words(talk, 4),
        told,
        lessons,
        names,
        code,
        few_words(code, 3),
        prose,
        few_words(prose, 2),
    ]


# --- conversations -----------------------------------------------------------------------------------


class _Turn(NamedTuple):
    session: int
    text: str
    questions: tuple[str, ...]


def conversations() -> tuple[Judged, Judged]:
    """Pairs of people over many sessions: every turn a text, and every session a text."""
    turns = list(_turns(random.Random(41)))
    by_turn: defaultdict[str, set[int]] = defaultdict(set)
    by_session: defaultdict[str, set[int]] = defaultdict(set)
    for number, turn in enumerate(turns):
        for question in turn.questions:
            by_turn[question].add(number)
            by_session[question].add(turn.session)
    sessions = itertools.groupby(turns, key=lambda turn: turn.session)
    whole = ["\n".join(turn.text for turn in group) for _, group in sessions]
    return (
        Judged("turns", tuple(turn.text for turn in turns), _some(by_turn)),
        Judged("sessions", tuple(whole), _some(by_session)),
    )


def _turns(source: random.Random) -> Iterator[_Turn]:
    people = source.sample(_MATTER["people"], 2 * _PAIRS)
    for session in range(_PAIRS * _SESSIONS):
        pair = people[2 * (session // _SESSIONS) :][:2]
        for number in range(_TURNS):
            yield _turn(source, session, pair[number % 2], pair[1 - number % 2])


def _turn(source: random.Random, session: int, speaker: str, other: str) -> _Turn:
    slots = {name: source.choice(values) for name, values in _MATTER["slots"].items()}
    slots |= {"n": speaker, "m": other}
    kind = source.random()
    if kind >= 0.5:
        said = source.choice(_MATTER["chatter"])
        return _Turn(session, f"{speaker}: {said.format(**slots)}", ())
    event = source.choice(_MATTER["events"])
    if kind >= 0.3:
        return _Turn(session, f"{speaker}: {event['aside'].format(**slots)}", ())
    said = f"{source.choice(_MATTER['openings'])} {event['said']} {source.choice(_MATTER['endings'])}"
    questions = tuple(question.format(**slots) for question in event["asked"])
    return _Turn(session, f"{speaker}: {said.format(**slots).strip()}", questions)


# --- lessons -----------------------------------------------------------------------------------------


def notes() -> tuple[Judged, Judged]:
    """Lessons about code, asked for in other words, and by the names that are in them."""
    source = random.Random(43)
    pairs = list(itertools.product(_MATTER["parts"], _MATTER["troubles"]))
    source.shuffle(pairs)
    texts, likenesses, names = [], [], []
    for number, (part, trouble) in enumerate(pairs[:_QUERIES]):
        remedy = source.choice(_MATTER["remedies"])
        texts.append(f"{part['name']} {trouble['told']}; {remedy}")
        likenesses.append(Asked(f"{part['meant']} {trouble['meant']}", frozenset({number})))
        names.append(Asked(f"{part['identifier']} {trouble['key']}", frozenset({number})))
    return (
        Judged("lessons, in other words", tuple(texts), tuple(likenesses)),
        Judged("lessons, by name", tuple(texts), tuple(names)),
    )


# --- the standard library ----------------------------------------------------------------------------


def library() -> tuple[Judged, Judged]:
    """Functions without what is said about them, asked for by that; what is said, by its first sentence."""
    found = sorted(set(_functions(Path(sysconfig.get_path("stdlib")))))
    random.Random(47).shuffle(found)
    code = found[:2000]
    prose = [(first, rest) for first, rest, _ in found if len(rest.split()) >= 12][:1200]
    return (
        Judged("functions", tuple(body for _, _, body in code), _each([first for first, _, _ in code])),
        Judged("prose", tuple(rest for _, rest in prose), _each([first for first, _ in prose])),
    )


def _functions(root: Path) -> Iterator[tuple[str, str, str]]:
    for file in sorted(root.glob("*.py")) + sorted(root.glob("[a-z]*/*.py")):
        if {"site-packages", "test", "idlelib", "lib2to3"} & set(file.parts):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _function(node)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str, str]]:
    said = ast.get_docstring(node) or ""
    first, *rest = re.split(r"\n\s*\n|(?<=\.)\s", said, maxsplit=1)
    first = " ".join(first.split())
    if not 4 <= len(first.split()) <= 25 or len(node.body) < 3:
        return
    node.body = node.body[1:]
    body = ast.unparse(node)
    if len(body) < 3000:
        yield first, " ".join(" ".join(rest).split()), body


# --- questions ---------------------------------------------------------------------------------------


def few_words(judged: Judged, count: int) -> Judged:
    """The same texts, asked for by a few words that are in one: neither the commonest nor the rarest."""
    source = random.Random(53 + count)
    cut = [{word.lower() for word in _NAME.findall(text)} - words.STOP for text in judged.texts]
    having: defaultdict[str, set[int]] = defaultdict(set)
    for number, each in enumerate(cut):
        for word in each:
            having[word].add(number)
    asked: dict[str, frozenset[int]] = {}
    for number in source.sample(range(len(cut)), len(cut)):
        telling = sorted(word for word in cut[number] if 2 <= len(having[word]) <= 0.03 * len(cut))
        if len(telling) >= max(count, 3):
            chosen = source.sample(telling, count)
            asked[" ".join(chosen)] = frozenset.intersection(*(frozenset(having[word]) for word in chosen))
    fair = [Asked(text, relevant) for text, relevant in asked.items() if len(relevant) <= _MOST]
    return Judged(f"{judged.name}, {count} words", judged.texts, tuple(fair[:_QUERIES]))


def _some(found: dict[str, set[int]]) -> tuple[Asked, ...]:
    asked = [Asked(text, frozenset(relevant)) for text, relevant in found.items() if len(relevant) <= _MOST]
    random.Random(59).shuffle(asked)
    return tuple(asked[:_QUERIES])


def _each(questions: Sequence[str]) -> tuple[Asked, ...]:
    number = {question: index for index, question in enumerate(questions)}
    return tuple(Asked(question, frozenset({index})) for question, index in number.items())[:_QUERIES]
