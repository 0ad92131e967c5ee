"""What units must do, told a second time and plainly: lists and numbers, no rows, no code of sf's rules.

What the store keeps in columns (open children, open blockers, lanes) is counted here when asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from sf.domain import outcomes as o
from sf.domain.limits import Limits
from sf.domain.plans import TaskEntry
from sf.domain.units import HoldKind
from sf.domain.workflows import Workflow
from tests.chaos.piece import Piece

LEASE = 60_000
Tasks = list[tuple[list[int], bool]]
"""Of each task of a plan: the numbers of those it waits for, and whether its plan is complete."""
_ORDER = ("research", "plan", "execute", "tdd", "verify", "review", "uat", "merge", "complete")
_NEVER = {
    "slice": {"research", "tdd"},
    "milestone": {"tdd", "review", "merge"},
    "task": set[str](),
}


class Model:
    """All units of a project under one workflow."""

    def __init__(self, workflow: Workflow, limits: Limits) -> None:
        self.workflow = workflow
        self.phases = [phase.value for phase in workflow.phases]
        self.limits = limits
        self.pieces: dict[str, Piece] = {}
        self.counters: dict[tuple[str, int, str, str], int] = {}
        self.now = 0

    def open_pieces(self) -> list[Piece]:
        """Units that are not over."""
        return [piece for piece in self.pieces.values() if not piece.terminal]

    # --- making units ---

    def add(self, piece: Piece) -> Piece:
        """A new unit."""
        piece.allowance = self.limits.max_runs
        self.pieces[piece.id] = piece
        if piece.parent is not None:
            piece.made_under = piece.parent.plan_version
            piece.parent.children.append(piece)
        return piece

    def goal(self, unit_id: str) -> None:
        """A milestone or an ad-hoc task."""
        kind = unit_id.split("/", 1)[0]
        self.arrive(self.add(Piece(unit_id, kind, self.phases[0])))

    def slices(self, parent: Piece, entries: list[tuple[list[int], Tasks]]) -> None:
        """Slices of a plan: the numbers of those before it, and its tasks."""
        made: list[Piece] = []
        for needs, tasks in entries:
            name = f"slice/{parent.id.split('/', 1)[1]}/s{len(parent.children) + 1}"
            part = Piece(name, "slice", self.phases[0], parent=parent, needs=[made[n] for n in needs])
            made.append(self.add(part))
            self.tasks(part, tasks)
            self.arrive(part)

    def tasks(self, parent: Piece, entries: Tasks) -> None:
        """Tasks of a plan: the numbers of those before it, and whether each is complete."""
        made: list[Piece] = []
        for needs, complete in entries:
            name = f"task/{parent.id.split('/', 1)[1]}/t{len(parent.children) + 1}"
            need = [made[n] for n in needs]
            part = Piece(name, "task", self.phases[0], parent=parent, needs=need, planned=complete)
            made.append(self.add(part))
            self.arrive(part)

    # --- phases ---

    def applies(self, piece: Piece, phase: str) -> bool:
        """Whether a phase means work for a unit."""
        if phase in _NEVER[piece.type]:
            return False
        if piece.type == "task" and piece.parent is not None:
            if phase == "plan":
                return not (piece.planned and piece.plan_version == 1)
            return phase not in ("research", "review", "uat")
        if piece.type == "slice" and phase == "plan":
            return piece.plan_version > 1 or not piece.children
        return True

    def _next(self, phase: str) -> str:
        return next(name for name in self.phases if _ORDER.index(name) > _ORDER.index(phase))

    def forward(self, piece: Piece) -> None:
        """On to the next phase that applies."""
        phase = self._next(piece.phase)
        while phase != "complete" and not self.applies(piece, phase):
            phase = self._next(phase)
        merges = "merge" in self.phases and self.applies(piece, "merge")
        if piece.phase == "verify" and phase != "complete" and not merges:
            self.clear(piece, "gate")
        self.enter(piece, phase)
        if phase == "complete":
            piece.status, piece.verdict = "succeeded", "success"
            self.end(piece)
        elif phase == "uat":
            piece.hold = "uat"

    def enter(self, piece: Piece, phase: str) -> None:
        """Stand at the beginning of a phase."""
        piece.phase, piece.status, piece.due, piece.hold = phase, "pending", None, None
        self.rest(piece)

    def rest(self, piece: Piece) -> None:
        """A task that only reads gives the worktree back when its run is over."""
        reading = piece.phase in ("research", "plan") and piece.plan_version == 1
        if reading and piece.parent is not None and piece.parent.lane is piece:
            piece.parent.lane = None

    def replan(self, piece: Piece) -> None:
        """To plan under a new version."""
        piece.plan_version += 1
        self.enter(piece, next(name for name in self.phases if _ORDER.index(name) >= 1))

    def arrive(self, piece: Piece) -> None:
        """Pass the phase that a free unit stands in, if it does not apply."""
        still = not piece.terminal and piece.status != "running" and piece.open_blockers == 0
        if still and piece.phase in self.phases and not self.applies(piece, piece.phase):
            self.forward(piece)

    # --- ends ---

    def end(self, piece: Piece) -> None:
        """A unit is over: those that waited for it go on."""
        piece.ended, piece.hold, piece.due = True, None, None
        container = piece.parent
        if container is not None and container.lane is piece:
            container.lane = None
        for other in list(self.pieces.values()):
            if piece in other.needs:
                self.arrive(other)
        if container is None or container.open_children:
            return
        if container.canceled and not container.ended:
            self.end(container)
        if not container.terminal and container.phase == "execute":
            current = [c for c in container.children if c.made_under == container.plan_version]
            if all(child.verdict == "success" for child in current):
                self.forward(container)
            else:
                self.enter(container, "reassess")

    def cancel(self, piece: Piece) -> None:
        """Call a unit and all below it off; running ones only get the mark."""
        live = piece.status == "running"
        piece.status, piece.due, piece.hold = "canceled", None, None
        for child in piece.children:
            if not child.terminal:
                self.cancel(child)
        if not live and not piece.ended and piece.open_children == 0:
            self.end(piece)

    # --- counting ---

    def count(self, piece: Piece, kind: str, key: str = "") -> int:
        """Raise a counter; its new value."""
        version = 0 if kind == "replans" else piece.plan_version
        name = (piece.id, version, kind, key)
        self.counters[name] = self.counters.get(name, 0) + 1
        return self.counters[name]

    def clear(self, piece: Piece, kind: str) -> None:
        """Begin counters anew."""
        for name in self.counters:
            if name[:3] == (piece.id, piece.plan_version, kind):
                self.counters[name] = 0

    def replans(self, piece: Piece) -> int:
        """How often reassess sent it back to plan."""
        return self.counters.get((piece.id, 0, "replans", ""), 0)

    # --- runs ---

    def ready(self) -> set[str]:
        """The ids that could run now."""
        waiting = ("pending", "interrupted", "failed")
        return {
            piece.id
            for piece in self.pieces.values()
            if not piece.terminal and piece.status in waiting and piece.standings(self.now) == ["ready"]
        }

    def wake(self) -> None:
        """Those whose time has come are ready."""
        for piece in self.pieces.values():
            if piece.due is not None and piece.due <= self.now:
                piece.due = None

    def must_wait_to_merge(self, piece: Piece) -> bool:
        """Whether another unit is being merged."""
        return piece.phase == "merge" and any(
            other.phase == "merge" and other.status == "running" for other in self.pieces.values()
        )

    def claim(self, piece: Piece, holder: str) -> bool:
        """Take a unit; False when it has had all its runs, and is parked."""
        if piece.attempt >= piece.allowance:
            piece.hold = "run_limit"
            return False
        piece.status, piece.due, piece.attempt = "running", None, piece.attempt + 1
        piece.holder, piece.until = holder, self.now + LEASE
        if piece.in_slice and piece.parent is not None and piece.parent.lane is None:
            piece.parent.lane = piece
        return True

    def finish(self, piece: Piece, outcome: o.AnyOutcome) -> None:
        """End the run of a unit."""
        piece.holder = None
        if piece.canceled and not (piece.phase == "merge" and isinstance(outcome, o.Done)):
            self.end(piece)
            return
        if isinstance(outcome, o.Planned):
            self._plant(piece, outcome)
        self._follow(piece, outcome)
        if not piece.ended:
            self.rest(piece)

    def _plant(self, piece: Piece, outcome: o.Planned) -> None:
        for child in piece.children:
            if not child.terminal:
                self.cancel(child)
        plan = outcome.plan
        if piece.type == "milestone":
            titles = [entry.title for entry in plan.slices]
            numbered = [
                ([titles.index(name) for name in entry.code_depends_on], _numbers(entry.tasks))
                for entry in plan.slices
            ]
            self.slices(piece, numbered)
        elif piece.type == "slice":
            self.tasks(piece, _numbers(plan.tasks))

    def _outage(self, piece: Piece) -> int:
        first, longest = (
            max(1000, each) for each in (self.limits.first_backoff_ms, self.limits.max_backoff_ms)
        )
        return min(first << (piece.unreached - 1), longest)

    def _follow(self, piece: Piece, outcome: o.AnyOutcome) -> None:
        outage = isinstance(outcome, o.Waiting) and outcome.seconds is None
        piece.unreached = piece.unreached + 1 if outage else 0
        if _did_nothing(outcome):
            self._give_back(piece)
        match outcome:
            case o.Done() | o.Planned():
                self.forward(piece)
            case o.GateFailed(gate=gate, final=final, limit=limit):
                times = self.count(piece, "gate", gate)
                most = self.limits.max_retries if limit is None else limit
                self._back_or_reassess(piece, final or times >= max(1, most))
            case o.ChangesWanted():
                self._back_or_reassess(piece, self.count(piece, "fixes") >= self.limits.max_fix_attempts)
            case o.Conflict():
                if self.count(piece, "conflicts") >= self.limits.max_conflicts:
                    self._stay(piece, "pending", hold="merge_conflict")
                else:
                    self._back_or_reassess(piece, False)
            case o.Failed():
                self.failed(piece)
            case o.Interrupted() | o.Unconfigured():
                self._stay(piece, "interrupted")
            case o.Crashed():
                over = self.count(piece, "interruptions", piece.phase) >= self.limits.max_interruptions
                self._stay(piece, "interrupted", hold="crash_loop" if over else None)
            case o.Waiting(seconds=seconds):
                pause = self._outage(piece) if seconds is None else max(1, int(seconds * 1000))
                self._stay(piece, "pending", due=self.now + pause)
            case o.CalledOff():
                piece.status = "canceled"
                self.end(piece)
            case o.AskedHuman():
                self._stay(piece, "pending", hold="blocked")
            case o.GaveUp() | o.WentStale():
                if piece.phase == "reassess":
                    self.failed(piece)
                else:
                    self.enter(piece, "reassess")
            case o.Overspent(scope=scope):
                whole = scope == "session"
                self._stay(piece, "interrupted" if whole else "pending", hold=None if whole else "budget")
            case o.Reassessed(verdict=verdict):
                self._reassessed(piece, verdict)
            case o.Held(kind=kind):
                self._stay(piece, "pending", hold=kind.value)

    def _give_back(self, piece: Piece) -> None:
        """A run in which nothing was done does not count, but not for ever."""
        if self.counters.get((piece.id, piece.plan_version, "waits", ""), 0) < self.limits.max_waits:
            self.count(piece, "waits")
            piece.allowance += 1

    def _stay(self, piece: Piece, status: str, *, hold: str | None = None, due: int | None = None) -> None:
        piece.status, piece.hold, piece.due = status, hold, due

    def _back_or_reassess(self, piece: Piece, spent: bool) -> None:
        self.enter(piece, "reassess" if spent else "execute")
        if piece.type == "milestone" and not spent:
            self.slices(piece, [([], [([], True)])])

    def failed(self, piece: Piece) -> None:
        """A try is charged: again later, or to reassess, or to a person."""
        times = self.count(piece, "tries", piece.phase)
        if times < self.limits.max_attempts:
            wait = min(self.limits.first_backoff_ms << (times - 1), self.limits.max_backoff_ms)
            self._stay(piece, "failed", due=self.now + wait)
        elif piece.phase == "reassess":
            self._stay(piece, "pending", hold="escalated")
        else:
            self.enter(piece, "reassess")

    def _reassessed(self, piece: Piece, verdict: str) -> None:
        if verdict == "escalate":
            self._stay(piece, "pending", hold="escalated")
        elif verdict == "abandon":
            piece.phase, piece.status, piece.verdict = "complete", "succeeded", "abandoned"
            self.end(piece)
        elif self.replans(piece) >= self.limits.max_reassess:
            self.failed(piece)
        else:
            self.count(piece, "replans")
            self.replan(piece)


def _did_nothing(outcome: o.AnyOutcome) -> bool:
    match outcome:
        case o.Waiting(unanswered=unanswered):
            return unanswered
        case o.Held(kind=kind):
            return kind is HoldKind.CHECKOUT_DIRTY
        case _:
            return False


def _numbers(entries: Sequence[TaskEntry]) -> Tasks:
    titles = [entry.title for entry in entries]
    return [
        ([titles.index(name) for name in entry.blocked_by], bool(entry.deliverables and entry.verification))
        for entry in entries
    ]
