"""The messages, made from the server's document by `make generate`: not to be edited."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from singularity_memory.client.message import Message


class Answer(Message, frozen=True):
    """The entries found, best first; degraded says that a part of the search was left out, and reason why."""

    entries: list[Hit]
    degraded: bool
    reason: str


Bank: TypeAlias = Annotated[
    str,
    Meta(
        description="The bank's name, such as `project/0123456789abcdef` or `global/coding`.",
        examples=["global/coding"],
        max_length=512,
        min_length=1,
        pattern="^[^\\x00-\\x1f\\x7f]+$",
    ),
]


class BankStats(Message, frozen=True):
    """How much a bank holds, and of what kind."""

    bank: str
    entries: int
    negative: int
    unembedded: int
    tiers: dict[str, int]
    maturity: dict[str, int]


class BanksAnswer(Message, frozen=True):
    """The banks that the token may read."""

    banks: list[BankStats]


DeadlineMs: TypeAlias = Annotated[float, Meta(ge=0.0, le=60000.0)]


DocumentId: TypeAlias = Annotated[
    str,
    Meta(
        description="A document's id.",
        max_length=512,
        min_length=1,
        pattern="^[^\\x00]*$",
    ),
]


class Draft(Message, frozen=True):
    """What somebody wants retained; without a document_id it is known by its content."""

    content: str
    document_id: str | UnsetType = ""
    tags: list[str] | UnsetType = field(default_factory=list)
    metadata: dict[str, Any] | UnsetType = field(default_factory=dict)


class EntryAnswer(Message, frozen=True):
    """The entry that was changed."""

    id: str


class Explanation(Message, frozen=True):
    """The parts that a result's score is made of: score = fused × maturity_weight × decay."""

    fused: float
    lexical_rank: int | None
    lexical_score: float
    coverage: float
    semantic_rank: int | None
    similarity: float | None
    lexical_share: float
    maturity: Literal["candidate", "deprecated", "established", "negative", "proven"]
    maturity_weight: float
    decay: float
    age_days: float
    half_life_days: float
    tier: Literal["cold", "hot", "warm"]
    negative: bool
    matched: list[str]


class ExportAnswer(Message, frozen=True):
    """Entries, and where the next part begins; null when there is none."""

    lines: list[Line]
    next: int | None


class ExportRequest(Message, frozen=True):
    """A part of a bank's entries with their history, from the beginning or after what was given before."""

    bank: Annotated[
        str,
        Meta(
            description="The bank's name, such as `project/0123456789abcdef` or `global/coding`.",
            examples=["global/coding"],
            max_length=512,
            min_length=1,
            pattern="^[^\\x00-\\x1f\\x7f]+$",
        ),
    ]
    after: Annotated[int, Meta(description="`next` of the part before.", ge=0)] | UnsetType = 0
    limit: Annotated[int, Meta(ge=1, le=200)] | UnsetType = 200


class Fault(Message, frozen=True):
    """What went wrong: a stable code to match on, and one line for people."""

    code: str
    message: str


class FaultAnswer(Message, frozen=True):
    """The body of every answer that is not a success."""

    error: Fault


class FeedbackRequest(Message, frozen=True):
    """How an entry served: 1 it helped, 0 nothing, -1 it harmed."""

    id: Annotated[
        str,
        Meta(
            description="An entry's id.",
            max_length=512,
            min_length=1,
            pattern="^[^\\x00]*$",
        ),
    ]
    signal: Literal[-1, 0, 1]
    bank: Bank | UnsetType | None = UNSET


class ForgetAnswer(Message, frozen=True):
    """How many entries were removed."""

    forgotten: int


class ForgetRequest(Message, frozen=True):
    """Entries to remove from a bank: those named, and those that match the filter. Something must be said."""

    bank: Annotated[
        str,
        Meta(
            description="The bank's name, such as `project/0123456789abcdef` or `global/coding`.",
            examples=["global/coding"],
            max_length=512,
            min_length=1,
            pattern="^[^\\x00-\\x1f\\x7f]+$",
        ),
    ]
    ids: Annotated[list[Id], Meta(max_length=1000)] | UnsetType = field(default_factory=list)
    document_ids: Annotated[list[DocumentId], Meta(max_length=1000)] | UnsetType = field(default_factory=list)
    filter: dict[str, str | bool | int | float | list[str]] | UnsetType | None = UNSET


class HealthAnswer(Message, frozen=True):
    """Whether the memory answers; all but `ok` is told to a token of every bank only."""

    ok: bool
    reason: str | UnsetType = ""
    store: str | UnsetType | None = UNSET
    embedder: str | UnsetType | None = UNSET
    dimension: int | UnsetType | None = UNSET
    banks: int | UnsetType | None = UNSET
    entries: int | UnsetType | None = UNSET
    unembedded: int | UnsetType | None = UNSET


class Hit(Message, frozen=True):
    """One entry that was recalled."""

    id: str
    document_id: str
    content: str
    tags: list[str]
    metadata: dict[str, Any]
    score: float
    explanation: Explanation


Id: TypeAlias = Annotated[
    str,
    Meta(
        description="An entry's id.",
        max_length=512,
        min_length=1,
        pattern="^[^\\x00]*$",
    ),
]


class ImportAnswer(Message, frozen=True):
    """What became of each line; those that were refused come first."""

    entries: list[Retained]


class ImportRequest(Message, frozen=True):
    """Exported entries to bring into a bank, with their history."""

    bank: Annotated[
        str,
        Meta(
            description="The bank's name, such as `project/0123456789abcdef` or `global/coding`.",
            examples=["global/coding"],
            max_length=512,
            min_length=1,
            pattern="^[^\\x00-\\x1f\\x7f]+$",
        ),
    ]
    lines: Annotated[list[Line], Meta(max_length=200, min_length=1)]


class Line(Message, frozen=True):
    """What a line says; without a standing the entry begins anew."""

    content: str
    document_id: str | UnsetType = ""
    tags: list[str] | UnsetType = field(default_factory=list)
    metadata: dict[str, Any] | UnsetType = field(default_factory=dict)
    standing: Standing | UnsetType | None = UNSET


class RecallRequest(Message, frozen=True):
    """A question to a bank."""

    bank: Annotated[
        str,
        Meta(
            description="The bank's name, such as `project/0123456789abcdef` or `global/coding`.",
            examples=["global/coding"],
            max_length=512,
            min_length=1,
            pattern="^[^\\x00-\\x1f\\x7f]+$",
        ),
    ]
    query: Annotated[str, Meta(description="What is sought.", max_length=10000, min_length=1)]
    top_k: Annotated[int, Meta(description="At most so many entries.", ge=1, le=100)] | UnsetType = 5
    filter: (
        Annotated[
            dict[str, str | bool | int | float | list[str]],
            Meta(description="`tags`: a list, all of them; another key: tag `key:value` or metadata."),
        ]
        | UnsetType
    ) = field(default_factory=dict)
    rerank_quality: (
        Annotated[
            Literal["accurate", "fast"],
            Meta(description="`accurate` may take more time."),
        ]
        | UnsetType
    ) = "fast"
    deadline_ms: DeadlineMs | UnsetType | None = UNSET


class RetainAnswer(Message, frozen=True):
    """What became of each entry, in order. What is stored or updated is on disk."""

    entries: list[Retained]


class RetainRequest(Message, frozen=True):
    """Entries to keep in a bank. Without a document_id an entry is known by its content."""

    bank: Annotated[
        str,
        Meta(
            description="The bank's name, such as `project/0123456789abcdef` or `global/coding`.",
            examples=["global/coding"],
            max_length=512,
            min_length=1,
            pattern="^[^\\x00-\\x1f\\x7f]+$",
        ),
    ]
    entries: Annotated[list[Draft], Meta(max_length=200, min_length=1)]


class Retained(Message, frozen=True):
    """What became of a draft; a refusal always has a reason, and then there is no id."""

    document_id: str
    id: str
    status: Literal["refused", "stored", "updated"]
    reason: str


class Standing(Message, frozen=True):
    """What happened to an entry so far."""

    created_at: Annotated[float, Meta(ge=0.0, le=1000000000000.0)]
    updated_at: Annotated[float, Meta(ge=0.0, le=1000000000000.0)]
    fresh_at: Annotated[float, Meta(ge=0.0, le=1000000000000.0)]
    observations: Annotated[int, Meta(ge=0, le=9007199254740992)] | UnsetType = 1
    helpful: Annotated[int, Meta(ge=0, le=9007199254740992)] | UnsetType = 0
    harmful: Annotated[int, Meta(ge=0, le=9007199254740992)] | UnsetType = 0
    helpful_score: Annotated[float, Meta(ge=0.0, le=1000000000000.0)] | UnsetType = 0.0
    helpful_at: Annotated[float, Meta(ge=0.0, le=1000000000000.0)] | UnsetType = 0.0
    accesses: Annotated[int, Meta(ge=0, le=9007199254740992)] | UnsetType = 0
    accessed_at: Annotated[float, Meta(ge=0.0, le=1000000000000.0)] | UnsetType = 0.0


class ValidateRequest(Message, frozen=True):
    """An entry still holds: its decay begins anew."""

    id: Annotated[
        str,
        Meta(
            description="An entry's id.",
            max_length=512,
            min_length=1,
            pattern="^[^\\x00]*$",
        ),
    ]
    bank: Bank | UnsetType | None = UNSET
