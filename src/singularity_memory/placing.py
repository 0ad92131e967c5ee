"""Placing: which document of a bank a draft becomes, or why it has no place of its own.

A draft without a name is its content; when an unnamed entry has the same wording already, it is that entry
seen again, and the newer text stands. Between documents that callers named, only the very same content is a
duplicate, and it is refused: whoever names documents has their likeness in hand.
"""

from __future__ import annotations

from typing import NamedTuple

from singularity_memory import identity, labels
from singularity_memory.model import Draft
from singularity_memory.store import Bank, Store


class Place(NamedTuple):
    """The document that a draft is written as; with a reason, it is not."""

    document: str
    reason: str = ""


def own(draft: Draft) -> str:
    """The document that a draft names, or that its content is."""
    return draft.document_id or identity.document_id(draft.content)


def placed(store: Store, bank: Bank | None, draft: Draft) -> Place:
    """Where a draft belongs in a bank as it is now."""
    document = own(draft)
    if bank is None:
        return Place(document)
    twins = _documents(store, bank, labels.of_content(draft.content)) - {document}
    unnamed = {twin for twin in twins if identity.is_unnamed(twin)}
    if draft.document_id or twins - unnamed:
        return Place(document, f"a duplicate of the document {min(twins)}" if twins else "")
    if store.find(bank, ids=(), document_ids=(document,)):
        return Place(document)
    alike = _documents(store, bank, labels.of_wording(draft.content)) | unnamed
    return Place(min((other for other in alike if identity.is_unnamed(other)), default=document))


def _documents(store: Store, bank: Bank, label: str) -> set[str]:
    return {entry.document_id for entry in store.entries(store.labelled(bank, frozenset({label})))}
