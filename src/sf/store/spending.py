"""The spending ledger: reserved before each model request, settled after it, in every scope at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from sf.domain.clock import Instant
from sf.domain.dialogue import Usage
from sf.domain.ids import ulid
from sf.domain.runs import Lease
from sf.domain.spending import Account, Caps, Scope, Settled, breach
from sf.domain.units import Unit
from sf.errors import SpendingReached
from sf.store import leases, sql, units
from sf.store.tx import Row, Tx

_Q = sql.load("spending")
_PROMISE = ""
"""The model of a row that is no request."""
Grouping = Literal["unit", "phase", "model", "day"]


class Payer(msgspec.Struct, frozen=True):
    """On whose account a request is made."""

    unit_id: str
    milestone_id: str
    session_id: str
    phase: str

    def keys(self) -> dict[Scope, str]:
        """The key of each scope."""
        return {"unit": self.unit_id, "milestone": self.milestone_id, "session": self.session_id}


def payer(tx: Tx, unit: Unit) -> Payer:
    """The accounts of a unit: its own, its topmost container's, its session's."""
    top = unit
    while top.parent_id is not None:
        top = units.get(tx, top.parent_id)
    return Payer(unit.id, top.id, unit.session_id, unit.phase.value)


def account(tx: Tx, scope: Scope, key: str) -> Account:
    """What a scope has spent and reserved."""
    row = tx.one(_Q["account"], scope=scope, key=key)
    if row is None:
        return Account(scope, key)
    spent, reserved, allowance = (
        row["spent_micro_usd"],
        row["reserved_micro_usd"],
        row["allowance_micro_usd"],
    )
    return Account(scope, key, spent, reserved, allowance)


def require_room(tx: Tx, by: Payer, wanted: int, caps: Caps) -> None:
    """Raise SpendingReached unless every scope has room for this much."""
    if not caps.any:
        return
    found = breach([account(tx, scope, key) for scope, key in by.keys().items()], caps, wanted)
    if found is not None:
        raise SpendingReached(found.told(), scope=found.account.scope, key=found.account.key, wanted=wanted)


def reserve(tx: Tx, lease: Lease, by: Payer, *, model: str, estimate: int, caps: Caps, now: Instant) -> str:
    """Reserve a request's ceiling; the reservation's id. Raises SpendingReached and reserves nothing.

    What the run has promised itself is drawn from first.
    """
    leases.require_lease(tx, lease)
    _draw(tx, lease.run_id, estimate)
    require_room(tx, by, estimate, caps)
    return _open(tx, lease, by, model, estimate, now)


def promise(tx: Tx, lease: Lease, by: Payer, *, amount: int, caps: Caps, now: Instant) -> None:
    """Reserve what several requests of a run may cost together. Raises SpendingReached and reserves nothing.

    It is two rows with no model and no request: the whole, settled and free, and what of it is held. The
    run's requests draw from the latter and give back what they did not use; the end of the run, also by a
    crash, lets go what is left.
    """
    leases.require_lease(tx, lease)
    require_room(tx, by, amount, caps)
    tx.run(_Q["promised"], **_row(lease, by, now), amount=amount)
    _open(tx, lease, by, _PROMISE, amount, now)


def _draw(tx: Tx, run_id: str, more: int = 0) -> None:
    """Hold of what a run promised itself what its requests, and so much more, leave of the whole."""
    promised = tx.one(_Q["promise_of_run"], run=run_id)
    if promised is None:
        return
    change = max(0, (promised["unused"] or 0) - more) - promised["estimate_micro_usd"]
    tx.run(_Q["adjust"], id=promised["id"], by=change)
    _post(tx, _keys(promised), reserved=change)


def _row(lease: Lease, by: Payer, now: Instant) -> dict[str, Any]:
    """What every row of the ledger says: its own id, who asked, who pays, when."""
    return {
        "id": ulid(),
        "run": lease.run_id,
        "unit": by.unit_id,
        "milestone": by.milestone_id,
        "session": by.session_id,
        "phase": by.phase,
        "now": now,
    }


def _keys(row: Row) -> dict[Scope, str]:
    return {"unit": row["unit_id"], "milestone": row["milestone_id"], "session": row["session_id"]}


def _open(tx: Tx, lease: Lease, by: Payer, model: str, estimate: int, now: Instant) -> str:
    row = _row(lease, by, now)
    tx.run(_Q["open"], **row, model=model, estimate=estimate)
    _post(tx, by.keys(), reserved=estimate)
    return str(row["id"])


def settle(tx: Tx, spend_id: str, how: Settled, now: Instant, usage: Usage | None = None) -> int:
    """End a reservation: at its cost when answered, free when refused, else at its estimate; what it cost."""
    row = tx.one(_Q["get"], id=spend_id)
    assert row is not None
    used = usage or Usage()
    how = "cut" if how == "answered" and not used.priced else how
    costs = {"answered": used.cost_micro_usd, "refused": 0}
    cost = costs.get(how, row["estimate_micro_usd"])
    closed = tx.run(
        _Q["close"],
        id=spend_id,
        cost=cost,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        how=how,
        now=now,
    )
    if closed:
        _post(tx, _keys(row), spent=cost, reserved=-row["estimate_micro_usd"])
        _draw(tx, row["run_id"])
    return int(cost if closed else row["cost_micro_usd"])


def record(tx: Tx, lease: Lease, by: Payer, *, model: str, usage: Usage, now: Instant) -> None:
    """Enter a request that was not reserved, because its model is free or nobody knows its price.

    A row that is settled and has no cost says the latter.
    """
    tx.run(
        _Q["enter"],
        **_row(lease, by, now),
        model=model,
        cost=usage.cost_micro_usd if usage.priced else None,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )
    _post(tx, by.keys(), spent=usage.cost_micro_usd)


def settle_open(tx: Tx, run_id: str, how: Settled, now: Instant) -> int:
    """Settle what a run left open, and let go what it had promised itself; how many requests there were."""
    left = tx.all(_Q["open_of_run"], run=run_id)
    promised = [row for row in left if row["model"] == _PROMISE]
    if promised:
        tx.run(_Q["drop_promise"], run=run_id)
    for row in promised:
        _post(tx, _keys(row), reserved=-row["estimate_micro_usd"])
    requests = [row["id"] for row in left if row["model"] != _PROMISE]
    for spend_id in requests:
        settle(tx, spend_id, how, now)
    return len(requests)


def booked(tx: Tx, run_id: str) -> bool:
    """Whether a run has asked anything that was not refused: an answer, or what was cut off and counts."""
    return tx.one(_Q["booked_of_run"], run=run_id) is not None


def allow(tx: Tx, scope: Scope, key: str, amount: int) -> None:
    """Let a scope spend more than its cap."""
    _post(tx, {scope: key}, allowance=amount)


def _post(tx: Tx, keys: dict[Scope, str], *, spent: int = 0, reserved: int = 0, allowance: int = 0) -> None:
    if not (spent or reserved or allowance):
        return
    for scope, key in keys.items():
        tx.run(_Q["post"], scope=scope, key=key, spent=spent, reserved=reserved, allowance=allowance)


def report(tx: Tx, grouping: Grouping, since: int) -> Sequence[Row]:
    """What was spent, by unit, phase, model or day."""
    return tx.all(_Q[f"by_{grouping}"], since=since)


def endings(tx: Tx, since: int) -> Sequence[Row]:
    """What was spent, by how requests ended; None is under way."""
    return tx.all(_Q["endings"], since=since)
