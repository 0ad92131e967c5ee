"""A store and its model, driven together: each function does one thing to both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from sf.app.templates import BUILT_IN
from sf.domain import outcomes as o
from sf.domain.budget import Budget
from sf.domain.clock import Instant
from sf.domain.dialogue import Usage
from sf.domain.limits import Limits
from sf.domain.runs import Lease, TurnKind
from sf.domain.spending import Caps
from sf.domain.units import Unit
from sf.domain.workflows import parse
from sf.errors import LeaseLost
from sf.harness import settle
from sf.scheduler import claims, recovery
from sf.store import leases, runs, spending
from sf.store.runs import TurnRecord
from sf.store.tx import Tx
from sf.testing.clock import FakeClock
from tests.chaos.agreement import check
from tests.chaos.model import Model
from tests.chaos.outcomes import friendly
from tests.chaos.piece import Piece
from tests.support.ground import GATED, Ground

HOLDERS = ("left", "right", "third")
LIMITS = Limits(max_attempts=3, max_interruptions=3, max_runs=14, max_waits=3)
_ANSWERS = {
    "uat": "approve",
    "escalated": "do it so",
    "blocked": "the red one",
    "budget": "5",
    "crash_loop": "again",
    "run_limit": "again",
}
_BOUND = 4000


class Jumpy(FakeClock):
    """A wall clock that someone sets, forward or back."""

    def jump(self, milliseconds: int) -> None:
        """Set it."""
        self._now += milliseconds


class Held(msgspec.Struct, frozen=True):
    """A run under way."""

    piece: Piece
    lease: Lease


class Driven:
    """One database, one model, the leases that are out and those that were lost."""

    def __init__(self, folder: str, workflow: str) -> None:
        rules = msgspec.structs.replace(GATED, base=LIMITS)
        self.ground = Ground(Path(folder) / "sf.db", rules)
        self.clock = self.ground.clock = Jumpy()
        self.workflow = workflow
        parsed = parse(BUILT_IN[workflow], workflow)
        self.model = Model(parsed, rules.limits(parsed))
        self.model.now = self.clock.now()
        self.goals: list[str] = []
        self.held: list[Held] = []
        self.lost: list[Lease] = []
        self.seen: list[Unit] = []
        self.paused = False
        self.counted: dict[tuple[str, int, str, str], int] = {}

    def close(self) -> None:
        """Close the database."""
        self.ground.close()

    def may_claim(self) -> list[Piece]:
        """What an orchestrator would dispatch now."""
        if self.paused:
            return []
        return [self.model.pieces[name] for name in sorted(self.model.ready())]

    def parked(self) -> list[Piece]:
        """Units that wait for a person."""
        return [piece for piece in self.model.open_pieces() if piece.hold is not None]

    # --- planting and running ---

    def plant(self, *, adhoc: bool) -> None:
        """State a goal."""
        name = self.ground.plant(self.workflow, adhoc=adhoc)
        self.goals.append(name)
        self.model.goal(name)

    def take(self, seen: Unit, holder: str, *, out_of_turn: bool = False) -> Lease | None:
        """Claim as someone who looked at some time."""
        by, rules, now = claims.Claimant(holder, "h"), self.ground.rules, self.ground.now
        taken, _ = self.ground.write(
            lambda tx: claims.take_seen(tx, [seen], by, rules, now, out_of_turn=out_of_turn)
        )
        return taken[0][1] if taken else None

    def claim(self, piece: Piece, holder: str, *, out_of_turn: bool = False) -> None:
        """Take a unit that is ready; at its limit it is parked."""
        seen = self.ground.unit(piece.id)
        self.seen = [*self.seen[-5:], seen]
        lease = self.take(seen, holder, out_of_turn=out_of_turn)
        if piece.attempt < piece.allowance and self.model.must_wait_to_merge(piece):
            assert lease is None, "two merges at once"
            return
        if not self.model.claim(piece, holder):
            assert lease is None
            return
        assert lease is not None, f"{piece.id} could not be claimed"
        assert lease.attempt == piece.attempt
        assert all(run.piece is not piece for run in self.held), "claimed twice"
        self.held.append(Held(piece, lease))
        payer = spending.payer(self.ground.read, seen)
        self.ground.write(
            lambda tx: spending.reserve(
                tx, lease, payer, model="m", estimate=7, caps=Caps(), now=self.ground.now
            )
        )

    def finish(self, run: Held, outcome: o.AnyOutcome) -> None:
        """End a run under its lease."""
        self.ground.settle(run.lease, outcome)
        self.model.finish(run.piece, outcome)
        self._let_go(run)

    def _let_go(self, run: Held) -> None:
        self.held.remove(run)
        self.lost = [*self.lost[-7:], run.lease]
        self.refuse_late(run.lease)

    def late_writes(self, lease: Lease) -> list[Callable[[Tx], object]]:
        """Everything that a run writes, as one who has lost its lease would."""
        now, rules = self.ground.now, self.ground.rules
        payer = spending.payer(self.ground.read, self.ground.unit(lease.unit_id))
        record = TurnRecord(1, TurnKind.FIRST, "m", None, 0, Usage(), Budget(10, 0.5, 0.9), (b"late",))
        return [
            lambda tx: settle.settle(tx, lease, o.Done("late"), settle.Ending(tree="t"), rules, now),
            lambda tx: runs.record_turn(tx, lease, record, now),
            lambda tx: spending.reserve(tx, lease, payer, model="m", estimate=1, caps=Caps(), now=now),
            lambda tx: leases.require_lease(tx, lease),
        ]

    def refuse_late(self, lease: Lease) -> None:
        """Nothing can be written under a lease that was lost."""
        before = self.row_counts()
        for write in self.late_writes(lease):
            try:
                self.ground.write(write)
            except LeaseLost:
                continue
            raise AssertionError(f"run {lease.run_id} of {lease.unit_id} wrote without a lease")
        assert self.row_counts() == before

    def row_counts(self) -> dict[str, int]:
        """How many rows each table has."""
        read = self.ground.read
        found = {
            name: read.one(f"SELECT COUNT(*) AS n FROM {name}") for name in self.ground.connection.tables()
        }
        return {name: row["n"] for name, row in found.items() if row is not None}

    # --- the operator ---

    def abandon(self, piece: Piece) -> None:
        """Call a unit off."""
        self.ground.intend("abandon", unit_id=piece.id, reason="enough")
        self.model.cancel(piece)

    def force(self, piece: Piece, holder: str) -> None:
        """Dispatch out of turn."""
        self.ground.intend("force_dispatch", unit_id=piece.id)
        if piece.attempt < piece.allowance:
            piece.needs.clear()
            self.model.arrive(piece)
        self.claim(piece, holder, out_of_turn=True)

    def pause_or_resume(self) -> None:
        """The other of the two."""
        self.ground.intend("resume" if self.paused else "pause", reason="x")
        self.paused = not self.paused

    def answer(self, piece: Piece, how: str) -> None:
        """What a person says to a parked unit."""
        kind = str(piece.hold)
        if how == "force":
            self.ground.intend("force_clear", blocker_id=self.ground.blockers(piece.id)[0]["id"])
            self._released(piece, kind, accepted=False)
        elif how == "abandon":
            self.ground.intend("reply", question_id=piece.id, answer="abandon")
            self.model.cancel(piece)
        else:
            refused = how == "refuse" and kind == "uat"
            said = "reject: no" if refused else _ANSWERS.get(kind, "retry")
            self.ground.intend("reply", question_id=piece.id, answer=said)
            if kind == "merge_conflict":
                piece.hold = None
            else:
                self._released(piece, kind, accepted=not refused)

    def _released(self, piece: Piece, kind: str, *, accepted: bool) -> None:
        if kind == "uat" and accepted:
            self.model.forward(piece)
        elif kind in ("uat", "merge_conflict"):
            self.model.enter(piece, "reassess")
        elif kind == "escalated":
            self.model.replan(piece)
        else:
            piece.hold = None
            if kind == "run_limit":
                piece.allowance = piece.attempt + 100

    # --- trouble ---

    def crash(self) -> None:
        """Every process is gone, and one starts again."""
        self.ground.write(lambda tx: recovery.interrupt_all(tx, "", self.ground.rules, self.ground.now))
        for run in list(self.held):
            self.model.finish(run.piece, o.Crashed())
            self._let_go(run)

    def renew(self, holder: str) -> None:
        """A live holder extends what it holds."""
        until = Instant(self.clock.now() + claims.LEASE_MS)
        self.ground.write(lambda tx: leases.renew(tx, holder, until))
        for piece in self.model.pieces.values():
            if piece.holder == holder and piece.status in ("running", "canceled"):
                piece.until = until

    def sweep(self, holder: str) -> None:
        """A holder ends the runs of others whose lease is over, and never its own."""
        self.ground.write(lambda tx: recovery.sweep(tx, holder, "", self.ground.rules, self.ground.now))
        for run in list(self.held):
            piece = run.piece
            if piece.status == "running" and piece.holder != holder and piece.until < self.model.now:
                self.model.finish(piece, o.Crashed())
                self._let_go(run)

    def jump(self, milliseconds: int) -> None:
        """Someone sets the clock; the next tick wakes what is due."""
        self.clock.jump(milliseconds)
        self.model.now = self.clock.now()
        self.ground.write(lambda tx: leases.wake_due(tx, self.ground.now))
        self.model.wake()

    # --- the end ---

    def drive_to_the_end(self) -> int:
        """No more trouble: everything open ends within the bound; how many steps it took."""
        random = Random(len(self.model.pieces))
        if self.paused:
            self.pause_or_resume()
        for step in range(_BOUND):
            if self.held:
                run = self.held[0]
                self.finish(run, friendly(random, self.ground.unit(run.piece.id)))
            elif ready := self.may_claim():
                self.claim(ready[0], "left")
            elif parked := self.parked():
                self.answer(parked[0], "reply")
            elif any(piece.due is not None for piece in self.model.pieces.values()):
                self.jump(10_000_000)
            else:
                check(self)
                assert self.model.open_pieces() == []
                return step
        raise AssertionError(f"not over after {_BOUND} steps")
