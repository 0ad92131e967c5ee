"""What is written of an entry: from a draft, and from an entry that becomes a warning."""

from __future__ import annotations

from singularity_memory import identity, labels, maturity, words
from singularity_memory.model import NEGATIVE_TAG, Draft
from singularity_memory.store import Record


def of_draft(bank: str, document_id: str, draft: Draft) -> Record:
    """The record of a draft, without vectors."""
    return _record(identity.entry_id(bank, document_id), document_id, draft)


def as_warning(record: Record) -> Record:
    """The same record as a thing to avoid; its vectors stay, since it is still about the same.

    So does the label of its wording: whoever retains it anew in almost the same words means this entry.
    """
    tags = tuple(dict.fromkeys((*record.tags, NEGATIVE_TAG)))
    draft = Draft(maturity.as_warning(record.content), record.document_id, tags, record.metadata)
    made = _record(record.id, record.document_id, draft)
    alike = made.labels | {labels.of_wording(record.content)}
    return made._replace(vectors=record.vectors, labels=alike)


def _record(entry_id: str, document_id: str, draft: Draft) -> Record:
    tags = tuple(dict.fromkeys(draft.tags))
    return Record(
        id=entry_id,
        document_id=document_id,
        content=draft.content,
        words=" ".join(words.tokens(draft.content)),
        tags=tags,
        metadata=draft.metadata,
        labels=labels.of_entry(tags, draft.metadata)
        | {labels.of_content(draft.content), labels.of_wording(draft.content)},
        negative=labels.is_negative(tags, draft.metadata),
        vectors=None,
    )
