"""What the turn loop talks to in tests: a scripted model, a plain site, and a recorder that remembers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from sf.domain.budget import Budget
from sf.domain.dialogue import Prompting, Reply, ToolCall, ToolResult, Usage
from sf.domain.phases import Phase
from sf.harness.calls import Caller
from sf.harness.progress import Progress
from sf.harness.prompts import Prompt, Prompts
from sf.harness.turn import Dialogue, Pace
from sf.policy import process
from sf.policy.mediator import Circumstances, Decision
from sf.providers.playbooks import Scene, ScriptedCall, ScriptedTurn
from sf.providers.scripted import ScriptedConversation
from sf.store.runs import TurnRecord
from sf.tools.base import Answer, Ran
from sf.tools.toolbox import Toolbox, for_phase


class PlainSite:
    """A folder; commands are run in it without a sandbox, so only tests' own commands may be."""

    def __init__(self, root: Path, reading: Sequence[Path] = ()) -> None:
        self.root = root
        self.reading = tuple(reading)

    async def command(self, command: str | Sequence[str], timeout: float) -> Ran:
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        done = await process.run(
            words, cwd=self.root, env={"PATH": "/usr/bin:/bin"}, timeout=timeout, grace=1.0, kill_after=1.0
        )
        return Ran(done.exit_code, done.output, done.timed_out)

    async def diff(self) -> str:
        return ""

    async def recall(self, query: str) -> str:
        return ""

    async def turn_to(self, name: str) -> None:
        return None


class Recorder:
    """Remembers what it is told and says what it was set to say."""

    def __init__(self) -> None:
        self.turns: list[TurnRecord] = []
        self.errors: list[str] = []
        self.reserved: list[int | None] = []
        self.let_go: list[str] = []
        self.paid: list[tuple[str, int]] = []
        """What was settled, and after how many turns."""
        self.summaries: list[str] = []
        self.known = ""
        self.answer: Literal["go", "pause", "cancel"] = "go"

    async def turn(self, record: TurnRecord) -> None:
        self.turns.append(record)

    async def wanted(self) -> Literal["go", "pause", "cancel"]:
        return self.answer

    async def reserve(self, model: str, ceiling: int | None) -> str:
        self.reserved.append(ceiling)
        return f"spend-{len(self.reserved)}" if ceiling else ""

    async def answered(self, spend_id: str, usage: Usage) -> None:
        self.paid.append((spend_id, len(self.turns)))

    async def unbilled(self, spend_id: str) -> None:
        self.let_go.append(spend_id)

    def requested(self, started_at: int, model: str, reply: Reply | None, error: str) -> None:
        self.errors.append(error)

    async def compacting(self, summary: str) -> str:
        self.summaries.append(summary)
        return self.known


class Heard(ScriptedConversation):
    """A scripted conversation that remembers what was said to it."""

    def __init__(self, *turns: ScriptedTurn) -> None:
        super().__init__(Scene(phase="*", turns=turns), 0.0)
        self.said: list[str] = []
        self.results: list[ToolResult] = []
        self.restarts: list[str] = []
        self.promptings: list[Prompting] = []

    def say(self, text: str) -> None:
        self.said.append(text)
        super().say(text)

    def answer(self, results: Sequence[ToolResult]) -> None:
        self.results += results
        super().answer(results)

    async def request(self, prompting: Prompting, on_event: Callable[[], None]) -> Reply:
        self.promptings.append(prompting)
        return await super().request(prompting, on_event)

    def restart(self, text: str) -> None:
        self.restarts.append(text)
        super().restart(text)


def says(text: str, marker: str = "") -> ScriptedTurn:
    """A turn of words."""
    return ScriptedTurn(text=text + (f"\n<turn_status>{marker}</turn_status>" if marker else ""))


def calls(tool: str, **arguments: Any) -> ScriptedTurn:
    """A turn with one tool call."""
    return ScriptedTurn(calls=(ScriptedCall(tool, arguments),))


def ignore(call: ToolCall, answer: Answer, decision: Decision | None, started_at: int) -> None:
    """A watcher that looks away."""


def caller(root: Path, phase: Phase = Phase.EXECUTE, toolbox: Toolbox | None = None) -> Caller:
    """A caller over a plain folder."""
    circumstances = Circumstances(unit_id="task/a1", phase=phase, root=root)
    return Caller(toolbox or for_phase(phase), PlainSite(root), circumstances, 10.0, ignore)


async def nothing_missing(text: str) -> str:
    """A phase whose product is always there."""
    return ""


async def no_diff() -> str:
    """No change."""
    return ""


def dialogue(
    conversation: ScriptedConversation,
    recorder: Recorder,
    root: Path,
    *,
    missing: Callable[[str], Any] = nothing_missing,
    budget: Budget | None = None,
    toolbox: Toolbox | None = None,
    progress: Progress | None = None,
    **pace: Any,
) -> Dialogue:
    """A dialogue with short limits."""
    limits: dict[str, Any] = {
        "max_turns": 10,
        "turn_timeout": 5.0,
        "stall_timeout": 5.0,
        "max_output_tokens": 1000,
        "backoff": 0.001,
    }
    return Dialogue(
        conversation=conversation,
        model="script:test",
        prompt=Prompt("the instructions", "the whole task, with last_error: it broke"),
        prompts=Prompts(),
        caller=caller(root, toolbox=toolbox),
        recorder=recorder,
        payments=recorder,
        pace=Pace(**{**limits, **pace}),
        budget=budget or Budget(1_000_000, 0.8, 0.95),
        thinking=False,
        missing=missing,
        diff=no_diff,
        progress=progress,
    )
