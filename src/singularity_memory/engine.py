"""The engine: retain, recall and all that happens to an entry, on one store. Synchronous and thread-safe."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from singularity_memory import door, identity, labels, lines, maturity, placing, standing, writing
from singularity_memory.census import Census
from singularity_memory.embedders import Embedder, Halves, factory
from singularity_memory.errors import BadRequest, EmbeddingFailed, StoreFailed, UnknownEntry
from singularity_memory.model import (
    Answer,
    BankStats,
    Draft,
    Filter,
    Health,
    Query,
    Retained,
)
from singularity_memory.passages import passages
from singularity_memory.recall import Recall
from singularity_memory.renewal import Renewal
from singularity_memory.store import Bank, Changed, Entry, Record, Store, rows

MOST_RESULTS = 1000
LONGEST_QUERY = 10_000
_LONGEST_NAME = 512
_PORTION = 200
_RENEWED = 32
_TOUCHES = 512
"""How many recalled entries wait for their access to be counted; it is lost when the process is killed."""


class Engine:
    """A memory of banks. `clock` gives seconds since the epoch."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        *,
        clock: Callable[[], float] = time.time,
        boot_files: Sequence[str] = (),
        renew: bool = True,
    ) -> None:
        self._store, self._embedder, self._clock = store, embedder, clock
        self._boot_files = tuple(boot_files)
        self._recall = Recall(store, embedder)
        self._census = Census(store, clock)
        self._touched: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._renewal = Renewal(lambda: self.refresh(_RENEWED)) if renew and embedder else None
        if self._renewal and store.count_unembedded(self._embedder_name):
            self._renewal.want()
        if renew:
            self.warm()

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        embedder: Embedder | str | None = "sentence",
        clock: Callable[[], float] = time.time,
        boot_files: Sequence[str] = (),
        renew: bool = True,
    ) -> Self:
        """The memory in a file, made when there is none, or on a PostgreSQL server (`postgresql://…`).

        `boot_files` are texts that every session reads, not to be retained. With `renew`, entries without
        vectors by this embedder get them in the background, and those of the largest banks are read
        there; otherwise when `refresh` and `warm` are called.
        """
        made = factory.embedder(factory.Choice(embedder)) if isinstance(embedder, str) else embedder
        return cls(_store_at(place), made, clock=clock, boot_files=boot_files, renew=renew)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Count the accesses that wait, and let go of the store."""
        if self._renewal:
            self._renewal.close()
        self._count_accesses()
        self._store.close()

    # --- writing -----------------------------------------------------------------------------------

    def retain(self, bank: str, drafts: Sequence[Draft]) -> list[Retained]:
        """Keep what the door lets in; on disk when this returns. One answer for each draft, in order."""
        _check_bank(bank)
        answers: list[Retained | None] = []
        records: dict[str, Record] = {}
        told: set[str] = set()
        there = self._store.bank(bank)
        for draft in drafts:
            document, reason = self._placed(there, draft)
            alike = labels.of_wording(draft.content) if not draft.document_id else document
            if not reason and (document in records or alike in told):
                reason = "a duplicate of another entry of this call"
            answers.append(Retained(document, "", "refused", reason) if reason else None)
            if not reason:
                records[document] = writing.of_draft(bank, document, draft)
                told.add(alike)
        kept = self._with_vectors(list(records.values()))
        known = self._store.write(bank, kept, self._embedder_name, self._settle) if kept else []
        done = iter(
            [
                Retained(record.document_id, record.id, "updated" if was_there else "stored")
                for record, was_there in zip(kept, known, strict=True)
            ]
        )
        return [answer or next(done) for answer in answers]

    def feedback(self, entry_id: str, signal: int) -> None:
        """How an entry served: +1 it helped, 0 nothing, −1 it harmed; the third −1 makes it a warning."""
        if signal not in (-1, 0, 1):
            raise BadRequest(f"a signal is -1, 0 or 1, not {signal}")
        now = self._clock()

        def change(entry: Entry) -> Changed:
            if signal > 0:
                return Changed(standing.helped(entry.standing, now))
            if signal == 0:
                return Changed(entry.standing)
            after = standing.harmed(entry.standing)
            if entry.negative or not maturity.is_to_avoid(after):
                return Changed(after)
            return Changed(after, writing.as_warning(rows.record_of(entry)))

        self._change(entry_id, change)

    def validate(self, entry_id: str) -> None:
        """Say that an entry still holds: its decay begins anew."""
        now = self._clock()
        self._change(entry_id, lambda entry: Changed(standing.validated(entry.standing, now)))

    def forget(
        self,
        bank: str,
        *,
        ids: Sequence[str] = (),
        document_ids: Sequence[str] = (),
        filter: Filter | None = None,
    ) -> int:
        """Remove entries that are named or match a filter, which must ask for something; how many."""
        wanted = labels.of_filter(filter or {})
        if filter is not None and not wanted:
            raise BadRequest("an empty filter would forget the whole bank")
        found = self._store.bank(bank)
        if found is None:
            return 0
        chosen = set(self._store.find(found, ids=ids, document_ids=document_ids))
        if wanted:
            chosen |= set(self._store.labelled(found, wanted))
        return self._store.forget(found, sorted(chosen)) if chosen else 0

    def refresh(self, limit: int = 256) -> int:
        """Embed some entries that have no vectors by this embedder; how many there were. 0 when all have."""
        waiting = self._store.unembedded(self._embedder_name, limit) if self._embedder else []
        if waiting:
            made = self._vectors_of([entry.content for entry in waiting])
            self._store.embed(list(zip(waiting, made, strict=True)), self._embedder_name)
        return len(waiting)

    def warm(self) -> None:
        """Have the vectors of the largest banks read in the background."""
        self._recall.warm()

    # --- reading -----------------------------------------------------------------------------------

    def recall(self, query: Query) -> Answer:
        """The best entries of a bank for a query; with a deadline, what can be said by then."""
        if not 1 <= query.top_k <= MOST_RESULTS:
            raise BadRequest(f"top_k is from 1 to {MOST_RESULTS}, not {query.top_k}")
        if len(query.text) > LONGEST_QUERY:
            raise BadRequest(f"a query has at most {LONGEST_QUERY} characters")
        found = self._recall.search(query, self._clock())
        self._touch(found.rows)
        return Answer(found.hits, bool(found.reason), found.reason)

    def banks(self) -> list[BankStats]:
        """What every bank holds."""
        unembedded = self._store.count_unembedded(self._embedder_name)
        return [self._census.of(bank, unembedded.get(bank.name, 0)) for bank in self._store.banks()]

    def health(self) -> Health:
        """Whether the store answers, and with what the memory works. Never raises."""
        try:
            banks = self._store.banks()
            unembedded = sum(self._store.count_unembedded(self._embedder_name).values())
            reason = ""
        except StoreFailed as error:
            banks, unembedded, reason = [], 0, error.message
        return Health(
            ok=not reason,
            store=self._store.name,
            embedder=self._embedder_name,
            dimension=self._embedder.dimension if self._embedder else 0,
            banks=len(banks),
            entries=sum(bank.entries for bank in banks),
            unembedded=unembedded,
            reason=reason,
        )

    def export(self, bank: str) -> Iterator[str]:
        """Every entry of a bank with its history, one line of JSON each; vectors are made anew on import."""
        found = self._store.bank(bank)
        every = self._store.all_rows(found) if found else []
        for start in range(0, len(every), _PORTION):
            for entry in sorted(
                self._store.entries(every[start : start + _PORTION]), key=lambda one: one.row
            ):
                yield lines.line_of(entry)

    def import_(self, bank: str, exported: Iterable[str]) -> Iterator[Retained]:
        """Bring lines back into a bank, with their history; what the door refuses stays out."""
        _check_bank(bank)
        waiting = iter(exported)
        while portion := list(itertools.islice(waiting, _PORTION)):
            yield from self._bring_back(bank, [lines.parsed(line) for line in portion if line.strip()])

    # --- inside ------------------------------------------------------------------------------------

    @property
    def _embedder_name(self) -> str:
        return self._embedder.name if self._embedder else ""

    def _bring_back(self, bank: str, portion: Sequence[lines.Line]) -> Iterator[Retained]:
        kept = []
        for line in portion:
            reason = door.refusal(line.draft, self._boot_files)
            document = line.draft.document_id or identity.document_id(line.draft.content)
            if reason:
                yield Retained(document, "", "refused", reason)
            else:
                record = writing.of_draft(bank, document, line.draft)
                kept.append((record, line.standing or standing.born(self._clock())))
        histories = {record.document_id: history for record, history in kept}
        known = self._store.write(
            bank, [record for record, _ in kept], "", lambda _, record: Changed(histories[record.document_id])
        )
        self._want_renewal()
        for (record, _), was_there in zip(kept, known, strict=True):
            yield Retained(record.document_id, record.id, "updated" if was_there else "stored")

    def _want_renewal(self) -> None:
        if self._renewal:
            self._renewal.want()

    def _settle(self, entry: Entry | None, record: Record) -> Changed:
        """A document seen again keeps its history, and a warning stays one."""
        if entry is None:
            return Changed(standing.born(self._clock()))
        after = standing.seen_again(entry.standing, self._clock())
        return Changed(after, writing.as_warning(record) if maturity.is_to_avoid(after) else None)

    def _placed(self, bank: Bank | None, draft: Draft) -> placing.Place:
        """What the door refuses is not looked for: no store could be asked about some of it."""
        reason = door.refusal(draft, self._boot_files)
        return (
            placing.Place(placing.own(draft), reason) if reason else placing.placed(self._store, bank, draft)
        )

    def _with_vectors(self, records: Sequence[Record]) -> list[Record]:
        """An embedder that fails does not keep an entry out: it is found by its words until refresh."""
        if self._embedder is None or not records:
            return list(records)
        try:
            made = self._vectors_of([record.content for record in records])
        except EmbeddingFailed:
            self._want_renewal()
            return list(records)
        return [record._replace(vectors=data) for record, data in zip(records, made, strict=True)]

    def _vectors_of(self, contents: Sequence[str]) -> list[Halves]:
        assert self._embedder is not None
        cut = [passages(content) for content in contents]
        matrix = self._embedder.documents([passage for each in cut for passage in each]).astype(np.float16)
        ends = np.cumsum([len(each) for each in cut])
        return np.split(matrix, ends[:-1])

    def _change(self, entry_id: str, change: Callable[[Entry], Changed]) -> None:
        if self._store.change(entry_id, change) is None:
            raise UnknownEntry(f"there is no entry {entry_id}")
        self._census.stir()

    def _touch(self, recalled: Iterable[int]) -> None:
        with self._lock:
            self._touched.update(recalled)
            full = len(self._touched) >= _TOUCHES
        if full:
            self._count_accesses()

    def _count_accesses(self) -> None:
        with self._lock:
            touched, self._touched = self._touched, Counter()
        if touched:
            self._store.touch(touched, self._clock())
            self._census.stir()


def _store_at(place: str | Path) -> Store:
    if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
        from singularity_memory.store.postgres import PostgresStore

        return PostgresStore(place)
    from singularity_memory.store.sqlite import SqliteStore

    return SqliteStore(Path(place))


def _check_bank(bank: str) -> None:
    if not bank.strip() or len(bank) > _LONGEST_NAME:
        raise BadRequest(f"a bank's name has 1 to {_LONGEST_NAME} characters")
