"""What a scripted model server answers, and how it shows a request to the script."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

Wire = Literal["anthropic", "chat", "responses"]
Stop = Literal["end", "tools", "length"]


class Tokens(msgspec.Struct, frozen=True):
    """The usage a server reports. `input` counts cached tokens too."""

    input: int = 100
    output: int = 10
    cache_read: int = 0
    cache_write: int = 0


class Say(msgspec.Struct, frozen=True):
    """Answer with text only."""

    text: str


class Call(msgspec.Struct, frozen=True):
    """Ask for one tool; an id is made up when none is given."""

    name: str
    arguments: dict[str, Any]
    call_id: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """Answer with any mix of thinking, texts and calls, in this order."""

    texts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    usage: Tokens = Tokens()


class Empty(msgspec.Struct, frozen=True):
    """Answer nothing, and finish properly."""


class MalformedArguments(msgspec.Struct, frozen=True):
    """Ask for a tool with arguments that are sent exactly as `raw`."""

    name: str
    raw: str


class Truncated(msgspec.Struct, frozen=True):
    """Run into the output limit, after some text and perhaps in the middle of a call."""

    text: str = ""
    name: str = ""
    raw: str = ""


class RateLimited(msgspec.Struct, frozen=True):
    """429, with the header `retry-after` where a time is given."""

    retry_after: float | None = None


class Overloaded(msgspec.Struct, frozen=True):
    """529, with the header `retry-after` where a time is given."""

    retry_after: float | None = None


class ServerError(msgspec.Struct, frozen=True):
    """A 5xx, with the header `retry-after` where a time is given."""

    status: int = 500
    retry_after: float | None = None


class BadRequest(msgspec.Struct, frozen=True):
    """400 with this message."""

    message: str


class Unauthorized(msgspec.Struct, frozen=True):
    """401, echoing the key in the body as a careless proxy does."""


class UnknownModel(msgspec.Struct, frozen=True):
    """404 for the model."""


class DropStream(msgspec.Struct, frozen=True):
    """Close the connection in the middle of the body, after this many events."""

    after_events: int = 2


class EndWithoutFinish(msgspec.Struct, frozen=True):
    """End the stream cleanly, but without a reason for the end."""


class Stall(msgspec.Struct, frozen=True):
    """Send the first event, then nothing for this long, then close."""

    seconds: float = 60.0


Spoken = Say | Call | Answer | Empty | MalformedArguments | Truncated
Refusal = RateLimited | Overloaded | ServerError | BadRequest | Unauthorized | UnknownModel
Fault = Refusal | DropStream | EndWithoutFinish | Stall
Scripted = Spoken | Fault


class RawCall(msgspec.Struct, frozen=True):
    """One call as it goes over the wire."""

    call_id: str
    name: str
    raw: str


class Turn(msgspec.Struct, frozen=True):
    """Any spoken answer in one shape, for the wire formats."""

    turn_id: str
    model: str
    thinking: str
    text: str
    calls: tuple[RawCall, ...]
    stop: Stop
    usage: Tokens


def spoken_turn(answer: Spoken, *, index: int, model: str) -> Turn:
    """The one shape of an answer; ids are unique per server through `index`."""

    def turn(
        text: str, calls: tuple[RawCall, ...], stop: Stop, thinking: str = "", usage: Tokens | None = None
    ) -> Turn:
        return Turn(f"t{index}", model, thinking, text, calls, stop, usage or Tokens())

    match answer:
        case Say(text):
            return turn(text, (), "end")
        case Call():
            return turn("", _raw_calls((answer,), index), "tools")
        case Answer(texts, calls, thinking, usage):
            stop: Stop = "tools" if calls else "end"
            return turn("".join(texts), _raw_calls(calls, index), stop, thinking, usage)
        case Empty():
            return turn("", (), "end")
        case MalformedArguments(name, raw):
            return turn("", (RawCall(f"call_{index}_0", name, raw),), "tools")
        case Truncated(text, name, raw):
            cut = (RawCall(f"call_{index}_0", name, raw),) if name else ()
            return turn(text, cut, "length")


def _raw_calls(calls: Sequence[Call], index: int) -> tuple[RawCall, ...]:
    return tuple(
        RawCall(call.call_id or f"call_{index}_{number}", call.name, json.dumps(call.arguments))
        for number, call in enumerate(calls)
    )


class ViewedCall(msgspec.Struct, frozen=True):
    """A call as it stands in the history that a client sent."""

    call_id: str
    name: str
    arguments: Any


class ViewedResult(msgspec.Struct, frozen=True):
    """A tool result as it stands in the history that a client sent."""

    call_id: str
    content: str


class ViewedMessage(msgspec.Struct, frozen=True):
    """One message of either side; tool results and the text sent with them are one user message."""

    role: Literal["user", "assistant"]
    text: str = ""
    calls: tuple[ViewedCall, ...] = ()
    results: tuple[ViewedResult, ...] = ()
    thinking: str = ""


class RequestView(msgspec.Struct, frozen=True):
    """A request in one shape for all wire formats."""

    wire: Wire
    index: int
    model: str
    system: str
    messages: tuple[ViewedMessage, ...]
    tools: tuple[str, ...]

    @property
    def last(self) -> ViewedMessage:
        """The newest message, which is always the client's."""
        return self.messages[-1]


Script = Sequence[Scripted] | Callable[[RequestView], Scripted]


def merged(messages: Sequence[ViewedMessage]) -> tuple[ViewedMessage, ...]:
    """Neighbours of one role as one message."""
    out: list[ViewedMessage] = []
    for message in messages:
        if out and out[-1].role == message.role:
            before = out.pop()
            text = "\n".join(part for part in (before.text, message.text) if part)
            message = ViewedMessage(
                message.role,
                text,
                before.calls + message.calls,
                before.results + message.results,
                before.thinking + message.thinking,
            )
        out.append(message)
    return tuple(out)


def pieces(text: str) -> list[str]:
    """A text in at least two deltas where it can be, as a stream sends it."""
    size = max(1, min(40, (len(text) + 1) // 2))
    return [text[start : start + size] for start in range(0, len(text), size)]
