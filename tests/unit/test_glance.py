"""What a tick looks at first: one statement, on each kind of database."""

from __future__ import annotations

from pathlib import Path

from sf.domain import outcomes as o
from sf.domain.attention import Patience
from sf.domain.clock import Instant
from sf.scheduler import intents, upkeep
from sf.scheduler.claims import LEASE_MS
from sf.store import attention, glance, sessions, sql
from sf.store.connection import writing
from sf.store.glance import Glance
from sf.store.sqlite import SqliteEngine
from sf.store.tx import Tx
from tests.support.ground import Ground


def look(ground: Ground, holder: str = "me", station: str = "") -> Glance:
    return glance.look(ground.read, holder, ground.now, station)


def test_nothing_is_open_in_an_empty_store(ground: Ground) -> None:
    assert look(ground) == Glance(0, None, 0, None, None, 0, None, 0, 0)
    assert look(ground).next_due is None


def test_intents_and_the_session_are_seen(ground: Ground) -> None:
    ground.plant(adhoc=True)
    assert (look(ground).intents, look(ground).session) == (0, "idle")
    ground.write(lambda tx: sessions.intend(tx, "pause", {}, ground.now))
    assert look(ground).intents == 1
    session = sessions.current(ground.read)
    assert session is not None
    ground.write(lambda tx: sessions.set_status(tx, session["id"], "paused", ground.now))
    assert look(ground).session == "paused"


def test_only_claims_of_others_that_have_ended_are_expired(ground: Ground) -> None:
    task = ground.plant("spike", adhoc=True)
    assert ground.claim(task) is not None
    assert look(ground, "other").expired == 0, "it holds for a while"
    until = ground.unit(task).claim_until
    assert (look(ground, "other").next_due, look(ground, "me").next_due) == (until, None)
    ground.clock.advance(seconds=LEASE_MS / 1000 + 1)
    assert (look(ground, "other").expired, look(ground, "me").expired) == (1, 0)
    assert look(ground, "other").next_due is None


def test_a_run_of_ours_that_was_called_off_is_seen_until_it_ends(ground: Ground) -> None:
    task = ground.plant("spike", adhoc=True)
    lease = ground.claim(task)
    assert lease is not None and look(ground).called_off == 0
    ground.intend("abandon", unit_id=task, reason="enough")
    assert (look(ground).called_off, look(ground, "other").called_off) == (1, 0)
    assert intents.called_off_at_once(ground.read) == set(), "its run ends by itself"
    ground.intend("abandon", unit_id=task, reason="enough", now=True)
    assert intents.called_off_at_once(ground.read) == {task}
    ground.settle(lease, o.CalledOff("canceled_by_operator"))
    assert look(ground).called_off == 0


def test_a_look_reads_no_table_from_end_to_end(tmp_path: Path) -> None:
    connection = writing(SqliteEngine(tmp_path / "sf.db"))
    try:
        for name in ("units", "runs"):
            plan = connection.execute(
                f"EXPLAIN QUERY PLAN {sql.load('glance')['look']}", {"holder": "me", "now": 0, "station": ""}
            ).fetchall()
            read = [row["detail"] for row in plan if row["detail"].startswith(f"SCAN {name}")]
            assert not [line for line in read if "USING" not in line], read
    finally:
        connection.close()


def test_the_next_due_is_the_earlier_of_a_unit_and_a_question(ground: Ground) -> None:
    task = ground.plant("spike", adhoc=True)
    ground.run(task, o.Failed("turn_timeout", "too slow"))
    due = ground.unit(task).due_at
    assert due is not None and look(ground).next_due == look(ground).unit_due == due
    session_id = ground.unit(task).session_id
    early = Patience("yes", due - ground.now - 1)

    def ask(tx: Tx) -> None:
        attention.ask(tx, session_id, "blocked", "which?", ground.now, unit_id=task)
        attention.ask(tx, session_id, "blocked", "and now?", ground.now, unit_id=task, patience=early)

    ground.write(ask)
    assert (look(ground).questions, look(ground).next_due) == (2, Instant(due - 1))
    ground.write(lambda tx: attention.close_unit(tx, task, "me", ground.now))
    assert (look(ground).questions, look(ground).next_due) == (0, due)
    ground.write(lambda tx: tx.run("UPDATE units SET station = 'there'"))
    assert (look(ground, station="here").unit_due, look(ground, station="there").unit_due) == (None, due)


def test_a_clock_that_was_a_year_ahead_freezes_no_wait(ground: Ground) -> None:
    now = Instant(ground.now - 365 * 86_400_000)
    failed, touched, limited = (ground.plant("spike", adhoc=True) for _ in range(3))
    ground.run(failed, o.Failed("turn_timeout", "too slow"))
    ground.run(touched, o.Failed("turn_timeout", "too slow"))
    ground.run(limited, o.Waiting(7200, "come back later"))
    patience = Patience("$5", 3_600_000)
    session_id = ground.unit(failed).session_id

    def work(tx: Tx) -> None:
        attention.ask(tx, session_id, "session_budget", "more?", ground.now, patience=patience)
        tx.run("UPDATE units SET updated_at = :now WHERE id = :id", now=now, id=touched)
        for _ in range(2):
            upkeep.draw_in(tx, "", ground.rules, now)

    ground.write(work)
    longest = ground.rules.base.max_backoff_ms
    assert [ground.unit(name).due_at for name in (failed, touched, limited)] == [
        now + ground.rules.base.first_backoff_ms,
        now + longest,
        now + 7_200_000,
    ]
    assert look(ground).question_due == now + 3_600_000


def test_text_that_is_not_utf_8_is_written_with_its_bytes_escaped(ground: Ground) -> None:
    broken = b"caf\xe9".decode("utf-8", "surrogateescape")
    ground.write(lambda tx: tx.run("INSERT INTO workflow_pins VALUES ('h', :name, 'é', 1)", name=broken))
    row = ground.read.one("SELECT name, content FROM workflow_pins WHERE name = :name", name=broken)
    assert row is not None and (row["name"], row["content"]) == ("caf\\udce9", "é")
