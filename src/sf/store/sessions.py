"""Sessions, pinned workflows, and the intents by which commands reach the loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from sf.domain.clock import Instant
from sf.domain.ids import ulid
from sf.domain.workflows import Workflow, fingerprint, parse
from sf.store import sql
from sf.store.engine import seat_name
from sf.store.tx import Row, Tx

_Q = sql.load("records")
_PINNED: dict[str, Workflow] = {}
SessionStatus = Literal["idle", "running", "paused", "interrupted", "complete", "failed"]
AT_REST: frozenset[SessionStatus] = frozenset({"idle", "interrupted", "failed"})
"""What a session is when no autopilot is at work in it, and one may go on."""


def ensure(tx: Tx, now: Instant, branch: str | None = None) -> str:
    """The project's session, made on first use; the integration branch is the first one it is told.

    One that takes open work over keeps the branch that the session before had for it.
    """
    row = tx.one(_Q["current_session"])
    if row is None:
        session_id, branch = ulid(), _branch_left(tx) or branch
        tx.run(_Q["new_session"], id=session_id, branch=branch, now=now)
        # What the session before left open, with what waits for a person about it, goes on in this one.
        for what in ("units", "blockers", "questions"):
            tx.run(_Q[f"carry_{what}"], id=session_id)
        return session_id
    if row["integration_branch"] is None and branch is not None:
        tx.run(_Q["set_branch"], id=row["id"], branch=branch, now=now)
    return str(row["id"])


def _branch_left(tx: Tx) -> str:
    """The branch of the session before, if it left work for that branch open."""
    for row in tx.all(_Q["open_for"]):
        planned = msgspec.json.decode(row["metadata"], type=dict[str, Any]).get("integration_branch")
        if planned in (None, row["branch"]):
            return str(row["branch"])
    return ""


def current(tx: Tx) -> Row | None:
    """The project's session, if it has one."""
    return tx.one(_Q["current_session"])


def end(tx: Tx, session_id: str, now: Instant) -> bool:
    """Close a session for good; False when it was. The next `ensure` begins another one."""
    return tx.run(_Q["end_session"], id=session_id, now=now) == 1


def last_deed(tx: Tx) -> Instant:
    """When something was last done: a session set, a command applied, a question closed, a unit run."""
    row = tx.one(_Q["last_deed"])
    return Instant(row["at"] or 0) if row else Instant(0)


def listed(tx: Tx) -> Sequence[Row]:
    """Every session, oldest first, with the units that ended well in it and what it cost."""
    return tx.all(_Q["sessions"])


def seats(tx: Tx) -> int:
    """How many autopilots have a seat at a store on a server, of whatever folder; a file has none."""
    row = tx.one(_Q["seats"])
    return int(row["n"]) if row else 0


def seated(tx: Tx) -> list[str]:
    """Who they are, as `seat_of` names them."""
    return [str(row["name"]) for row in tx.all(_Q["seated"])]


def seat_of(holder: str) -> str:
    """The name under which the holder of a claim has its seat."""
    host, _, rest = holder.rpartition("#")
    return seat_name(host, rest.partition("@")[0])


def set_status(tx: Tx, session_id: str, status: SessionStatus, now: Instant, detail: str = "") -> None:
    """Write where the session stands."""
    tx.run(_Q["set_session"], id=session_id, status=status, detail=detail, now=now)


def go_on(tx: Tx, now: Instant) -> None:
    """An autopilot is at work in a session that was resumed, or that another one ended."""
    row = current(tx)
    if row is not None and row["status"] in AT_REST:
        set_status(tx, row["id"], "running", now)


def set_branch(tx: Tx, session_id: str, branch: str, now: Instant) -> None:
    """Choose another integration branch."""
    tx.run(_Q["set_branch"], id=session_id, branch=branch, now=now)


def pin(tx: Tx, workflow: Workflow, content: str, now: Instant) -> str:
    """Freeze a template's content; its hash."""
    digest = fingerprint(content)
    tx.run(_Q["pin"], hash=digest, name=workflow.name, content=content, now=now)
    return digest


def pinned(tx: Tx, digest: str) -> Workflow:
    """The workflow that was pinned under this hash. The hash is its content's, so it is read once."""
    if digest not in _PINNED:
        row = tx.one(_Q["pinned"], hash=digest)
        assert row is not None
        _PINNED[digest] = parse(row["content"], f"pinned workflow {row['name']}")
    return _PINNED[digest]


def intend(tx: Tx, kind: str, payload: dict[str, Any], now: Instant) -> str:
    """Write down what a command wants; its id."""
    intent_id = ulid()
    tx.run(_Q["intend"], id=intent_id, kind=kind, payload=msgspec.json.encode(payload).decode(), now=now)
    return intent_id


def open_intents(tx: Tx) -> Sequence[Row]:
    """Intents that nobody has applied, oldest first."""
    return tx.all(_Q["open_intents"])


def answer_intent(tx: Tx, intent_id: str, *, ok: bool, answer: dict[str, Any], now: Instant) -> None:
    """Record what came of an intent."""
    tx.run(
        _Q["answer_intent"], id=intent_id, ok=int(ok), answer=msgspec.json.encode(answer).decode(), now=now
    )


def intent(tx: Tx, intent_id: str) -> Row | None:
    """One intent."""
    return tx.one(_Q["intent"], id=intent_id)


def answers(tx: Tx, kind: str) -> list[dict[str, Any]]:
    """What came of every intent of a kind that was carried out."""
    return [msgspec.json.decode(row["answer"]) for row in tx.all(_Q["answers"], kind=kind)]
