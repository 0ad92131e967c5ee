"""The scripted model: a playbook under the real turn loop. Deterministic, offline, free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from sf.domain.dialogue import Prompting, Reply, ToolCall, ToolResult, Usage
from sf.errors import ModelUnavailable, QuotaWait, SfError, Transient, TurnFailed
from sf.providers.playbooks import Playbook, Scene, ScriptedTurn

_DONE = ScriptedTurn(text="Nothing more to do.\n<turn_status>complete</turn_status>")


class Cue(msgspec.Struct, frozen=True):
    """For which conversation a model is opened: hosted models ignore it, scripted ones play by it."""

    phase: str
    title: str
    visit: int


class ScriptedModel:
    """Plays the scene that a cue names."""

    def __init__(self, playbook: Playbook) -> None:
        self._playbook = playbook

    def start(self, cue: Cue) -> ScriptedConversation:
        """A fresh conversation. Raises TurnFailed when no scene fits."""
        scene = self._playbook.find(cue.phase, cue.title, cue.visit)
        if scene is None:
            raise TurnFailed(
                f"the playbook {self._playbook.name or '(unnamed)'} has no scene for phase {cue.phase!r},"
                f" unit {cue.title!r}, visit {cue.visit}"
            )
        return ScriptedConversation(scene, self._playbook.latency_ms / 1000, self.cost_of)

    def cost_of(self, input_tokens: int, output_tokens: int) -> int:
        """What so many tokens pretend to cost."""
        price = self._playbook.price
        return round(input_tokens * price.input + output_tokens * price.output) if price else 0

    async def aclose(self) -> None:
        """Nothing is held open."""


def _free(input_tokens: int, output_tokens: int) -> int:
    return 0


class ScriptedConversation:
    """One scene being played."""

    def __init__(self, scene: Scene, latency: float, cost_of: Callable[[int, int], int] = _free) -> None:
        self._cost_of = cost_of
        self._turns = list(scene.turns)
        self._latency = latency
        self._new: list[bytes] = []
        self._characters = 0
        self._calls = 0

    def say(self, text: str) -> None:
        """Take a user message."""
        self._add({"role": "user", "text": text})

    def answer(self, results: Sequence[ToolResult]) -> None:
        """Take tool results."""
        for result in results:
            self._add({"role": "tool", "name": result.name, "content": result.content})

    async def request(self, prompting: Prompting, on_event: Callable[[], None]) -> Reply:
        """The scene's next turn; when it has no more, the agent is done."""
        turn = self._turns.pop(0) if self._turns else _DONE
        if self._latency:
            await asyncio.sleep(self._latency)
        await _raise_fault(turn)
        on_event()
        calls = tuple(self._call(turn, index) for index in range(len(turn.calls)))
        shown = msgspec.json.encode({"role": "assistant", "text": turn.text, "calls": calls})
        sent, got = self._input_tokens(prompting), len(shown) // 4
        usage = Usage(sent, got, cost_micro_usd=self._cost_of(sent, got))
        self._new.append(shown)
        self._characters += len(shown)
        return Reply(turn.text, calls, usage)

    def ceiling(self, prompting: Prompting) -> int | None:
        """Nothing, unless the playbook has a price."""
        return self._cost_of(self._input_tokens(prompting), prompting.max_output_tokens)

    def _input_tokens(self, prompting: Prompting) -> int:
        return (self._characters + len(prompting.instructions)) // 4

    def take_new_messages(self) -> list[bytes]:
        """What was said since the last call."""
        new, self._new = self._new, []
        return new

    def restart(self, text: str) -> None:
        """A fresh window; the scene goes on where it was."""
        self._characters = 0
        self.say(text)

    def _add(self, message: dict[str, str]) -> None:
        encoded = msgspec.json.encode(message)
        self._new.append(encoded)
        self._characters += len(encoded)

    def _call(self, turn: ScriptedTurn, index: int) -> ToolCall:
        self._calls += 1
        call = turn.calls[index]
        if turn.fault == "malformed":
            return ToolCall(f"call-{self._calls}", call.tool, None, '{"broken": ')
        return ToolCall(f"call-{self._calls}", call.tool, call.arguments)


def _unbilled(error: SfError) -> SfError:
    error.unbilled = True
    return error


async def _raise_fault(turn: ScriptedTurn) -> None:
    match turn.fault:
        case "stall":
            await asyncio.sleep(turn.seconds or 3600)
        case "drop":
            raise Transient("scripted: the stream was dropped")
        case "server_error":
            raise _unbilled(TurnFailed("scripted: the provider failed"))
        case "rate_limit":
            raise _unbilled(QuotaWait("scripted: rate limit", seconds=turn.seconds or 60.0))
        case "unavailable":
            raise _unbilled(ModelUnavailable("scripted: no such model"))
        case "empty" | "malformed" | None:
            return
