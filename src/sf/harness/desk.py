"""Everything that carrying out a run needs, handed down in one piece by the composition root."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sf.config.schema import Config
from sf.domain import events
from sf.domain.clock import Clock
from sf.domain.phases import Phase
from sf.harness.hooks import HookRunner
from sf.harness.knowledge import Knowledge
from sf.harness.prompts import Prompts
from sf.harness.rules import Rules
from sf.harness.workshop import Workshop
from sf.observe.bus import Bus
from sf.observe.log import Log
from sf.observe.trace import Tracer
from sf.paths import Project
from sf.policy.sandbox import Sandbox
from sf.providers.catalog import Catalog
from sf.store.database import Database

Stop = Literal["pause", "cancel", "shutdown"]


@dataclass(frozen=True)
class Obstacle:
    """Something in the user's checkout that holds a merge back: how often it was met, when to look again."""

    looked: int
    look_again_at: int


@dataclass
class Desk:
    """The services of one running autopilot. `config` and `rules` are replaced when the files change."""

    project: Project
    config: Config
    rules: Rules
    database: Database
    bus: Bus
    log: Log
    tracer: Tracer
    clock: Clock
    prompts: Prompts
    workshop: Workshop
    catalog: Catalog
    hooks: HookRunner
    knowledge: Knowledge
    sandbox: Sandbox | None
    gate_sandbox: Sandbox
    station: str
    """This project folder's name in a store that several share; empty when the store is this folder's own."""
    environment: Mapping[str, str]
    """What commands in the sandbox see."""
    stops: dict[str, Stop] = field(default_factory=dict)
    """Runs that have been told to stop, by run id."""
    obstacles: dict[str, Obstacle] = field(default_factory=dict)
    """When to look again for what stood in the way of a merge, by unit id; what it was, its question says."""
    pausing: Callable[[], bool] = lambda: False

    def leaks(self, phase: Phase) -> bool:
        """Whether a command of this phase could leave a process behind: only bubblewrap takes all with it."""
        used = self.gate_sandbox if phase in (Phase.VERIFY, Phase.MERGE) else self.sandbox
        return used is not None and used.kind != "bubblewrap"

    def readable(self) -> list[Path]:
        """What commands may read below hidden folders: sf's objects, for git in the worktree, and more."""
        named = (Path(path).expanduser() for path in self.config.sandbox.readable)
        return [self.workshop.owned.objects, *named]

    def announce(self, name: str, unit_id: str = "", **data: object) -> None:
        """Publish something that no transaction made true."""
        self.bus.publish(events.Event(name, self.clock.now(), unit_id, dict(data)))
