"""The store on real databases of both kinds: claims, fencing, rows and their constraints."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest

from sf.domain import ids
from sf.domain import outcomes as o
from sf.domain.budget import Budget
from sf.domain.clock import Instant
from sf.domain.decide import Counter as LedgerCounter
from sf.domain.dialogue import Usage
from sf.domain.ids import ulid
from sf.domain.runs import AttemptState, Lease, TurnKind
from sf.domain.units import Merging, Status, Unit
from sf.errors import LeaseLost, StoreUnusable, UnknownUnit
from sf.harness.rules import Rules
from sf.harness.settle import Ending
from sf.scheduler import claims, intents
from sf.store import attention, leases, ledger, records, runs, sessions, spending, units
from sf.store.connection import open_reader, transact
from sf.store.database import Database
from sf.store.place import Place
from sf.store.runs import TurnRecord
from sf.store.tx import Tx
from sf.testing.clock import START
from tests.support.ground import EVERY_PHASE, Ground, plant_tasks
from tests.support.stores import RULE_BROKEN, columns

NOW = Instant(START)
A = "task/a1"


# --- rows ---


def test_a_unit_is_the_same_however_it_is_read(place: Place) -> None:
    """By its columns or as a whole: every column, and what is awkward to write down."""

    def fill(tx: Tx) -> None:
        plant_tasks(tx, 3)
        units.set_metadata(tx, "task/a1", {"said": 'a "quoted"\n\x01\u00e9\u4e16', "n": [1, None, True]})
        tx.run(
            "UPDATE units SET title = :title, description = :text, plan = :plan, priority = -3, "
            "claim_holder = 'h', claim_until = 9007199254740993, due_at = 5, hold_kind = 'escalated', "
            "hold_detail = :text, reassess_reason = 'stale', verdict = 'abandoned', worker_host = 'w', "
            "workspace = '/w', branch = 'sf/b', base_commit = 'c', archived_at = 6, reverted_at = 7, "
            "station = 's', parent_ready = 0, lane_open = 0, open_children = 2, open_blockers = 1 "
            "WHERE id = 'task/a1'",
            title='it\'s "a" \\ title\t\u00fc',
            text="\n".join(chr(code) for code in (*range(1, 256), 0x2028, 0x1F600)),
            plan='{"goal": "g", "deliverables": ["d"]}',
        )
        units.set_merging(tx, "task/a2", Merging("p", "label", ("x.other",), "t", "r"), NOW)
        tx.run("UPDATE units SET merge_parent = 'old', merge_marks = NULL WHERE id = 'task/a3'")

    transact(place, fill)
    read = open_reader(place)
    by_columns = units.listed(read, archived=True)
    assert [units.get(read, unit.id) for unit in by_columns] == by_columns
    rich = by_columns[0]
    assert rich.metadata["n"] == [1, None, True] and rich.claim_until == 9007199254740993
    assert rich.parent_ready is False and by_columns[1].parent_ready is True
    assert by_columns[1].merging == Merging("p", "label", ("x.other",), "t", "r")
    assert by_columns[2].merging == Merging("old", label="old")


@pytest.mark.parametrize(
    "damage",
    ["metadata = '[]'", "metadata = 'null'", "plan = '[]'", "plan = '5'", "plan = '{'", "phase = 'later'"],
)
def test_a_row_that_cannot_be_read_is_named(place: Place, damage: str) -> None:
    transact(place, plant_tasks)
    transact(place, lambda tx: tx.run(f"UPDATE units SET {damage} WHERE id = 'task/a1'"))
    read = open_reader(place)
    with pytest.raises(StoreUnusable, match="the row of task/a1 cannot be read"):
        units.get(read, "task/a1")
    with pytest.raises(StoreUnusable, match="the row of task/a1 cannot be read"):
        leases.ready(read, EVERY_PHASE)


def test_a_row_with_a_number_that_json_does_not_know_is_named(tmp_path: Path) -> None:
    transact(tmp_path / "sf.db", plant_tasks)
    transact(tmp_path / "sf.db", lambda tx: tx.run("UPDATE units SET priority = 9e999"))
    with pytest.raises(StoreUnusable, match="the row of task/a1 cannot be read"):
        units.get(open_reader(tmp_path / "sf.db"), "task/a1")


def test_what_is_ready_is_read_as_it_is(place: Place) -> None:
    transact(place, lambda tx: plant_tasks(tx, 3))
    read = open_reader(place)
    assert leases.ready(read, EVERY_PHASE) == units.listed(read)


# --- claims and fencing ---


@pytest.mark.conforms("C-47")
def test_racing_connections_claim_each_unit_exactly_once(place: Place) -> None:
    transact(place, lambda tx: plant_tasks(tx, 100))
    won: Counter[str] = Counter()
    ready = leases.ready(open_reader(place), EVERY_PHASE)
    barrier = threading.Barrier(2)

    async def contend(database: Database, holder: str) -> list[str]:
        async def one(unit_id: str) -> str | None:
            unit = next(u for u in ready if u.id == unit_id)
            claimed = await database.write(
                lambda tx: claims.take(tx, unit, holder=holder, host="h", rules=Rules(), now=NOW)
            )
            return unit_id if claimed else None

        found = await asyncio.gather(*(one(unit.id) for unit in ready))
        return [unit_id for unit_id in found if unit_id is not None]

    def work(holder: str) -> None:
        database = Database(place)
        try:
            barrier.wait(timeout=10)
            won.update(asyncio.run(contend(database, holder)))
        finally:
            database.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(won) == 100
    assert set(won.values()) == {1}
    reader = open_reader(place)
    assert {unit.attempt for unit in leases.running(reader)} == {1}
    assert len(runs.live(reader)) == 100


@pytest.mark.conforms("C-47")
def test_a_claimed_unit_cannot_be_claimed_again_until_its_lease_ends(ground: Ground) -> None:
    ground.plant(adhoc=True)
    stale = ground.unit(A)
    assert ground.claim(A, "first") is not None

    def again(tx: Tx) -> tuple[Unit, Lease] | None:
        return claims.take(tx, stale, holder="second", host="h", rules=Rules(), now=ground.now)

    assert ground.write(again) is None
    assert ground.unit(A).claim_holder == "first"
    assert len(runs.of_unit(ground.read, A)) == 1


@pytest.mark.conforms("C-47")
def test_the_update_that_claims_is_conditional_by_itself(ground: Ground) -> None:
    ground.in_disorder = True
    ground.plant(adhoc=True)
    stale = ground.unit(A)
    until = Instant(ground.now + 1000)

    def claim(holder: str) -> Unit | None:
        return ground.write(
            lambda tx: leases.claim(tx, stale, holder=holder, host="h", until=until, now=ground.now)
        )

    assert claim("first") == ground.unit(A)
    assert claim("second") is None
    assert ground.unit(A).claim_holder == "first"


@pytest.mark.conforms("C-49")
def test_the_attempt_counter_and_the_run_row_change_together(ground: Ground) -> None:
    ground.plant(adhoc=True)
    for number in (1, 2, 3):
        ground.run(A, o.Interrupted("paused"))
        assert ground.unit(A).attempt == number
        assert [run.attempt for run in runs.of_unit(ground.read, A)] == list(range(1, number + 1))
    ground.connection.execute(
        "INSERT INTO runs (id, run_kind, agent_name_snap, started_at) VALUES ('x', 'agent_run', 'another', 1)"
    )
    ground.connection.execute(
        "CREATE UNIQUE INDEX one_at_a_time ON runs(plan_version) WHERE ended_at IS NULL"
    )
    with pytest.raises(RULE_BROKEN):
        ground.claim(A)
    assert ground.unit(A).attempt == 3, "a run that has no row was not begun"
    assert ground.unit(A).status is Status.INTERRUPTED


def test_a_settle_with_an_old_attempt_or_another_holder_changes_nothing(ground: Ground) -> None:
    ground.plant(adhoc=True)
    old = ground.claim(A, "first")
    assert old is not None
    ground.settle(old, o.Crashed())
    new = ground.claim(A, "second")
    assert new is not None
    before = ground.dump()
    impostor = Lease(A, new.run_id, new.attempt, "first")
    for lease in (old, impostor):
        with pytest.raises(LeaseLost):
            ground.settle(lease, o.Done("late"))
    assert ground.dump() == before


def test_a_turn_under_a_lost_lease_is_not_written(ground: Ground) -> None:
    ground.plant(adhoc=True)
    old = ground.claim(A)
    assert old is not None
    ground.settle(old, o.Crashed())
    record = turn_record(1)
    with pytest.raises(LeaseLost):
        ground.write(lambda tx: runs.record_turn(tx, old, record, ground.now))
    assert runs.turns(ground.read, old.run_id) == []


def test_a_holder_renews_its_own_claims_only_and_expired_ones_are_found(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.plant(adhoc=True)
    ground.claim(A, "me")
    ground.claim("task/a2", "other")
    later = Instant(ground.now + claims.LEASE_MS + 1)
    assert ground.write(lambda tx: leases.renew(tx, "me", Instant(later + 60_000))) == 1
    assert [unit.id for unit in leases.expired(ground.read, "me", later)] == ["task/a2"]
    assert leases.expired(ground.read, "other", later) == []


# --- rows and constraints ---


def turn_record(turn: int, cost: int = 0) -> TurnRecord:
    return TurnRecord(
        turn=turn,
        kind=TurnKind.FIRST if turn == 1 else TurnKind.CONTINUATION,
        model="script:x",
        marker=None,
        tool_calls=2,
        usage=Usage(input_tokens=100, output_tokens=10, cache_read_tokens=50, cost_micro_usd=cost),
        budget=Budget(1000, 0.8, 0.95, used_tokens=110 * turn),
        messages=(b"one", b"two"),
    )


@pytest.mark.conforms("C-48")
def test_a_run_belongs_to_a_unit_or_to_an_agent_and_never_to_both(ground: Ground) -> None:
    ground.in_disorder = True
    ground.plant(adhoc=True)

    def insert(kind: str, unit_id: str | None, agent: str | None, attempt: int | None) -> None:
        ground.connection.execute(
            "INSERT INTO runs (id, run_kind, unit_id, unit_id_snap, agent_name_snap, attempt, started_at)"
            " VALUES (:id, :kind, :unit, :unit, :agent, :attempt, 1)",
            {"id": ulid(), "kind": kind, "unit": unit_id, "agent": agent, "attempt": attempt},
        )

    insert("unit_attempt", A, None, 1)
    insert("agent_run", None, "builder", None)
    for wrong in (
        ("unit_attempt", A, "builder", 1),
        ("unit_attempt", None, None, 1),
        ("unit_attempt", A, None, None),
        ("agent_run", A, "builder", None),
        ("agent_run", None, None, None),
        ("agent_run", None, "builder", 1),
        ("something", A, None, 1),
    ):
        with pytest.raises(RULE_BROKEN):
            insert(*wrong)


@pytest.mark.conforms("C-48", "C-69")
def test_a_finished_run_rolls_up_what_its_turns_spent_in_whole_micro_dollars(ground: Ground) -> None:
    ground.plant(adhoc=True)
    lease = ground.claim(A)
    assert lease is not None
    by = spending.payer(ground.read, ground.unit(A))

    def write(tx: Tx) -> None:
        for turn in (1, 2, 3):
            record = turn_record(turn, cost=1)
            runs.record_turn(tx, lease, record, ground.now)
            spending.record(tx, lease, by, model=record.model, usage=record.usage, now=ground.now)

    ground.write(write)
    ground.settle(lease, o.Done())
    run = runs.get(ground.read, lease.run_id)
    assert run is not None
    assert (run.turns, run.input_tokens, run.output_tokens, run.cache_read_tokens) == (3, 300, 30, 150)
    assert run.cost_micro_usd == 3
    totals = runs.totals_of_unit(ground.read, A)
    assert (totals["runs"], totals["cost_micro_usd"]) == (1, 3)
    assert [row["content"] for row in runs.messages(ground.read, lease.run_id)] == [b"one", b"two"] * 3


@pytest.mark.conforms("C-69")
def test_every_cost_column_is_a_whole_number_of_micro_dollars(ground: Ground) -> None:
    types = columns(ground.connection, ground.place)
    costs = {key: kind for key, kind in types.items() if "cost" in key[1] or "usd" in key[1]}
    assert len(costs) >= 2
    assert all(name.endswith("_micro_usd") for _, name in costs)
    assert set(costs.values()) <= {"INTEGER", "BIGINT"}


@pytest.mark.conforms("C-59")
def test_a_run_outlives_its_unit_and_keeps_its_name(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, o.Interrupted("paused"))
    ground.connection.execute("DELETE FROM phase_transitions")
    ground.connection.execute("DELETE FROM units WHERE id = :id", {"id": A})
    row = ground.read.one("SELECT unit_id, unit_id_snap FROM runs")
    assert row is not None
    assert (row["unit_id"], row["unit_id_snap"]) == (None, A)
    assert [run.unit_id for run in runs.of_unit(ground.read, A)] == [A]


@pytest.mark.conforms("C-58")
def test_closing_archives_the_row_and_keeps_its_runs(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, o.Interrupted("paused"))
    ground.intend("abandon", unit_id=A, reason="no")
    assert ground.unit(A).archived_at is not None
    assert units.listed(ground.read) == []
    assert [unit.id for unit in units.listed(ground.read, archived=True)] == [A]
    assert len(runs.of_unit(ground.read, A)) == 1


@pytest.mark.conforms("C-58")
def test_the_keys_of_runtime_rows_are_ulids(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, o.AskedHuman("which?"))
    ground.intend("reassess_resolve", unit_id=A, answer="x")
    for table in ("sessions", "runs", "phase_transitions", "feedback", "session_blockers", "intents"):
        for row in ground.read.all(f"SELECT id FROM {table}"):
            assert len(row["id"]) == 26, table
            assert set(row["id"]) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ"), table


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sessions SET updated_at = :now",
        "UPDATE intents SET applied_at = :now",
        "UPDATE attention SET closed_at = :now",
        "UPDATE runs SET ended_at = :now",
    ],
)
def test_the_last_deed_is_the_newest_of_all_that_is_done(ground: Ground, statement: str) -> None:
    ground.plant(adhoc=True)
    assert ground.claim(A) is not None
    session_id = ground.unit(A).session_id
    ground.write(lambda tx: sessions.intend(tx, "pause", {}, NOW))
    ground.write(lambda tx: attention.ask(tx, session_id, "a_kind", "what?", NOW))
    assert sessions.last_deed(ground.read) == ground.now
    later = Instant(ground.now + 1000)
    ground.write(lambda tx: tx.run(statement, now=later))
    assert sessions.last_deed(ground.read) == later
    ground.in_disorder = True


AHEAD = "02" + ulid()[2:]
"""An id made while the clock was decades ahead."""


def test_rows_come_after_those_of_a_clock_that_was_ahead(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = f"INSERT INTO intents (id, kind, payload, created_at) VALUES ('{AHEAD}', 'first', '{{}}', 1)"
    transact(place, lambda tx: tx.run(row))
    for kind in ("second", "third"):
        # The process of a command: it has made no id yet.
        monkeypatch.setattr(ids, "_ULIDS", ids._Ulids())
        transact(place, lambda tx, kind=kind: sessions.intend(tx, kind, {}, NOW))  # type: ignore[misc]
    found = [row["kind"] for row in sessions.open_intents(open_reader(place))]
    assert found == ["first", "second", "third"]


def test_what_is_asked_for_comes_after_rows_of_another_machine(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "_ULIDS", ids._Ulids())
    ground.plant(adhoc=True)
    row = f"INSERT INTO feedback (id, unit_id, text, created_at) VALUES ('{AHEAD}', '{A}', 'older', 1)"
    ground.write(lambda tx: tx.run(row))
    ground.write(lambda tx: intents.apply_open(tx, ground.rules, ground.now))
    ground.write(lambda tx: records.give_feedback(tx, A, "newer", ground.now))
    assert records.unread_feedback(ground.read, A)[0] == "older\n\nnewer"


def test_an_unknown_unit_is_a_typed_mistake(ground: Ground) -> None:
    with pytest.raises(UnknownUnit) as missing:
        units.get(ground.read, "task/a99")
    assert missing.value.code == "unknown_unit"
    assert units.find(ground.read, "task/a99") is None


def test_feedback_is_joined_until_a_run_has_acted_on_it(ground: Ground) -> None:
    ground.plant(adhoc=True)
    for text in ("first", "second"):
        ground.write(lambda tx, text=text: records.give_feedback(tx, A, text, ground.now))  # type: ignore[misc]
    text, last = records.unread_feedback(ground.read, A)
    assert text == "first\n\nsecond"
    lease = ground.claim(A)
    assert lease is not None
    ground.write(lambda tx: records.give_feedback(tx, A, "came meanwhile", ground.now))
    ground.settle(lease, o.Done(), Ending(feedback_read=last))
    assert records.unread_feedback(ground.read, A)[0] == "came meanwhile"


def test_a_failed_run_leaves_its_feedback_unread(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.write(lambda tx: records.give_feedback(tx, A, "the finding", ground.now))
    lease = ground.claim(A)
    assert lease is not None
    _, last = records.unread_feedback(ground.read, A)
    ground.settle(lease, o.Failed("turn_failed", "dropped"), Ending(feedback_read=last))
    assert records.unread_feedback(ground.read, A)[0] == "the finding\n\nturn_failed: dropped"


def test_a_counter_belongs_to_a_plan_and_replans_to_the_whole_life(ground: Ground) -> None:
    ground.plant(adhoc=True)
    ground.run(A, o.Failed("x", "y"))
    assert ledger.counts(ground.read, ground.unit(A)).tries == 1
    ground.clock.advance(seconds=300)
    ground.run(A, o.GaveUp("no"), o.Reassessed("replan", "again"))
    counts = ledger.counts(ground.read, ground.unit(A))
    assert (counts.tries, counts.replans) == (0, 1)
    assert ledger.count(ground.read, ground.unit(A), LedgerCounter("replans")) == 1


def test_a_tree_is_proven_only_by_every_gate_on_exactly_that_tree(ground: Ground) -> None:
    ground.plant(adhoc=True)

    def passed(gate: str, tree: str, code: int = 0, script: str = "v1") -> None:
        record = records.GateRecord(gate, code in (0, 3), code, 0, 3, tree, False, script, "", 1)
        ground.write(lambda tx: records.gate_result(tx, A, "run", record, ground.now))

    both = [("unit", "v1"), ("slice", "v1")]
    passed("unit", "tree-1")
    passed("slice", "tree-2")
    assert not records.is_proven(ground.read, A, "tree-1", both, clean=False)
    passed("slice", "tree-1", code=3)
    assert not records.is_proven(ground.read, A, "tree-1", both, clean=False), (
        "a gate that skipped proves nothing"
    )
    passed("slice", "tree-1", script="v0")
    assert not records.is_proven(ground.read, A, "tree-1", both, clean=False), "another script proves nothing"
    passed("slice", "tree-1")
    assert records.is_proven(ground.read, A, "tree-1", both, clean=False)
    assert not records.is_proven(ground.read, A, "tree-1", [], clean=False), "no gate is no proof"


def test_a_run_at_its_turns_says_so_with_its_model(ground: Ground) -> None:
    ground.plant(adhoc=True)
    lease = ground.claim(A)
    assert lease is not None
    turn = runs.TurnRecord(1, TurnKind.FIRST, "anthropic:m", None, 0, Usage(), Budget(10, 0.5, 0.9), ())
    ground.write(lambda tx: runs.record_turn(tx, lease, turn, ground.now))
    run = runs.get(ground.read, lease.run_id)
    assert run is not None and (run.state, run.model) == (AttemptState.STREAMING_TURN, "anthropic:m")
