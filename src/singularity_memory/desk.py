"""The desk: requests answered by the engine, within what a grant allows. Synchronous and thread-safe."""

from __future__ import annotations

import bisect
from typing import assert_never

import msgspec

from singularity_memory import wire
from singularity_memory.engine import Engine
from singularity_memory.errors import Failure, Mistake, UnknownEntry
from singularity_memory.grants import Grant
from singularity_memory.lines import Line, line_of
from singularity_memory.model import Answer, Query
from singularity_memory.operations import Scope
from singularity_memory.store import Store

_PORTION = 32
"""How many entries are embedded at once, so that other calls get their turn."""


class Forbidden(Mistake):
    """The token does not cover this bank or this scope."""

    code = "forbidden"


class Desk:
    """Answers requests on an engine; `store` is the engine's own."""

    def __init__(self, engine: Engine, store: Store) -> None:
        self._engine, self._store = engine, store

    def answer(self, grant: Grant | None, request: wire.Request) -> wire.Reply:
        """The reply to a request. Only health needs no grant. Raises MemoryFault."""
        if isinstance(request, wire.HealthRequest):
            return self._health(grant)
        if grant is None:
            raise Forbidden("this needs a token")
        match request:
            case wire.RetainRequest():
                return self._retain(grant, request)
            case wire.RecallRequest():
                return self._recall(grant, request)
            case wire.FeedbackRequest():
                self._check_entry(grant, request.id, request.bank)
                self._engine.feedback(request.id, request.signal)
                return wire.EntryAnswer(request.id)
            case wire.ValidateRequest():
                self._check_entry(grant, request.id, request.bank)
                self._engine.validate(request.id)
                return wire.EntryAnswer(request.id)
            case wire.ForgetRequest():
                return self._forget(grant, request)
            case wire.ExportRequest():
                return self._export(grant, request)
            case wire.ImportRequest():
                return self._import(grant, request)
            case wire.BanksRequest():
                return self._banks(grant)
            case _:
                assert_never(request)

    def warm(self) -> None:
        """Have the vectors of the largest banks read in the background."""
        self._engine.warm()

    def refresh(self) -> int:
        """Embed some entries that wait for it; how many there were."""
        return self._engine.refresh(_PORTION)

    def close(self) -> None:
        """Let go of the engine and its store."""
        self._engine.close()

    def _retain(self, grant: Grant, request: wire.RetainRequest) -> wire.RetainAnswer:
        _check(grant, request.bank, "write")
        return wire.RetainAnswer(self._engine.retain(request.bank, request.entries))

    def _recall(self, grant: Grant, request: wire.RecallRequest) -> Answer:
        _check(grant, request.bank, "read")
        return self._engine.recall(
            Query(
                request.bank,
                request.query,
                request.top_k,
                dict(request.filter),
                request.rerank_quality,
                request.deadline_ms,
            )
        )

    def _forget(self, grant: Grant, request: wire.ForgetRequest) -> wire.ForgetAnswer:
        _check(grant, request.bank, "write")
        forgotten = self._engine.forget(
            request.bank,
            ids=request.ids,
            document_ids=request.document_ids,
            filter=request.filter or None,
        )
        return wire.ForgetAnswer(forgotten)

    def _export(self, grant: Grant, request: wire.ExportRequest) -> wire.ExportAnswer:
        _check(grant, request.bank, "read")
        bank = self._store.bank(request.bank)
        every = self._store.all_rows(bank) if bank else []
        begin = bisect.bisect_right(every, request.after)
        chosen = every[begin : begin + request.limit]
        entries = sorted(self._store.entries(chosen), key=lambda entry: entry.row)
        following = chosen[-1] if begin + request.limit < len(every) else None
        return wire.ExportAnswer([msgspec.json.decode(line_of(one), type=Line) for one in entries], following)

    def _import(self, grant: Grant, request: wire.ImportRequest) -> wire.ImportAnswer:
        _check(grant, request.bank, "write")
        lines = (msgspec.json.encode(line).decode() for line in request.lines)
        return wire.ImportAnswer(list(self._engine.import_(request.bank, lines)))

    def _banks(self, grant: Grant) -> wire.BanksAnswer:
        if "read" not in grant.scopes:
            raise Forbidden("this token may not read")
        return wire.BanksAnswer([bank for bank in self._engine.banks() if grant.allows(bank.bank, "read")])

    def _health(self, grant: Grant | None) -> wire.HealthAnswer:
        trusted = grant is not None and grant.covers_every_bank("read")
        try:
            if not trusted:
                self._store.banks()
                return wire.HealthAnswer(True)
            found = self._engine.health()
        except Failure as failure:
            return wire.HealthAnswer(False, failure.message if trusted else failure.code)
        return wire.HealthAnswer(
            found.ok,
            found.reason,
            found.store,
            found.embedder,
            found.dimension,
            found.banks,
            found.entries,
            found.unembedded,
        )

    def _check_entry(self, grant: Grant, entry_id: str, bank: str | None) -> None:
        """An entry of a bank that the grant leaves out is as unknown as one that is not there."""
        if bank is not None:
            _check(grant, bank, "write")
            if not self._has(bank, entry_id):
                raise UnknownEntry(f"there is no entry {entry_id} in {bank}")
        elif "write" not in grant.scopes:
            raise Forbidden("this token may not write")
        elif not grant.covers_every_bank("write"):
            names = (found.name for found in self._store.banks() if grant.allows(found.name, "write"))
            if not any(self._has(name, entry_id) for name in names):
                raise UnknownEntry(f"there is no entry {entry_id}")

    def _has(self, bank: str, entry_id: str) -> bool:
        found = self._store.bank(bank)
        return found is not None and bool(self._store.find(found, ids=[entry_id], document_ids=[]))


def _check(grant: Grant, bank: str, scope: Scope) -> None:
    if not grant.allows(bank, scope):
        raise Forbidden(f"this token may not {scope} {bank}")
