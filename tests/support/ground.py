"""A project's ground: a real store on which units are planted, claimed, settled and answered for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import msgspec

from sf.app.templates import BUILT_IN
from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.events import Event
from sf.domain.invariants import faults
from sf.domain.phases import FORWARD, Phase
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.domain.workflows import parse
from sf.harness import planting, settle
from sf.harness.rules import Rules
from sf.harness.settle import Ending
from sf.scheduler import claims, intents
from sf.store import invariants, leases, sessions, units
from sf.store.connection import engine_of, writing
from sf.store.place import Place
from sf.store.tx import Row, Tx
from sf.testing.clock import FakeClock

T = TypeVar("T")
EVERY_PHASE = dict.fromkeys((*FORWARD, Phase.REASSESS), 10_000)
GATED = Rules(post_task=("gates/unit.sh",), post_slice=("gates/slice.sh",), post_milestone=("gates/all.sh",))


class Refused(AssertionError):
    """An intent was answered with an error."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer["error"])
        self.code: str = answer["code"]


class Ground:
    """One database, written synchronously; time is a fake clock's, and durability is not asked for."""

    def __init__(self, place: Place, rules: Rules = GATED) -> None:
        self.place = place
        self.rules = rules
        self.clock = FakeClock()
        self.events: list[Event] = []
        self.in_disorder = False
        """Set by a test that breaks rows on purpose."""
        self.connection = writing(engine_of(place))
        if isinstance(place, Path):
            self.connection.execute("PRAGMA synchronous = OFF")
        self.read = Tx(self.connection)

    def close(self) -> None:
        """Close the connection; whatever a test did through sf's own functions left the rows in order."""
        found = [] if self.in_disorder else faults(invariants.books(self.read))
        self.connection.close()
        assert found == []

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table."""
        return {
            table: sorted(
                (tuple(row[name] for name in row.keys()) for row in self.read.all(f"SELECT * FROM {table}")),  # noqa: SIM118
                key=repr,
            )
            for table in self.connection.tables()
        }

    @property
    def now(self) -> Instant:
        """The present instant."""
        return self.clock.now()

    def write(self, work: Callable[[Tx], T]) -> T:
        """One transaction; what it announced is appended to `events` after the commit."""
        tx = Tx(self.connection)
        self.connection.begin()
        try:
            value = work(tx)
            self.connection.commit()
        finally:
            self.connection.rollback()
        self.events += tx.events
        return value

    def plant(
        self, workflow: str = "feature", *, adhoc: bool = False, title: str = "a goal", content: str = ""
    ) -> str:
        """Plant a milestone, or an ad-hoc task; its id."""
        text = content or BUILT_IN[workflow]

        def work(tx: Tx) -> str:
            return planting.plant_goal(
                tx,
                self.rules,
                title=title,
                description="",
                workflow=parse(text, workflow),
                content=text,
                session_id=sessions.ensure(tx, self.now, "main"),
                now=self.now,
                adhoc=adhoc,
            )

        return self.write(work)

    def unit(self, unit_id: str) -> Unit:
        """The unit as its row says."""
        return units.get(self.read, unit_id)

    def ready(self) -> list[str]:
        """The ids that could be dispatched now."""
        self.write(lambda tx: leases.wake_due(tx, self.now))
        return [unit.id for unit in leases.ready(self.read, EVERY_PHASE)]

    def claim(self, unit_id: str, holder: str = "me", *, out_of_turn: bool = False) -> Lease | None:
        """Take a unit as the loop would; what is told of it is what its row says."""
        unit = self.unit(unit_id)
        take = claims.take_out_of_turn if out_of_turn else claims.take
        claimed = self.write(
            lambda tx: take(tx, unit, holder=holder, host="host", rules=self.rules, now=self.now)
        )
        if claimed is None:
            return None
        assert claimed[0] == self.unit(unit_id)
        return claimed[1]

    def settle(self, lease: Lease, outcome: o.AnyOutcome, ending: Ending | None = None) -> Unit:
        """End a run; what is told of its unit is what its row says."""
        settled = self.write(
            lambda tx: settle.settle(tx, lease, outcome, ending or Ending(), self.rules, self.now)
        )
        # The end of the last child moves the container on, and that is written to its children.
        there = msgspec.structs.replace(self.unit(lease.unit_id), parent_ready=settled.parent_ready)
        assert settled == there
        return settled

    def run(self, unit_id: str, *outcomes: o.AnyOutcome) -> Unit:
        """Claim and settle a unit once for each outcome; every claim must succeed on a ready unit."""
        for outcome in outcomes:
            assert unit_id in self.ready(), f"{unit_id} is not ready: {self.unit(unit_id)}"
            lease = self.claim(unit_id)
            assert lease is not None
            self.settle(lease, outcome)
        return self.unit(unit_id)

    def finish(self, *, most: int = 500) -> None:
        """Let every run succeed until nothing is ready."""
        for _ in range(most):
            waiting = [unit_id for unit_id in self.ready() if self.unit(unit_id).phase is not Phase.PLAN]
            if not waiting:
                return
            self.run(waiting[0], o.Done())
        raise AssertionError(f"not finished after {most} runs")

    def intend(self, kind: str, **payload: Any) -> dict[str, Any]:
        """Have an intent applied; its answer. Raises Refused."""

        def work(tx: Tx) -> tuple[bool, dict[str, Any]]:
            intent_id = sessions.intend(tx, kind, payload, self.now)
            row = sessions.intent(tx, intent_id)
            assert row is not None
            answer = intents.apply_one(tx, row, self.rules, self.now)
            done = sessions.intent(tx, intent_id)
            assert done is not None
            return bool(done["ok"]), answer

        ok, answer = self.write(work)
        if not ok:
            raise Refused(answer)
        return answer

    def trail(self, unit_id: str) -> list[str]:
        """The phases that a unit was moved to, in order."""
        return [row["to_phase"] for row in units.transitions(self.read, unit_id)]

    def ledger(self) -> dict[tuple[str, int, str, str], int]:
        """Every counter."""
        rows = self.read.all("SELECT unit_id, plan_version, kind, key, count FROM attempt_ledger")
        return {(row[0], row[1], row[2], row[3]): row[4] for row in rows}

    def blockers(self, unit_id: str) -> list[Row]:
        """The open blockers of a unit that hold it; a refusing gate's only tells."""
        return list(
            self.read.all(
                "SELECT * FROM session_blockers"
                " WHERE unit_id = :id AND resolved_at IS NULL AND event <> 'GateBlocked'",
                id=unit_id,
            )
        )

    def feedback(self, unit_id: str) -> str:
        """Everything that a unit was told, read or not."""
        rows = self.read.all("SELECT text FROM feedback WHERE unit_id = :id ORDER BY id", id=unit_id)
        return "\n".join(row["text"] for row in rows)


def plant_tasks(tx: Tx, count: int = 1) -> list[str]:
    """Plant ad-hoc tasks in a transaction of the caller's; their ids."""
    now = FakeClock().now()
    session_id = sessions.ensure(tx, now, "main")
    return [
        planting.plant_goal(
            tx,
            Rules(),
            title=f"task {number}",
            description="",
            workflow=parse(BUILT_IN["feature"], "feature"),
            content=BUILT_IN["feature"],
            session_id=session_id,
            now=now,
            adhoc=True,
        )
        for number in range(count)
    ]


@contextmanager
def fresh_ground(rules: Rules = GATED) -> Iterator[Ground]:
    """A ground in a folder of its own, for property tests, which share no fixture between examples."""
    with TemporaryDirectory() as folder:
        ground = Ground(Path(folder) / "sf.db", rules)
        try:
            yield ground
        finally:
            ground.close()
