"""What goes over the wire: one struct for each request and each answer, with the limits of every field."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from singularity_memory.lines import Line
from singularity_memory.model import Answer, BankStats, Draft, Quality, Retained

MOST_ENTRIES = 200
MOST_RESULTS = 100
MOST_IDS = 1_000
MOST_WORDS = 200
LONGEST_NAME = 512
LONGEST_QUERY = 10_000
LONGEST_DEADLINE_MS = 60_000

_NO_CONTROLS = r"^[^\x00-\x1f\x7f]+$"
Bank = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_NAME,
        pattern=_NO_CONTROLS,
        description="The bank's name, such as `project/0123456789abcdef` or `global/coding`.",
        examples=["global/coding"],
    ),
]
_NO_NUL = r"^[^\x00]*$"
EntryId = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=_NO_NUL, description="An entry's id.")
]
DocumentId = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=_NO_NUL, description="A document's id.")
]
FilterValue = str | bool | int | float | list[str]
Filter = Annotated[
    dict[str, FilterValue],
    Meta(description="`tags`: a list, all of them; another key: tag `key:value` or metadata."),
]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that goes over the wire."""


class RetainRequest(Message, frozen=True, forbid_unknown_fields=True):
    """Entries to keep in a bank. Without a document_id an entry is known by its content."""

    bank: Bank
    entries: Annotated[list[Draft], Meta(min_length=1, max_length=MOST_ENTRIES)]


class RetainAnswer(Message, frozen=True, forbid_unknown_fields=True):
    """What became of each entry, in order. What is stored or updated is on disk."""

    entries: list[Retained]


class RecallRequest(Message, frozen=True, forbid_unknown_fields=True):
    """A question to a bank."""

    bank: Bank
    query: Annotated[str, Meta(min_length=1, max_length=LONGEST_QUERY, description="What is sought.")]
    top_k: Annotated[int, Meta(ge=1, le=MOST_RESULTS, description="At most so many entries.")] = 5
    filter: Filter = {}
    rerank_quality: Annotated[Quality, Meta(description="`accurate` may take more time.")] = "fast"
    deadline_ms: Annotated[float, Meta(ge=0, le=LONGEST_DEADLINE_MS)] | None = None
    """Counted from the request's arrival; the answer is what can be said by then."""

    def __post_init__(self) -> None:
        _check_filter(self.filter)


class FeedbackRequest(Message, frozen=True, forbid_unknown_fields=True):
    """How an entry served: 1 it helped, 0 nothing, -1 it harmed."""

    id: EntryId
    signal: Literal[-1, 0, 1]
    bank: Bank | None = None


class ValidateRequest(Message, frozen=True, forbid_unknown_fields=True):
    """An entry still holds: its decay begins anew."""

    id: EntryId
    bank: Bank | None = None


class EntryAnswer(Message, frozen=True, forbid_unknown_fields=True):
    """The entry that was changed."""

    id: str


class ForgetRequest(Message, frozen=True, forbid_unknown_fields=True):
    """Entries to remove from a bank: those named, and those that match the filter. Something must be said."""

    bank: Bank
    ids: Annotated[list[EntryId], Meta(max_length=MOST_IDS)] = []
    document_ids: Annotated[list[DocumentId], Meta(max_length=MOST_IDS)] = []
    filter: Filter | None = None

    def __post_init__(self) -> None:
        if not (self.ids or self.document_ids or self.filter):
            raise ValueError("Expected `ids`, `document_ids` or a `filter` that is not empty")
        if self.filter and all(value == [] for value in self.filter.values()):
            raise ValueError("Expected a `filter` that asks for something: this one fits every entry")
        _check_filter(self.filter or {})


class ForgetAnswer(Message, frozen=True, forbid_unknown_fields=True):
    """How many entries were removed."""

    forgotten: int


class ExportRequest(Message, frozen=True, forbid_unknown_fields=True):
    """A part of a bank's entries with their history, from the beginning or after what was given before."""

    bank: Bank
    after: Annotated[int, Meta(ge=0, description="`next` of the part before.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MOST_ENTRIES)] = MOST_ENTRIES


class ExportAnswer(Message, frozen=True, forbid_unknown_fields=True):
    """Entries, and where the next part begins; null when there is none."""

    lines: list[Line]
    next: int | None


class ImportRequest(Message, frozen=True, forbid_unknown_fields=True):
    """Exported entries to bring into a bank, with their history."""

    bank: Bank
    lines: Annotated[list[Line], Meta(min_length=1, max_length=MOST_ENTRIES)]


class ImportAnswer(Message, frozen=True, forbid_unknown_fields=True):
    """What became of each line; those that were refused come first."""

    entries: list[Retained]


class BanksRequest(Message, frozen=True, forbid_unknown_fields=True):
    """Which banks there are."""


class BanksAnswer(Message, frozen=True, forbid_unknown_fields=True):
    """The banks that the token may read."""

    banks: list[BankStats]


class HealthRequest(Message, frozen=True, forbid_unknown_fields=True):
    """Whether the memory answers."""


class HealthAnswer(Message, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Whether the memory answers; all but `ok` is told to a token of every bank only."""

    ok: bool
    reason: str = ""
    store: str | None = None
    embedder: str | None = None
    dimension: int | None = None
    banks: int | None = None
    entries: int | None = None
    unembedded: int | None = None


class Fault(Message, frozen=True, forbid_unknown_fields=True):
    """What went wrong: a stable code to match on, and one line for people."""

    code: str
    message: str


class FaultAnswer(Message, frozen=True, forbid_unknown_fields=True):
    """The body of every answer that is not a success."""

    error: Fault


RecallAnswer = Answer
Request = (
    RetainRequest
    | RecallRequest
    | FeedbackRequest
    | ValidateRequest
    | ForgetRequest
    | ExportRequest
    | ImportRequest
    | BanksRequest
    | HealthRequest
)
Reply = (
    RetainAnswer
    | Answer
    | EntryAnswer
    | ForgetAnswer
    | ExportAnswer
    | ImportAnswer
    | BanksAnswer
    | HealthAnswer
)


def _check_filter(wanted: dict[str, FilterValue]) -> None:
    # Not by a pattern in the type: with one inside a union, msgspec 0.22 crashes when the process ends.
    words = [*wanted]
    for value in wanted.values():
        words += value if isinstance(value, list) else [str(value)]
    if len(words) > MOST_WORDS:
        raise ValueError(f"Expected a `filter` of at most {MOST_WORDS} keys and values")
    if any("\0" in word for word in words):
        raise ValueError("Expected a `filter` without NUL characters")
