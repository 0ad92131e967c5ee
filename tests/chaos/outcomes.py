"""How runs end in the state machine: any outcome that a phase can have, or only those that lead on."""

from __future__ import annotations

from random import Random

from sf.domain import outcomes as o
from sf.domain.phases import Phase
from sf.domain.units import HoldKind, Unit
from sf.errors import Unreachable
from tests.unit.test_journeys import random_plan


def friendly(random: Random, unit: Unit) -> o.AnyOutcome:
    """The end that leads on."""
    match unit.phase:
        case Phase.PLAN:
            return random_plan(random, unit)
        case Phase.REASSESS:
            return o.Reassessed("replan", "again")
        case _:
            return o.Done()


def any_outcome(random: Random, unit: Unit) -> o.AnyOutcome:
    """Any end that the unit's phase can have."""
    found: list[o.AnyOutcome] = [
        o.Failed("turn_failed", "dropped"),
        o.Interrupted("paused"),
        o.Interrupted("shutdown"),
        o.Crashed(),
        o.Waiting(random.choice([0.0, 5.0, 3600.0]), "quota"),
        o.Waiting(None, "cannot reach it", Unreachable.code),
        o.Unconfigured("model_unavailable", "no key"),
        o.CalledOff("canceled_by_supervisor"),
        o.AskedHuman("which?"),
        o.GaveUp("no"),
        o.WentStale("idle"),
        o.Overspent("unit", unit.id, "no money", 5),
        o.Overspent("session", unit.session_id, "no money", 5),
    ]
    judged = o.GateFailed(
        random.choice(["unit", "slice"]),
        "red",
        limit=random.choice([None, 1, 2]),
        final=random.random() < 0.2,
    )
    of_phase: dict[Phase, list[o.AnyOutcome]] = {
        Phase.REASSESS: [o.Reassessed(random.choice(["replan", "abandon", "escalate"]), "x")],
        Phase.VERIFY: [judged],
        Phase.REVIEW: [o.ChangesWanted("rename")],
        Phase.MERGE: [
            judged,
            o.Conflict("both"),
            o.ChangesWanted("nothing to land", reason="its work is gone"),
            o.Held(HoldKind.CHECKOUT_DIRTY, "a"),
            o.Held(HoldKind.NO_EVIDENCE, "no gate"),
            o.Held(HoldKind.MERGE_CONFLICT, "markers"),
        ],
    }
    return random.choice([*found, *of_phase.get(unit.phase, []) * 3, friendly(random, unit)])
