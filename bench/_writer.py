"""The other process of `bench.wake`: for each line on stdin it commits, notes the instant, and rings."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from sf.domain.clock import SystemClock
from sf.domain.workflows import parse
from sf.harness import planting
from sf.harness.rules import Rules
from sf.paths import Project
from sf.scheduler import doorbell
from sf.store import sessions
from sf.store.connection import transact
from sf.store.tx import Tx


def main(how: str, root: str, content: str) -> None:
    """Serve until stdin ends."""
    project = Project(root=Path(root), home=Path(root))
    write = {"unit": _unit, "intent": _intent}[how](content)
    print("ready", flush=True)
    for _ in sys.stdin:
        transact(project.database, write)
        committed = time.monotonic_ns()
        doorbell.ring(project.runtime)
        print(committed, flush=True)


def _unit(content: str) -> Callable[[Tx], object]:
    """A task, planted in this process's transaction."""
    workflow = parse(content, "bench")

    def write(tx: Tx) -> object:
        now = SystemClock().now()
        return planting.plant_goal(
            tx,
            Rules(),
            title="a prompt",
            description="",
            workflow=workflow,
            content=content,
            session_id=sessions.ensure(tx, now),
            now=now,
            adhoc=True,
        )

    return write


def _intent(content: str) -> Callable[[Tx], object]:
    """What `sf dispatch` writes: the loop plants the task."""
    payload = {"workflow": "short", "content": content, "branch": "main", "goal": "a prompt", "adhoc": True}
    return lambda tx: sessions.intend(tx, "plan", payload, SystemClock().now())


if __name__ == "__main__":
    main(*sys.argv[1:])
