"""Whole goals walked through a real database with random outcomes: nothing is lost and all of it ends."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from sf.domain import outcomes as o
from sf.domain.phases import Phase
from sf.domain.plans import TaskEntry
from sf.domain.queue import standing
from sf.domain.units import HoldKind, Status, Unit
from sf.store import attention, glance, leases, relations, units
from tests.support.ground import Ground, fresh_ground
from tests.support.samples import milestone_plan, piece, slice_plan, task, task_plan

_ANSWERS = {
    HoldKind.UAT: "uat_approve",
    HoldKind.ESCALATED: "reassess_resolve",
    HoldKind.BLOCKED: "reassess_resolve",
    HoldKind.MERGE_CONFLICT: "merge_resolve",
    HoldKind.NO_EVIDENCE: "merge_resolve",
    HoldKind.CHECKOUT_DIRTY: "merge_resolve",
}


def check_invariants(ground: Ground) -> None:
    """The columns that the queue reads say what the rows around them say."""
    everything = {unit.id: unit for unit in units.listed(ground.read, archived=True, most=10_000)}
    for unit in everything.values():
        children = [child for child in everything.values() if child.parent_id == unit.id]
        still_open = [child for child in children if child.archived_at is None]
        assert unit.open_children == len(still_open), unit.id
        upstream = relations.upstream(ground.read, unit.id)
        waiting = [other for other in upstream if other.archived_at is None]
        if not unit.terminal:
            assert unit.open_blockers == len(waiting), unit.id
        if unit.parent_id is not None and not unit.terminal:
            container = everything[unit.parent_id]
            assert unit.parent_ready == (container.phase is Phase.EXECUTE), unit.id
        if unit.hold_kind is not None:
            assert len(ground.blockers(unit.id)) == 1, unit.id
            assert len(attention.of_unit(ground.read, unit.id)) == 1, unit.id
        else:
            assert ground.blockers(unit.id) == [], unit.id
            assert attention.of_unit(ground.read, unit.id) == [], unit.id
        assert (unit.archived_at is not None) == unit.terminal, unit.id
    running = [unit for unit in everything.values() if unit.status is Status.RUNNING]
    assert len({unit.parent_id for unit in running if unit.in_slice}) == len(
        [u for u in running if u.in_slice]
    )


def random_plan(random: Random, unit: Unit) -> o.Planned:
    def tasks(prefix: str) -> list[TaskEntry]:
        names = [f"{prefix}{number}" for number in range(random.randint(1, 3))]
        return [
            task(name, *[n for n in names[:index] if random.random() < 0.4], complete=random.random() < 0.7)
            for index, name in enumerate(names)
        ]

    if unit.type == "task":
        return o.Planned(task_plan())
    if unit.type == "slice":
        return o.Planned(slice_plan(*tasks("t")))
    names = [f"s{number}" for number in range(random.randint(1, 3))]
    slices = [
        piece(name, *tasks(name), after=tuple(n for n in names[:index] if random.random() < 0.4))
        for index, name in enumerate(names)
    ]
    return o.Planned(milestone_plan(*slices))


def outcome(random: Random, unit: Unit, trouble: float) -> o.AnyOutcome:
    bad = random.random() < trouble
    if bad and random.random() < 0.5:
        faults: list[o.AnyOutcome] = [
            o.Failed("turn_failed", "dropped"),
            o.Crashed(),
            o.Interrupted("paused"),
            o.Waiting(5, "quota"),
            o.GaveUp("no"),
            o.WentStale("idle"),
            o.AskedHuman("which?"),
        ]
        return random.choice(faults)
    match unit.phase:
        case Phase.PLAN:
            return random_plan(random, unit)
        case Phase.REASSESS:
            return o.Reassessed(random.choice(["replan", "replan", "abandon", "escalate"]), "x")
        case Phase.VERIFY if bad:
            return o.GateFailed("gate", "red", final=random.random() < 0.3)
        case Phase.REVIEW if bad:
            return o.ChangesWanted("rename")
        case Phase.MERGE if bad:
            refusals: list[o.AnyOutcome] = [o.Conflict("both"), o.GateFailed("gate", "red")]
            return random.choice([*refusals, o.Held(HoldKind.CHECKOUT_DIRTY, "a")])
        case _:
            return o.Done()


def answer(ground: Ground, unit: Unit) -> None:
    """What the operator does about a parked unit."""
    assert unit.hold_kind is not None
    intent = _ANSWERS.get(unit.hold_kind)
    if intent is None:
        ground.intend("force_clear", blocker_id=ground.blockers(unit.id)[0]["id"])
    else:
        ground.intend(intent, unit_id=unit.id, answer="go on", reason="x")


def journey(ground: Ground, random: Random, trouble: float) -> None:
    """Run, answer and let time pass until nothing is open; trouble ends after a while, so that all ends."""
    for step in range(3000):
        ready = ground.ready()
        if ready:
            chosen = random.choice(ready)
            before = ground.ledger()
            ground.run(chosen, outcome(random, ground.unit(chosen), trouble if step < 150 else 0.0))
            after = ground.ledger()
            lowered = [key for key, value in before.items() if after[key] < value]
            assert all(key[2] == "gate" and after[key] == 0 for key in lowered), "a counter was lowered"
        elif held := units.held(ground.read):
            answer(ground, random.choice(held))
        elif glance.look(ground.read, "me", ground.now).unit_due is not None:
            ground.clock.advance(seconds=300)
        else:
            break
        if step % 5 == 0:
            check_invariants(ground)
    left = [u for u in units.listed(ground.read, archived=True, most=10_000) if not u.terminal]
    assert left == [], "stuck: " + ", ".join(f"{u.id} in {u.phase}: {standing(u, ground.now)}" for u in left)
    check_invariants(ground)


@settings(max_examples=30)
@given(
    st.sampled_from(["feature", "release", "spike"]), st.integers(0, 2**32), st.sampled_from([0.0, 0.2, 0.5])
)
def test_every_goal_ends_whatever_happens_on_the_way(workflow: str, seed: int, trouble: float) -> None:
    with fresh_ground() as ground:
        ground.plant(workflow)
        ground.plant(workflow, adhoc=True)
        journey(ground, Random(seed), trouble)


@settings(max_examples=20)
@given(st.sampled_from(["feature", "release"]), st.integers(0, 2**32), st.integers(1, 40))
def test_a_goal_can_be_abandoned_at_any_point_and_leaves_nothing_open(
    workflow: str, seed: int, steps: int
) -> None:
    random = Random(seed)
    with fresh_ground() as ground:
        ground.plant(workflow)
        held = []
        for _ in range(steps):
            ready = ground.ready()
            if any(unit.phase is Phase.MERGE for unit in leases.running(ground.read)):
                # Merges are made one at a time, and this one is never over.
                ready = [name for name in ready if ground.unit(name).phase is not Phase.MERGE]
            if not ready:
                break
            chosen = random.choice(ready)
            if random.random() < 0.2:
                lease = ground.claim(chosen)
                assert lease is not None
                held.append(lease)
            else:
                ground.run(chosen, outcome(random, ground.unit(chosen), 0.2))
        if not ground.unit("milestone/m1").terminal:
            ground.intend("abandon", unit_id="milestone/m1", reason="enough")
        assert ground.ready() == []
        for lease in held:
            ground.settle(lease, o.Done("too late"))
        assert [u.id for u in units.listed(ground.read)] == []
        assert ground.ready() == []
        check_invariants(ground)
