"""Which units may run and in which order: in Python and in SQL the same."""

from __future__ import annotations

import functools
import sqlite3
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.phases import FORWARD, RANK, Phase
from sf.domain.queue import eligible, priority_key, standing
from sf.domain.units import HoldKind, Status, Unit
from sf.store import glance, leases, sessions, units
from sf.store.tx import Tx
from sf.testing.clock import START
from tests.support.ground import EVERY_PHASE, Ground, fresh_ground
from tests.support.samples import WORKFLOWS, unit

UNITS = st.builds(
    lambda number, **changes: unit(id=f"task/a{number}", **changes),
    number=st.integers(1, 10**6),
    priority=st.none() | st.integers(1, 4),
    open_blockers=st.integers(0, 2),
    phase=st.sampled_from(list(Phase)),
    created_at=st.integers(START, START + 3),
)


def compare(left: Unit, right: Unit) -> int:
    """The order as the rules say it, step by step."""
    for first, second in (
        (left.priority or 10**9, right.priority or 10**9),
        (left.open_blockers > 0, right.open_blockers > 0),
        ([*FORWARD, Phase.REASSESS].index(left.phase), [*FORWARD, Phase.REASSESS].index(right.phase)),
        (left.created_at, right.created_at),
        (left.id, right.id),
    ):
        if first != second:
            return -1 if first < second else 1  # type: ignore[operator]
    return 0


@pytest.mark.conforms("C-28")
@given(st.lists(UNITS, unique_by=lambda u: u.id, max_size=12))
def test_the_priority_order_is_the_reference_order(found: list[Unit]) -> None:
    assert sorted(found, key=priority_key) == sorted(found, key=functools.cmp_to_key(compare))


@pytest.mark.conforms("C-28")
@given(UNITS, UNITS, UNITS)
def test_the_priority_order_is_total(a: Unit, b: Unit, c: Unit) -> None:
    keys = priority_key(a), priority_key(b), priority_key(c)
    assert (keys[0] == keys[1]) == (a.id == b.id and compare(a, b) == 0)
    assert (keys[0] < keys[1]) + (keys[0] > keys[1]) + (keys[0] == keys[1]) == 1
    if keys[0] <= keys[1] <= keys[2]:
        assert keys[0] <= keys[2]


ROWS = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(list(Phase)),
        "phase_status": st.sampled_from(list(Status)),
        "archived_at": st.none() | st.just(START),
        "hold_kind": st.none() | st.sampled_from(list(HoldKind)),
        "open_blockers": st.sampled_from([0, 0, 1]),
        "open_children": st.sampled_from([0, 0, 1]),
        "parent_ready": st.sampled_from([1, 1, 0]),
        "lane_open": st.sampled_from([1, 1, 0]),
        "due_at": st.none() | st.integers(START - 2, START + 2),
        "priority": st.none() | st.integers(1, 4),
        "created_at": st.integers(START, START + 2),
    }
)


def insert_rows(ground: Ground, rows: list[dict[str, Any]]) -> None:
    def work(tx: Tx) -> None:
        session_id = sessions.ensure(tx, ground.now)
        digest = sessions.pin(tx, WORKFLOWS["feature"], 'name = "x"', ground.now)
        for number, row in enumerate(rows):
            units.insert(
                tx,
                unit_id=f"task/a{number}",
                unit_type="task",
                session_id=session_id,
                workflow="feature",
                workflow_hash=digest,
                phase=row["phase"],
                title="t",
                now=ground.now,
            )
            columns = ", ".join(f"{name} = :{name}" for name in row)
            tx.run(
                f"UPDATE units SET {columns}, phase_rank = :rank WHERE id = :id",
                **{name: str(value) if isinstance(value, str) else value for name, value in row.items()},
                rank=RANK[row["phase"]],
                id=f"task/a{number}",
            )

    ground.write(work)


@settings(max_examples=60)
@given(st.lists(ROWS, max_size=25))
def test_what_the_database_calls_ready_is_what_the_rule_calls_eligible(rows: list[dict[str, Any]]) -> None:
    with fresh_ground() as ground:
        ground.in_disorder = True
        insert_rows(ground, rows)
        everything = units.listed(ground.read, archived=True)
        expected = {u.id for u in everything if eligible(u, ground.now)}
        ground.write(lambda tx: leases.wake_due(tx, ground.now))
        found = leases.ready(ground.read, EVERY_PHASE)
        assert {u.id for u in found} == expected
        for phase in Phase:
            within = [u for u in found if u.phase is phase]
            assert within == sorted(within, key=priority_key), "SQL's order within a phase is the rule's"


@settings(max_examples=40)
@given(st.lists(ROWS, max_size=25), st.dictionaries(st.sampled_from(list(Phase)), st.integers(-1, 3)))
def test_each_phase_gives_its_first_up_to_its_own_room(
    rows: list[dict[str, Any]], room: dict[Phase, int]
) -> None:
    with fresh_ground() as ground:
        ground.in_disorder = True
        insert_rows(ground, rows)
        everything = leases.ready(ground.read, EVERY_PHASE)
        some = leases.ready(ground.read, room)
        for phase in Phase:
            most = max(0, room.get(phase, 0))
            assert [u for u in some if u.phase is phase] == [u for u in everything if u.phase is phase][:most]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_ready_query_reads_its_index_and_sorts_nothing(ground: Ground) -> None:
    statements: list[str] = []
    assert isinstance(ground.connection, sqlite3.Connection)
    ground.connection.set_trace_callback(statements.append)
    leases.ready(ground.read, dict.fromkeys(Phase, 10))
    ground.connection.set_trace_callback(None)
    [statement] = statements
    plan = ground.connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
    reads = [row["detail"] for row in plan if " units " in row["detail"]]
    assert reads
    assert all("USING INDEX units_ready (phase_rank=?)" in read for read in reads)
    assert not any("TEMP B-TREE" in row["detail"] for row in plan)


@given(st.lists(ROWS, min_size=1, max_size=1))
def test_every_unit_has_exactly_one_standing(rows: list[dict[str, Any]]) -> None:
    row = dict(rows[0])
    row["status"] = row.pop("phase_status")
    for name in ("parent_ready", "lane_open"):
        row[name] = bool(row[name])
    found = unit(**row)
    word = standing(found, Instant(START))
    if found.status is not Status.SUCCEEDED and found.archived_at is None:
        assert (word == "ready") == eligible(found, Instant(START))
    assert word


@pytest.mark.conforms("C-27")
def test_a_blocked_unit_is_never_eligible() -> None:
    free = unit()
    assert eligible(free, Instant(START))
    assert not eligible(msgspec.structs.replace(free, open_blockers=1), Instant(START))


def test_next_due_is_the_earliest(ground: Ground) -> None:
    assert glance.look(ground.read, "me", ground.now).unit_due is None
    ground.plant(adhoc=True)
    ground.plant(adhoc=True)
    ground.run("task/a1", o.Waiting(60, "x"))
    ground.run("task/a2", o.Waiting(20, "x"))
    assert glance.look(ground.read, "me", ground.now).unit_due == ground.now + 20_000
