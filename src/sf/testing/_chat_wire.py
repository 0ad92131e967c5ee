"""OpenAI's `POST /v1/chat/completions`, as a server speaks it."""

from __future__ import annotations

import json
from typing import Any

from sf.testing._model_script import (
    RequestView,
    Turn,
    ViewedCall,
    ViewedMessage,
    ViewedResult,
    merged,
    pieces,
)

_STOPS = {"end": "stop", "tools": "tool_calls", "length": "length"}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_SYSTEM = ("system", "developer")


def presented_key(headers: dict[str, str]) -> str:
    """The key that a client sent."""
    return headers.get("authorization", "").removeprefix("Bearer ")


def problem(body: dict[str, Any]) -> str | None:
    """Why the real service would refuse this body, if it would."""
    if not (body.get("max_completion_tokens") or body.get("max_tokens")):
        return "max_tokens: a limit is required by this server"
    if body.get("stream") and not (body.get("stream_options") or {}).get("include_usage"):
        return "stream_options.include_usage is required by this server"
    for number, tool in enumerate(body.get("tools") or []):
        if (tool["function"].get("parameters") or {}).get("type") != "object":
            return f"Invalid schema for function in tools[{number}]: schema must have type 'object'"
    return _message_problem(body.get("messages") or [])


def _message_problem(messages: list[dict[str, Any]]) -> str | None:
    spoken = [message for message in messages if message["role"] not in _SYSTEM]
    if not spoken or spoken[0]["role"] != "user":
        return "messages: the first message must be the user's"
    if spoken[-1]["role"] == "assistant":
        return "messages: the last message must not be the assistant's"
    open_calls: set[str] = set()
    for number, message in enumerate(spoken):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"messages[{number}]: 'tool' must follow a message with its 'tool_calls'"
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            return f"An assistant message with 'tool_calls' must be followed by results for {open_calls}"
        if message["role"] == "assistant":
            calls = message.get("tool_calls") or []
            open_calls = {call["id"] for call in calls}
            if not calls and not message.get("content"):
                return f"messages[{number}]: expected 'content' or 'tool_calls'"
    return f"no results for {open_calls}" if open_calls else None


def view(body: dict[str, Any], index: int) -> RequestView:
    """The request in the common shape."""
    messages = body["messages"]
    system = "\n".join(_text(message) for message in messages if message["role"] in _SYSTEM)
    spoken = merged([_viewed(message) for message in messages if message["role"] not in _SYSTEM])
    tools = tuple(tool["function"]["name"] for tool in body.get("tools") or [])
    return RequestView("chat", index, body.get("model", ""), system, spoken, tools)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _viewed(message: dict[str, Any]) -> ViewedMessage:
    if message["role"] == "tool":
        return ViewedMessage("user", results=(ViewedResult(message["tool_call_id"], _text(message)),))
    if message["role"] == "user":
        return ViewedMessage("user", _text(message))
    calls = tuple(
        ViewedCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls") or []
    )
    return ViewedMessage("assistant", _text(message), calls, thinking=message.get("reasoning_content") or "")


def frames(turn: Turn, *, finish: bool) -> list[bytes]:
    """The server-sent events of an answer; without `finish` they stop before the finish reason."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas.extend({"reasoning_content": piece} for piece in pieces(turn.thinking))
    deltas.extend({"content": piece} for piece in pieces(turn.text))
    for number, call in enumerate(turn.calls):
        function = {"name": call.name, "arguments": ""}
        deltas.append(
            {"tool_calls": [{"index": number, "id": call.call_id, "type": "function", "function": function}]}
        )
        deltas.extend(
            {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}
            for piece in pieces(call.raw)
        )
    chunks = [_chunk(turn, [{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    if finish:
        chunks.append(_chunk(turn, [{"index": 0, "delta": {}, "finish_reason": _STOPS[turn.stop]}]))
        chunks.append(_chunk(turn, []) | {"usage": _usage(turn)})
    out = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return [*out, b"data: [DONE]\n\n"] if finish else out


def _chunk(turn: Turn, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{turn.turn_id}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": turn.model,
        "choices": choices,
    }


def _usage(turn: Turn) -> dict[str, Any]:
    usage = turn.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }


def whole(turn: Turn) -> dict[str, Any]:
    """The answer as one body, for a request that does not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}
            for call in turn.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _STOPS[turn.stop]}
    return _chunk(turn, [choice]) | {"object": "chat.completion", "usage": _usage(turn)}


def error_body(status: int, message: str) -> dict[str, Any]:
    """The body of a refusal."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": _CODES.get(status)}}
