"""What callers say and what they are told: frozen, closed to unknown fields, JSON-able."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Quality = Literal["fast", "accurate"]
Status = Literal["stored", "updated", "refused"]
Maturity = Literal["candidate", "established", "proven", "deprecated", "negative"]
Tier = Literal["hot", "warm", "cold"]
Filter = Mapping[str, Any]

ANTI_PATTERN_TAGS = ("collection:anti_patterns", "is_negative:true")
NEGATIVE_TAG = "is_negative:true"


class Draft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody wants retained; without a document_id it is known by its content."""

    content: str
    document_id: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


class Retained(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of a draft; a refusal always has a reason, and then there is no id."""

    document_id: str
    id: str
    status: Status
    reason: str = ""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question to a bank; without a deadline it takes the time it needs."""

    bank: str
    text: str
    top_k: int = 5
    filter: dict[str, Any] = {}
    rerank_quality: Quality = "fast"
    deadline_ms: float | None = None


class Explanation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parts that a result's score is made of: score = fused × maturity_weight × decay."""

    fused: float
    lexical_rank: int | None
    lexical_score: float
    coverage: float
    semantic_rank: int | None
    similarity: float | None
    lexical_share: float
    maturity: Maturity
    maturity_weight: float
    decay: float
    age_days: float
    half_life_days: float
    tier: Tier
    negative: bool
    matched: tuple[str, ...] = ()


class Hit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry that was recalled."""

    id: str
    document_id: str
    content: str
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    score: float
    explanation: Explanation


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entries found, best first; degraded says that a part of the search was left out, and reason why."""

    entries: tuple[Hit, ...]
    degraded: bool = False
    reason: str = ""


class BankStats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much a bank holds, and of what kind."""

    bank: str
    entries: int
    negative: int
    unembedded: int
    tiers: dict[str, int]
    maturity: dict[str, int]


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the memory answers, and with what."""

    ok: bool
    store: str
    embedder: str
    dimension: int
    banks: int
    entries: int
    unembedded: int
    reason: str = ""
