"""What passes between the turn loop and a model: tools offered, calls asked for, replies, usage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCall(msgspec.Struct, frozen=True):
    """One call that a model asked for.

    `arguments` is None when the model's JSON did not parse to an object; `raw` is then what it sent.
    """

    call_id: str
    name: str
    arguments: dict[str, Any] | None
    raw: str = ""


class ToolResult(msgspec.Struct, frozen=True):
    """The answer to one call, already in the shape of the tool response contract."""

    call_id: str
    name: str
    content: str


class Usage(msgspec.Struct, frozen=True):
    """Tokens and money of one request. `input_tokens` counts cached tokens too.

    `priced` is False when the cost is not known: there is no price, or the provider told no usage.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_micro_usd: int = 0
    priced: bool = True

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cost_micro_usd + other.cost_micro_usd,
            self.priced and other.priced,
        )


class Reply(msgspec.Struct, frozen=True):
    """One whole answer of a model."""

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    truncated: bool = False
    """The model ran into its output limit."""


class Prompting(msgspec.Struct, frozen=True):
    """How one request is made: what the harness decides and the agent does not."""

    instructions: str
    tools: tuple[ToolSpec, ...]
    thinking: bool
    max_output_tokens: int
    timeout: float
    """Seconds for the whole request."""


class Conversation(Protocol):
    """One thread with a model; `providers` has the hosted and the scripted one."""

    def say(self, text: str) -> None:
        """Queue a user message."""
        ...

    def answer(self, results: Sequence[ToolResult]) -> None:
        """Queue tool results."""
        ...

    async def request(self, prompting: Prompting, on_event: Callable[[], None]) -> Reply:
        """Send what is queued; one request, one reply."""
        ...

    def ceiling(self, prompting: Prompting) -> int | None:
        """The most that the next request should cost, in micro-dollars; None when no price is known."""
        ...

    def take_new_messages(self) -> list[bytes]:
        """What was added to the history since the last call."""
        ...

    def restart(self, text: str) -> None:
        """Begin a fresh window with this text."""
        ...
