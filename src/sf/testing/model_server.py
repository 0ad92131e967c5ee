"""A model provider on a local port, driven by a script.

It speaks Anthropic's Messages, OpenAI's Chat Completions and OpenAI's Responses, refuses what the
real services refuse, and records what it was sent. It runs on a thread of its own, so both
`with` and `async with` work, and the client may live in any thread or process.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from types import ModuleType, TracebackType
from typing import Any, Self, assert_never

import msgspec

from sf.testing import _anthropic_wire, _chat_wire, _responses_wire
from sf.testing._model_script import (
    Answer,
    BadRequest,
    Call,
    DropStream,
    Empty,
    EndWithoutFinish,
    Fault,
    MalformedArguments,
    Overloaded,
    RateLimited,
    Refusal,
    RequestView,
    Say,
    Script,
    Scripted,
    ServerError,
    Stall,
    Tokens,
    Truncated,
    Turn,
    Unauthorized,
    UnknownModel,
    ViewedCall,
    ViewedMessage,
    ViewedResult,
    spoken_turn,
)

__all__ = [
    "KEY",
    "Answer",
    "BadRequest",
    "Call",
    "DropStream",
    "Empty",
    "EndWithoutFinish",
    "Fault",
    "MalformedArguments",
    "ModelServer",
    "Overloaded",
    "RateLimited",
    "RecordedRequest",
    "RequestView",
    "Say",
    "Script",
    "Scripted",
    "ServerError",
    "Stall",
    "Tokens",
    "Truncated",
    "Unauthorized",
    "UnknownModel",
    "ViewedCall",
    "ViewedMessage",
    "ViewedResult",
]

KEY = "key-for-tests-5f1c9a"
"""The key that a server expects unless told otherwise."""

_WIRES: dict[str, ModuleType] = {
    "/messages": _anthropic_wire,
    "/chat/completions": _chat_wire,
    "/responses": _responses_wire,
}
_LATE_SECONDS = 10.0
_KNOWN_HEADERS = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "connection", "content-length", "content-type", "host"}
)


class RecordedRequest(msgspec.Struct, frozen=True):
    """One request as it arrived, without the key and without the values of headers it does not know."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    key_in_body: bool
    """The key stood in the body, where it has no business."""


class ModelServer:
    """A scripted provider on 127.0.0.1; `url` serves as base address for every wire format.

    A list is answered in order, and a request past its end is refused with 400. A function is
    called on the server's thread, one call at a time, with a view of each valid request.
    """

    def __init__(self, script: Script, *, key: str = KEY) -> None:
        self.requests: list[RecordedRequest] = []
        self.hangups = 0
        """Connections that the client closed while an answer was under way."""
        self.hung_up = threading.Event()
        self.asked = threading.Event()
        """Set once a first request has arrived."""
        self.url = ""
        self._script = script
        self._key = key
        self._served = 0
        self._script_error: Exception | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._on_loop(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_loop(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LATE_SECONDS)
        if self._script_error is not None and error is None:
            raise self._script_error

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _on_loop(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_LATE_SECONDS)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self._count_hangup()
        finally:
            self._connections.discard(task)
            writer.close()

    def _count_hangup(self) -> None:
        self.hangups += 1
        self.hung_up.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # One request per connection: every answer says `connection: close`.
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        _, path, _ = head[0].split(" ", 2)
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:])
        }
        text = (await reader.readexactly(int(headers.get("content-length", "0")))).decode()
        path = path.partition("?")[0]
        wire = _WIRES.get(path.removeprefix("/v1"))
        if wire is None:
            await _send_json(writer, 404, {"error": {"message": f"no such path: {path}"}})
            return
        try:
            body = json.loads(text)
        except ValueError:
            await _send_json(writer, 400, wire.error_body(400, "the body is not JSON"))
            return
        self._record(path, headers, text)
        if wire.presented_key(headers) != self._key:
            await _send_json(writer, 401, wire.error_body(401, "the key is not valid"))
            return
        if (fault := wire.problem(body)) is not None:
            await _send_json(writer, 400, wire.error_body(400, fault))
            return
        index = self._served
        self._served += 1
        answer = self._next(wire.view(body, index))
        await self._answer(wire, answer, index, body, reader, writer)

    def _record(self, path: str, headers: dict[str, str], text: str) -> None:
        shown = {name: self._shown(name, value) for name, value in headers.items() if name}
        body = json.loads(text.replace(self._key, "[key]"))
        self.requests.append(RecordedRequest(path, shown, body, self._key in text))
        self.asked.set()

    def _shown(self, name: str, value: str) -> str:
        # A client may pick up a credential that is not the test's; a failing assertion must not print it.
        if name in _KNOWN_HEADERS:
            return value.replace(self._key, "[key]")
        return "[key]" if value.removeprefix("Bearer ") == self._key else "[withheld]"

    def _next(self, view: RequestView) -> Scripted:
        if callable(self._script):
            try:
                return self._script(view)
            except Exception as error:  # boundary: the test's own code; raised again when the server closes
                self._script_error = error
                return BadRequest(f"the script failed: {error!r}")
        if view.index >= len(self._script):
            return BadRequest(f"the script has no answer for request {view.index}")
        return self._script[view.index]

    async def _answer(
        self,
        wire: ModuleType,
        answer: Scripted,
        index: int,
        body: dict[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        model = body.get("model", "")
        if isinstance(answer, Refusal):
            status, message, headers = _refusal(answer, model, self._key)
            await _send_json(writer, status, wire.error_body(status, message), headers)
            return
        if isinstance(answer, DropStream | EndWithoutFinish | Stall):
            turn = spoken_turn(Say("a text that does not come to its end"), index=index, model=model)
            await self._break_off(wire.frames(turn, finish=False), answer, reader, writer)
            return
        turn = spoken_turn(answer, index=index, model=model)
        if not body.get("stream"):
            await _send_json(writer, 200, wire.whole(turn))
            return
        await _send_stream(writer, wire, turn)

    async def _break_off(
        self,
        frames: list[bytes],
        fault: DropStream | EndWithoutFinish | Stall,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        await _open_stream(writer)
        match fault:
            case DropStream(after_events):
                await _send_chunks(writer, frames[:after_events])
            case EndWithoutFinish():
                await _send_chunks(writer, frames)
                await _end_stream(writer)
            case Stall(seconds):
                await _send_chunks(writer, frames[:1])
                try:
                    rest = await asyncio.wait_for(reader.read(1), seconds)
                except TimeoutError:
                    return
                if not rest:
                    self._count_hangup()
            case _:
                assert_never(fault)


def _refusal(fault: Refusal, model: str, key: str) -> tuple[int, str, dict[str, str]]:
    match fault:
        case RateLimited(retry_after):
            return 429, "too many requests", _retry_headers(retry_after)
        case Overloaded(retry_after):
            return 529, "overloaded", _retry_headers(retry_after)
        case ServerError(status, retry_after):
            return status, "internal server error", _retry_headers(retry_after)
        case BadRequest(message):
            return 400, message, {}
        case Unauthorized():
            return 401, f"the key {key} is not valid", {}
        case UnknownModel():
            return 404, f"model: {model}", {}
        case _:
            assert_never(fault)


def _retry_headers(retry_after: float | None) -> dict[str, str]:
    if retry_after is None:
        return {}
    return {"retry-after-ms": str(int(retry_after * 1000)), "retry-after": str(int(retry_after))}


async def _send_json(
    writer: asyncio.StreamWriter, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
) -> None:
    payload = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", "connection: close"]
    lines.append(f"content-length: {len(payload)}")
    lines.extend(f"{name}: {value}" for name, value in (headers or {}).items())
    writer.write("\r\n".join([*lines, "", ""]).encode() + payload)
    await writer.drain()


async def _send_stream(writer: asyncio.StreamWriter, wire: ModuleType, turn: Turn) -> None:
    await _open_stream(writer)
    await _send_chunks(writer, wire.frames(turn, finish=True))
    await _end_stream(writer)


async def _open_stream(writer: asyncio.StreamWriter) -> None:
    lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "connection: close"]
    writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
    await writer.drain()


async def _send_chunks(writer: asyncio.StreamWriter, frames: list[bytes]) -> None:
    for frame in frames:
        writer.write(f"{len(frame):x}\r\n".encode() + frame + b"\r\n")
        await writer.drain()


async def _end_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(b"0\r\n\r\n")
    await writer.drain()
