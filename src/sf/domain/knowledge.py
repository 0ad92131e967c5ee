"""What is known beyond one unit: lessons to keep, entries recalled, and how they are worded."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sf.domain.excerpt import head_and_tail, one_line

GLOBAL_BANK = "global/coding"
TELLING = 0.02
"""The score below which an entry has nothing to do with a question; 1 says it in so many words."""
ANTI_PATTERN_TAGS = ("collection:anti_patterns", "is_negative:true")
_SCP_LIKE = re.compile(r"(?:[^@/\s]+@)?([^:/\s]+):(?!//)(\S+)")
_HELPED = re.compile(r"<memory\b([^<>]*)/?>", re.IGNORECASE)
_MOST_PATHS = 12


class Lesson(msgspec.Struct, frozen=True):
    """Something to be kept; the same document_id, or the same content, replaces what was kept before."""

    content: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    document_id: str = ""


class Entry(msgspec.Struct, frozen=True):
    """Something that was kept, as a recall found it."""

    id: str
    content: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    score: float = 0.0
    document_id: str = ""
    bank: str = ""

    @property
    def is_negative(self) -> bool:
        """Whether it says what not to do."""
        return "is_negative:true" in self.tags


class AntiPattern(msgspec.Struct, frozen=True):
    """A mistake that was made, where it applies, and what to do instead; the same mistake has the same id."""

    id: str
    description: str
    context: str
    correct_path: str = ""
    source_unit: str = ""

    def lesson(self) -> Lesson:
        """As it is kept."""
        return Lesson(
            anti_pattern_text(self.description, self.context, self.correct_path),
            ANTI_PATTERN_TAGS,
            {"source_unit": self.source_unit} if self.source_unit else {},
            self.id,
        )


def anti_pattern_text(description: str, context: str, correct_path: str) -> str:
    """An anti-pattern in words."""
    parts = [description.strip(), f"When: {context.strip()}" if context.strip() else ""]
    parts.append(f"Instead: {correct_path.strip()}" if correct_path.strip() else "")
    return "\n".join(part for part in parts if part)


def project_bank(project_hash: str) -> str:
    """The bank of one project."""
    return f"project/{project_hash}"


def canonical_remote(url: str) -> str:
    """A remote's address without login, port and ending, so that every way to clone it is the same one."""
    text = url.strip()
    scp = None if "://" in text else _SCP_LIKE.fullmatch(text)
    if scp is not None:
        host, path = scp[1], scp[2]
    elif "://" in text:
        parts = urlsplit(text)
        host, path = parts.hostname or "", parts.path
    else:
        host, path = "", text
    path = path.rstrip("/").removesuffix(".git").rstrip("/")
    return f"{host.lower()}/{path.lstrip('/')}" if host else path


def project_hash(source: str) -> str:
    """The name of a project's bank, from its remote or else its place."""
    return hashlib.sha256(source.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def merged(found: Sequence[Sequence[Entry]], most: int) -> list[Entry]:
    """The best of several banks; what says the same is taken once, from where it scored best."""
    best: dict[str, Entry] = {}
    for entry in sorted((e for entries in found for e in entries), key=lambda e: -e.score):
        best.setdefault(" ".join(entry.content.split()).casefold(), entry)
    return list(best.values())[:most]


def learned(title: str, goal: str, said: str, paths: Sequence[str], gates: Sequence[str]) -> str:
    """What a piece of work that was done leaves to know: what, how in the agent's words, where, and proof."""
    shown = ", ".join(paths[:_MOST_PATHS]) + (
        f" and {len(paths) - _MOST_PATHS} more" if paths[_MOST_PATHS:] else ""
    )
    parts = [f"Done: {title.strip()}."]
    if goal and goal.strip() != title.strip():
        parts.append(one_line(goal, 300))
    if said:
        parts.append(head_and_tail(said.strip(), 900, "…"))
    if shown:
        parts.append(f"Files: {shown}.")
    if gates:
        parts.append(f"Proven by: {', '.join(gates)}.")
    return "\n".join(parts)


def abandoned(title: str, reason: str) -> str:
    """What is to be known of work that was given up."""
    return f"Not done: {title.strip()}. It was given up: {one_line(reason, 500)}"


def verdicts(text: str) -> dict[str, int]:
    """What an agent said of what it was told: entry ids that helped (+1) or misled (−1).

    It writes `<memory helped="id id" wrong="id"/>` into its last words.
    """
    found: dict[str, int] = {}
    for attributes in _HELPED.findall(text):
        for name, signal in (("helped", 1), ("wrong", -1)):
            match = re.search(rf'{name}\s*=\s*"([^"]*)"', attributes)
            for entry_id in re.split(r"[\s,]+", match[1]) if match else ():
                if entry_id:
                    found[entry_id] = signal
    return found


def without_verdicts(text: str) -> str:
    """What an agent said, without what it said of its memory."""
    return _HELPED.sub("", text).strip()


def tagged(*tags: str) -> tuple[str, ...]:
    """Tags without the empty and the doubled ones."""
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def gate_mistake(gate: str, output: str, title: str, unit_id: str) -> AntiPattern:
    """The mistake behind a gate's refusal, known by the gate and the first thing that it complained of."""
    complaint = _complaint(output)
    return AntiPattern(
        id=mistake_id(f"gate {gate}: {re.sub(r'[0-9]+', '#', complaint)}"),
        description=f"The gate {gate} refused: {complaint}",
        context=f"work such as “{one_line(title, 160)}”",
        source_unit=unit_id,
    )


def mistake_id(what: str) -> str:
    """The lasting name of a mistake, from what makes two of them the same."""
    return "anti-" + hashlib.sha256(what.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _complaint(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [
        line for line in lines if re.search(r"error|fail|assert|exception|expected|missing", line, re.I)
    ]
    chosen: Iterable[str] = (telling or lines)[-3:]
    return one_line("; ".join(chosen), 400) or "it said nothing"
