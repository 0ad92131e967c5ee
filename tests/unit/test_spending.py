"""The spending ledger: reserved before, settled after, never more than a scope may spend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sf.domain import outcomes as o
from sf.domain.dialogue import Usage
from sf.domain.runs import Lease
from sf.domain.spending import Account, Caps, Scope, breach
from sf.errors import LeaseLost, SpendingReached
from sf.store import runs, spending
from sf.store.spending import Grouping, Payer
from sf.store.tx import Tx
from sf.testing.clock import FakeClock
from tests.support.ground import Ground

A = "task/a1"


def _claimed(ground: Ground) -> tuple[Lease, Payer]:
    ground.plant(adhoc=True)
    lease = ground.claim(A)
    assert lease is not None
    return lease, spending.payer(ground.read, ground.unit(A))


def _reserve(ground: Ground, lease: Lease, by: Payer, estimate: int, **caps: int) -> str:
    return ground.write(
        lambda tx: spending.reserve(
            tx, lease, by, model="m", estimate=estimate, caps=Caps(**caps), now=ground.now
        )
    )


def _answered(ground: Ground, spend: str, cost: int) -> None:
    usage = Usage(7, 3, cost_micro_usd=cost)
    ground.write(lambda tx: spending.settle(tx, spend, "answered", ground.now, usage))


def _accounts(ground: Ground, by: Payer) -> dict[str, tuple[int, int]]:
    found = [spending.account(ground.read, scope, key) for scope, key in by.keys().items()]
    return {account.scope: (account.spent, account.reserved) for account in found}


def test_a_reservation_counts_in_every_scope_and_is_settled_at_its_cost(ground: Ground) -> None:
    lease, by = _claimed(ground)
    spend = _reserve(ground, lease, by, 700)
    assert _accounts(ground, by) == dict.fromkeys(("unit", "milestone", "session"), (0, 700))
    usage = Usage(10, 5, cost_micro_usd=300)
    ground.write(lambda tx: spending.settle(tx, spend, "answered", ground.now, usage))
    assert _accounts(ground, by) == dict.fromkeys(("unit", "milestone", "session"), (300, 0))
    ground.write(lambda tx: spending.settle(tx, spend, "cut", ground.now))
    assert _accounts(ground, by)["unit"] == (300, 0), "settled once, for good"


@pytest.mark.parametrize("scope", ["unit", "milestone", "session"])
def test_no_scope_reserves_more_than_it_may_spend(ground: Ground, scope: Scope) -> None:
    lease, by = _claimed(ground)
    _reserve(ground, lease, by, 600, **{scope: 1000})
    with pytest.raises(SpendingReached) as refused:
        _reserve(ground, lease, by, 401, **{scope: 1000})
    assert refused.value.scope == scope
    assert refused.value.exit_code == 4
    assert _accounts(ground, by)[scope] == (0, 600), "a refused reservation reserves nothing"
    _reserve(ground, lease, by, 400, **{scope: 1000})
    key = by.keys()[scope]
    ground.write(lambda tx: spending.allow(tx, scope, key, 500))
    _reserve(ground, lease, by, 500, **{scope: 1000})


def test_what_a_run_left_open_is_settled_at_its_estimate(ground: Ground) -> None:
    lease, by = _claimed(ground)
    _reserve(ground, lease, by, 700)
    refused = _reserve(ground, lease, by, 50)
    ground.write(lambda tx: spending.settle(tx, refused, "refused", ground.now))
    ground.settle(lease, o.Crashed())
    assert _accounts(ground, by) == dict.fromkeys(("unit", "milestone", "session"), (700, 0))
    endings = {row["how"]: row["cost_micro_usd"] for row in spending.endings(ground.read, 0)}
    assert endings == {"crashed": 700, "refused": 0}


def test_an_answer_that_does_not_say_what_it_used_counts_at_its_estimate(ground: Ground) -> None:
    lease, by = _claimed(ground)
    spend = _reserve(ground, lease, by, 700)
    silent = Usage(priced=False)
    assert ground.write(lambda tx: spending.settle(tx, spend, "answered", ground.now, silent)) == 700
    assert _accounts(ground, by) == dict.fromkeys(("unit", "milestone", "session"), (700, 0))
    [row] = spending.endings(ground.read, 0)
    assert (row["how"], row["cost_micro_usd"], row["unpriced"]) == ("cut", 700, 0), (
        "it is told as an estimate"
    )


def test_a_request_that_nobody_knows_the_price_of_is_told_from_one_that_is_free(ground: Ground) -> None:
    lease, by = _claimed(ground)

    def write(tx: Tx) -> None:
        for usage in (Usage(7, 3), Usage(7, 3, priced=False)):
            spending.record(tx, lease, by, model="m", usage=usage, now=ground.now)

    ground.write(write)
    [row] = spending.endings(ground.read, 0)
    assert (row["requests"], row["unpriced"], row["cost_micro_usd"]) == (2, 1, 0)


def test_a_fan_out_keeps_its_money_until_its_end_and_what_was_not_asked_is_not_booked(ground: Ground) -> None:
    lease, by = _claimed(ground)
    caps = Caps(session=1000)

    def promise(amount: int) -> None:
        ground.write(lambda tx: spending.promise(tx, lease, by, amount=amount, caps=caps, now=ground.now))

    promise(900)
    with pytest.raises(SpendingReached):
        promise(101)
    for _ in range(4):
        _answered(ground, _reserve(ground, lease, by, 300, session=1000), 50)
        assert sum(_accounts(ground, by)["session"]) == 900, "what a part did not use stays with the whole"
    _reserve(ground, lease, by, 300, session=1000)
    assert _accounts(ground, by)["unit"] == (200, 700)
    assert sum(row["requests"] for row in spending.report(ground.read, "model", 0)) == 5
    assert runs.totals(ground.read)["cost_micro_usd"] == 500, "a promise is no cost"
    ground.settle(lease, o.Crashed())
    assert _accounts(ground, by) == dict.fromkeys(("unit", "milestone", "session"), (500, 0))
    assert {row["how"]: row["requests"] for row in spending.endings(ground.read, 0)} == {
        "answered": 4,
        "crashed": 1,
    }


def test_a_part_that_is_dearer_than_the_whole_gives_back_no_more_than_it_drew(ground: Ground) -> None:
    lease, by = _claimed(ground)
    caps = Caps(session=1500)
    ground.write(lambda tx: spending.promise(tx, lease, by, amount=200, caps=caps, now=ground.now))
    for spent in (20, 40, 60):
        part = _reserve(ground, lease, by, 1000, session=1500)
        assert _accounts(ground, by)["session"] == (spent - 20, 1000)
        _answered(ground, part, 20)
        assert _accounts(ground, by)["session"] == (spent, 200 - spent)
    _answered(ground, _reserve(ground, lease, by, 1000, session=1500), 500)
    assert _accounts(ground, by)["session"] == (560, 0), "the whole is used up"
    ground.settle(lease, o.Done())
    assert _accounts(ground, by)["session"] == (560, 0)
    assert [row["requests"] for row in spending.endings(ground.read, 0)] == [4]


def test_runs_from_before_the_ledger_are_told_at_what_their_rows_say(ground: Ground) -> None:
    lease, by = _claimed(ground)
    ground.settle(lease, o.Interrupted("shutdown"))
    ground.write(lambda tx: tx.run("UPDATE runs SET cost_micro_usd = 300"))
    ground.clock.advance(seconds=1)

    def told() -> set[int]:
        ground.write(lambda tx: tx.run("UPDATE units SET archived_at = 1"))
        rows = [runs.totals(ground.read), runs.totals_of_unit(ground.read, A), *runs.history(ground.read)]
        ground.write(lambda tx: tx.run("UPDATE units SET archived_at = NULL"))
        return {int(row["cost_micro_usd"]) for row in rows}

    assert told() == {300}
    again = ground.claim(A)
    assert again is not None
    _answered(ground, _reserve(ground, again, by, 70), 50)
    ground.settle(again, o.Interrupted("shutdown"))
    assert told() == {350}, "what is in the ledger is counted once"


def test_what_a_run_asked_after_the_clock_went_back_is_part_of_its_cost(ground: Ground) -> None:
    lease, by = _claimed(ground)
    ground.clock = FakeClock(ground.now - 3_600_000)
    _answered(ground, _reserve(ground, lease, by, 300), 50)
    _reserve(ground, lease, by, 70)
    assert runs.spent_by_run(ground.read, lease.run_id)["cost_micro_usd"] == 120
    ground.settle(lease, o.Interrupted("shutdown"))
    assert [run.cost_micro_usd for run in runs.of_unit(ground.read, A)] == [120]


def test_a_run_that_lost_its_lease_cannot_reserve(ground: Ground) -> None:
    lease, by = _claimed(ground)
    ground.settle(lease, o.Crashed())
    with pytest.raises(LeaseLost):
        _reserve(ground, lease, by, 1)


def test_reports_add_up_however_they_are_grouped(ground: Ground) -> None:
    lease, by = _claimed(ground)
    for cost in (100, 250):
        spend = _reserve(ground, lease, by, 400)
        _answered(ground, spend, cost)
    _reserve(ground, lease, by, 50)
    groupings: tuple[Grouping, ...] = ("unit", "phase", "model", "day")
    for grouping in groupings:
        rows = spending.report(ground.read, grouping, 0)
        assert sum(row["cost_micro_usd"] for row in rows) == 400, "what is under way counts at its estimate"
        assert sum(row["requests"] for row in rows) == 3
        assert sum(row["input_tokens"] for row in rows) == 14


@given(
    st.lists(st.tuples(st.integers(0, 500), st.sampled_from(["answered", "refused", "cut"])), max_size=30),
    st.integers(1, 2000),
)
def test_spent_and_reserved_never_exceed_the_cap(steps: list[tuple[int, str]], cap: int) -> None:
    """The rule alone, against any order of reservations and endings; an answer costs at most its ceiling."""
    account = Account("unit", "u")
    caps = Caps(unit=cap)
    others = [Account("milestone", "m"), Account("session", "s")]
    for estimate, how in steps:
        if breach([account, *others], caps, estimate) is not None:
            continue
        cost = {"answered": estimate // 2, "refused": 0, "cut": estimate}[how]
        assert account.spent + account.reserved + estimate <= cap
        account = Account("unit", "u", account.spent + cost)
    assert account.spent <= cap


def test_when_the_session_is_out_of_money_no_smaller_scope_is_blamed() -> None:
    accounts = [Account("unit", "u", 10), Account("milestone", "m", 10), Account("session", "s", 10)]
    found = breach(accounts, Caps(unit=10, milestone=10, session=10), 1)
    assert found is not None and found.account.scope == "session"
