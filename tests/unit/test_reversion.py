"""What a revert leaves in the rows, on both databases."""

from __future__ import annotations

from itertools import takewhile

import pytest

from sf.app.templates import BUILT_IN
from sf.domain import outcomes as o
from sf.domain.clock import SystemClock
from sf.domain.phases import Phase
from sf.domain.queue import standing
from sf.domain.units import HoldKind
from sf.harness import reversion
from sf.harness.reversion import Reverted
from sf.store import records, runs, units
from sf.store.connection import engine_of, writing
from sf.store.migrate import known
from sf.store.place import Place
from tests.support.ground import Ground
from tests.support.samples import milestone_plan, piece, task
from tests.support.stores import RULE_BROKEN, execute

M, S1, S2 = "milestone/m1", "slice/m1/s1", "slice/m1/s2"
T1 = "task/m1/s1/t1"
UNDONE = [Reverted("c" * 40, "Merge it", "d" * 40), Reverted("e" * 40, "Other", None)]


def planned(ground: Ground) -> None:
    ground.plant()
    ground.run(M, o.Done("researched"))
    ground.run(M, o.Planned(milestone_plan(piece("one", task("a")), piece("two", task("b")))))


def revert(ground: Ground, unit_id: str) -> list[str]:
    unit = ground.unit(unit_id)
    return ground.write(lambda tx: reversion.record(tx, unit, UNDONE, "t" * 40, ground.rules, ground.now))


def done(ground: Ground, *unit_ids: str) -> None:
    for unit_id in unit_ids:
        while not ground.unit(unit_id).terminal:
            ground.run(unit_id, o.Done())


def test_a_reverted_unit_is_not_done_any_more_and_nor_is_what_is_below_it(ground: Ground) -> None:
    planned(ground)
    ground.finish()
    assert ground.unit(M).succeeded
    before = units.tally(ground.read)
    assert revert(ground, M) == [M, S1, T1, S2, "task/m1/s2/t1"]
    for unit_id in (M, S1, T1):
        unit = ground.unit(unit_id)
        assert unit.reverted_at == ground.now and unit.completed and not unit.succeeded
        assert standing(unit, ground.now) == "reverted"
    assert before["slice"] == (2, 2) and units.tally(ground.read)["slice"] == (0, 2)
    assert {row["unit_id"] for row in runs.history(ground.read, verdict="reverted")} >= {M, S1, T1}
    assert runs.history(ground.read, verdict="success") == []
    told = [row for row in records.evidence(ground.read, M) if row["kind"] == "revert"]
    assert [row["commit_id"] for row in told] == ["d" * 40, None]
    assert "undone already" in told[1]["summary"]
    assert revert(ground, M) == [], "marks are set once"


def test_an_open_milestone_that_loses_a_slice_is_reassessed_when_the_last_one_closes(ground: Ground) -> None:
    planned(ground)
    done(ground, T1, S1)
    assert revert(ground, S1) == [S1, T1]
    assert ground.unit(M).phase is Phase.EXECUTE
    assert f"{S1} (one) was reverted" in ground.feedback(M)
    done(ground, "task/m1/s2/t1", S2)
    assert (ground.unit(M).phase, ground.unit(M).reassess_reason) == (Phase.REASSESS, "child_abandoned")


def test_what_builds_on_what_was_reverted_is_told(ground: Ground) -> None:
    """A slice was built and merged without the one that it needs, and nobody had said a word."""
    ground.plant()
    slices = piece("one", task("a")), piece("two", task("b"), after=("one",))
    ground.run(M, o.Done("researched"), o.Planned(milestone_plan(*slices)))
    done(ground, T1, S1)
    revert(ground, S1)
    for unit_id in (S2, "task/m1/s2/t1"):
        assert f"{S1} (one), which this work builds on, was reverted" in ground.feedback(unit_id)


def test_a_milestone_past_its_slices_is_reassessed_at_once(ground: Ground) -> None:
    planned(ground)
    done(ground, T1, S1, "task/m1/s2/t1", S2)
    assert ground.unit(M).phase is Phase.VERIFY
    revert(ground, T1)
    assert ground.unit(M).phase is Phase.REASSESS
    assert "was reverted by the operator" in ground.feedback(M)


def test_an_open_merge_conflict_below_is_resolved_by_the_revert(ground: Ground) -> None:
    planned(ground)
    done(ground, T1, S1, "task/m1/s2/t1")
    ground.run(S2, o.Held(HoldKind.MERGE_CONFLICT, "it conflicts"))
    assert ground.blockers(S2)
    revert(ground, M)
    assert ground.unit(S2).hold_kind is None and ground.blockers(S2) == []
    (row,) = ground.read.all("SELECT * FROM session_blockers WHERE event = 'MergeConflict'")
    assert row["resolved_by"] == "/sf revert"
    assert ground.unit(M).reverted_at is None, "it is still open"


def test_a_reverted_milestone_is_planned_again_by_a_reload(ground: Ground) -> None:
    entry = {"goal": "one", "workflow": "feature", "content": BUILT_IN["feature"], "branch": "main"}
    assert ground.intend("plan_reload", milestones=[entry])["added"] == [M]
    ground.intend("abandon", unit_id=M, reason="done elsewhere")
    assert ground.intend("plan_reload", milestones=[entry])["added"] == []
    revert(ground, M)
    assert ground.intend("plan_reload", milestones=[entry])["added"] == ["milestone/m2"]
    assert ground.intend("plan_reload", milestones=[entry])["added"] == []


def test_evidence_of_before_is_kept_and_a_revert_is_a_kind_of_it(place: Place) -> None:
    engine = engine_of(place)
    old = engine.connect_writing()
    old.begin()
    table = "CREATE TABLE schema_migrations (version INTEGER, applied_at INTEGER, description TEXT)"
    old.execute(engine.schema(table))
    for migration in takewhile(lambda item: item.description != "reverting", known()):
        for statement in migration.statements(engine):
            old.execute(statement)
        old.execute(f"INSERT INTO schema_migrations VALUES ({migration.version}, 1, 'x')")
    now = SystemClock().now()
    for statement in (
        f"INSERT INTO sessions (id, status, created_at, updated_at) VALUES ('s', 'idle', {now}, {now})",
        f"INSERT INTO workflow_pins VALUES ('h', 'feature', 'x', {now})",
        "INSERT INTO units (id, session_id, type, workflow, workflow_hash, phase, phase_status, phase_rank,"
        " title, created_at, updated_at)"
        f" VALUES ('task/a1', 's', 'task', 'f', 'h', 'plan', 'pending', 1, 't', {now}, {now})",
        f"INSERT INTO evidence VALUES ('e', 'task/a1', 'r', 'merge', 't', 'c', 'merged', {now})",
    ):
        old.execute(statement)
    old.commit()
    old.close()
    writing(engine).close()
    assert execute(place, "SELECT id, unit_id, run_id, kind, tree, commit_id, summary FROM evidence") == [
        ("e", "task/a1", "r", "merge", "t", "c", "merged")
    ]
    assert execute(place, "SELECT reverted_at FROM units") == [(None,)]
    insert = "INSERT INTO evidence (id, unit_id, run_id, kind, summary, recorded_at) VALUES"
    execute(place, f"{insert} ('f', 'task/a1', '', 'revert', 's', 1)")
    with pytest.raises(RULE_BROKEN):
        execute(place, f"{insert} ('g', 'task/a1', '', 'nonsense', 's', 1)")
    with pytest.raises(RULE_BROKEN):
        execute(place, f"{insert} ('f', 'task/a1', '', 'gate', 's', 1)")
