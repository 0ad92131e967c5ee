"""Make a small project in mid-flight in a database file, with whichever sf is on the path.

Run by `golden_db.py` under the code of the commit that a schema version comes from, so it only uses what
every version has.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sf.app.templates import BUILT_IN
from sf.domain import outcomes as o
from sf.domain.clock import Instant
from sf.domain.plans import Plan, SliceEntry, TaskEntry
from sf.domain.runs import Lease
from sf.domain.workflows import parse
from sf.harness import planting, settle
from sf.harness.rules import Rules
from sf.scheduler import claims
from sf.store import sessions, units
from sf.store.connection import transact
from sf.store.tx import Tx

START = 1_767_225_600_000
GATE = ("./.sf/gates/check.sh",)
RULES = Rules(post_task=GATE, post_slice=GATE)
METADATA = {"integration_branch": "main", "worktree_mode": "branch-per-slice"}


def entry(title: str, *blocked_by: str) -> TaskEntry:
    """A task that needs no plan of its own."""
    return TaskEntry(
        title=title, deliverables=("it is there",), verification=("the gate",), blocked_by=blocked_by
    )


PLAN = Plan(
    goal="the goal",
    deliverables=("all of it",),
    slices=(
        SliceEntry(title="A", tasks=(entry("TA1"), entry("TA2", "TA1"))),
        SliceEntry(title="B", tasks=(entry("TB1"),)),
        SliceEntry(title="C", tasks=(entry("TC1"),), code_depends_on=("A", "B")),
    ),
)


class Project:
    """A database in the making; each step is a second later."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds = 0

    def write(self, work: Callable[[Tx, Instant], Any]) -> Any:
        """One transaction."""
        self._seconds += 1
        now = Instant(START + 1000 * self._seconds)
        return transact(self._path, lambda tx: work(tx, now))

    def plant(self, title: str, *, adhoc: bool) -> str:
        """State a goal."""
        content = BUILT_IN["feature"]

        def work(tx: Tx, now: Instant) -> str:
            return planting.plant_goal(
                tx,
                RULES,
                title=title,
                description="",
                workflow=parse(content, "feature"),
                content=content,
                session_id=sessions.ensure(tx, now, "main"),
                now=now,
                adhoc=adhoc,
                metadata=METADATA,
            )

        return str(self.write(work))

    def claim(self, unit_id: str) -> Lease:
        """Take a unit."""
        more: dict[str, Any] = (
            {"rules": RULES} if "rules" in inspect.signature(claims.take).parameters else {}
        )

        def work(tx: Tx, now: Instant) -> Any:
            unit = units.get(tx, unit_id)
            return claims.take(tx, unit, holder="host#1@1", host="host", now=now, **more)

        claimed = self.write(work)
        assert claimed is not None, unit_id
        # Earlier versions gave the lease alone.
        lease: Lease = claimed[1] if isinstance(claimed, tuple) else claimed
        return lease

    def run(self, unit_id: str, *outcomes: o.AnyOutcome) -> None:
        """A run for each outcome."""
        for outcome in outcomes:
            lease = self.claim(unit_id)

            def work(tx: Tx, now: Instant, lease: Lease = lease, outcome: o.AnyOutcome = outcome) -> None:
                settle.settle(tx, lease, outcome, settle.Ending(), RULES, now)

            self.write(work)


def make(path: Path) -> None:
    """A goal half done, and tasks in each of the states that a restart must take up."""
    project = Project(path)
    done = o.Done()
    milestone = project.plant("a goal", adhoc=False)
    project.run(milestone, done, o.Planned(PLAN))
    project.run("task/m1/s1/t1", done, done, done, done)
    project.run("task/m1/s2/t1", o.AskedHuman("which colour?"))
    plan = o.Planned(Plan(goal="x", deliverables=("it",), verification=("the gate",)))
    for title in ("interrupted", "waiting", "refused", "abandoned"):
        project.run(project.plant(title, adhoc=True), done, plan)
    project.run("task/a1", o.Crashed(), o.Interrupted("shutdown"))
    project.run("task/a2", o.Failed("turn_failed", "dropped"))
    project.run("task/a3", done, done, o.GateFailed("check", "red"))
    project.run("task/a4", o.GaveUp("no"), o.Reassessed("abandon", "not worth it"))
    project.claim("task/m1/s1/t2")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
