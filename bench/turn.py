"""A turn with a null model and one `true`, persisted, against a step of mini-swe-agent's DefaultAgent."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

from bench import peers
from bench.ground import HOLDER, LONG, Ground, opened
from bench.table import Row
from bench.timing import Stopwatch, medians
from sf.domain import events
from sf.domain.phases import Phase
from sf.domain.runs import Lease
from sf.domain.units import Unit
from sf.harness.agent import Agent, nothing_missing
from sf.harness.rules import Rules
from sf.scheduler import claims
from sf.store import units
from sf.store.tx import Tx
from sf.tools.toolbox import for_phase

_TURNS = 20
_CALL = '[[scene.turn]]\n[[scene.turn.call]]\ntool = "bash"\narguments = { command = "true" }\n'
_PLAYBOOK = '[[scene]]\nphase = "execute"\n' + _CALL * (_TURNS + 1)
_SANDBOX_OFF = '[sandbox]\nprofile = "off"\n'
_PATIENT = "[harness]\nstale_turns = 0\n"
"""Turns that change no file are all that is measured here."""


class _Ours:
    """Conversations in one worktree; the first turn, which follows the prompt's making, is not counted."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._rounds = 0
        self._since: Stopwatch | None = None
        self._turns = 0
        self._taken = 0.0
        ground.desk.bus.subscribe(self._on_event)

    def _on_event(self, event: events.Event) -> None:
        if event.name != events.TURN_ENDED:
            return
        self._turns += 1
        if self._since is None:
            self._since = Stopwatch()
        elif self._turns == _TURNS + 1:
            self._taken = self._since.seconds() / _TURNS

    async def __call__(self) -> float:
        desk = self._ground.desk
        unit, lease = await self._claimed()
        place = await desk.workshop.place(unit, lease)
        self._since, self._turns = None, 0
        agent = Agent(desk, unit, lease, place)
        ended = await agent.converse("execute", for_phase(Phase.EXECUTE), nothing_missing)
        assert ended.how == "complete" and self._turns == _TURNS + 2, ended
        return self._taken

    async def _claimed(self) -> tuple[Unit, Lease]:
        self._rounds += 1
        await self._ground.plant(1, f"r{self._rounds}x", content=LONG)
        now = self._ground.desk.clock.now()

        def write(tx: Tx) -> tuple[Unit, Lease] | None:
            unit = units.get(tx, f"task/r{self._rounds}x1")
            return claims.take(tx, unit, holder=HOLDER, host="bench", rules=Rules(), now=now)

        claimed = await self._ground.desk.database.write(write)
        assert claimed is not None
        return claimed


class _MiniSweAgent:
    """The agent with its trajectory saved after every step, as its own command line does it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self._agents = peers.load("minisweagent.agents.default")
        self._environments = peers.load("minisweagent.environments.local")
        self._models = peers.load("minisweagent.models.test_models")

    async def __call__(self) -> float:
        return await asyncio.to_thread(self._round)

    def _round(self) -> float:
        agent = self._agents.DefaultAgent(
            self._null_model(),
            self._environments.LocalEnvironment(cwd=str(self._folder)),
            system_template="You work in a repository.",
            instance_template="{{task}}",
            cost_limit=0,
            output_path=self._folder / f"trajectory-{next(self._numbers)}.json",
        )
        watch = Stopwatch()
        agent.run("Run true.")
        taken = watch.seconds() / (_TURNS + 1)
        assert agent.n_calls == _TURNS + 1
        return taken

    def _null_model(self) -> Any:
        """Its deterministic model, with the script kept out of the configuration that it saves each step."""
        script = [self._output("true") for _ in range(_TURNS)]
        script.append(self._output("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"))
        model = self._models.DeterministicModel(outputs=[])
        model.query = lambda messages: script.pop(0)
        return model

    def _output(self, command: str) -> Any:
        return self._models.make_output("", [{"command": command}], cost=0.0)


async def measure(scratch: Path) -> list[Row]:
    """The turn's rows."""
    mini = scratch / "mini"
    mini.mkdir()
    async with (
        opened(scratch / "off", _PATIENT + _SANDBOX_OFF, _PLAYBOOK) as bare,
        opened(scratch / "walled", _PATIENT, _PLAYBOOK) as walled,
    ):
        assert walled.desk.sandbox is not None
        kind = walled.desk.sandbox.kind
        found = await medians({"off": _Ours(bare), "walled": _Ours(walled), "mini": _MiniSweAgent(mini)})
    peer = "mini-swe-agent step"
    return [
        Row("turn with one `true`, sandbox off", found["off"], "s", peer, found["mini"], most_ratio=1.0),
        Row(f"turn with one `true`, {kind}", found["walled"], "s", peer, found["mini"]),
    ]
