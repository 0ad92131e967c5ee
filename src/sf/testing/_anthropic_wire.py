"""Anthropic's `POST /v1/messages`, as a server speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
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

_STOPS = {"end": "end_turn", "tools": "tool_use", "length": "max_tokens"}
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def presented_key(headers: dict[str, str]) -> str:
    """The key that a client sent; the service takes it in either header."""
    return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")


def problem(body: dict[str, Any]) -> str | None:
    """Why the real service would refuse this body, if it would."""
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        return "max_tokens: Field required"
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled" and thinking.get("budget_tokens", 0) >= body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`"
    if thinking.get("type") in ("enabled", "adaptive") and (body.get("tool_choice") or {}).get("type") in (
        "any",
        "tool",
    ):
        return "Thinking may not be enabled when tool_choice forces tool use."
    for number, tool in enumerate(body.get("tools") or []):
        if (tool.get("input_schema") or {}).get("type") != "object":
            return f"tools.{number}.custom.input_schema.type: Field required"
    return _message_problem(body.get("messages") or [])


def _message_problem(messages: list[dict[str, Any]]) -> str | None:
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    if messages[-1]["role"] != "user":
        return "This model does not support assistant message prefill."
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if number and message["role"] == messages[number - 1]["role"]:
            return f"messages.{number}: roles must alternate"
        blocks = _blocks(message)
        if not blocks:
            return f"messages.{number}: content must be non-empty"
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return f"messages.{number}: text content blocks must contain non-whitespace text"
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(answered) != sorted(open_calls):
            return f"messages.{number}: every `tool_use` must have its `tool_result` in the next message"
        leading = [block["type"] for block in blocks[: len(answered)]]
        if answered and set(leading) != {"tool_result"}:
            return f"messages.{number}: tool_result blocks must come first"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if not all(isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use"):
            return f"messages.{number}: tool_use.input: Input should be a valid dictionary"
        if any(block["type"] == "thinking" and not block.get("signature") for block in blocks):
            return f"messages.{number}: thinking.signature: Field required"
    return None


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def view(body: dict[str, Any], index: int) -> RequestView:
    """The request in the common shape."""
    system = body.get("system") or ""
    if not isinstance(system, str):
        system = "\n".join(block["text"] for block in system)
    messages = merged([_viewed(message) for message in body["messages"]])
    tools = tuple(tool["name"] for tool in body.get("tools") or [])
    return RequestView("anthropic", index, body.get("model", ""), system, messages, tools)


def _viewed(message: dict[str, Any]) -> ViewedMessage:
    blocks = _blocks(message)
    return ViewedMessage(
        message["role"],
        "\n".join(block["text"] for block in blocks if block["type"] == "text"),
        tuple(
            ViewedCall(block["id"], block["name"], block["input"])
            for block in blocks
            if block["type"] == "tool_use"
        ),
        tuple(
            ViewedResult(block["tool_use_id"], _result_text(block.get("content", "")))
            for block in blocks
            if block["type"] == "tool_result"
        ),
        "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
    )


def _result_text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def frames(turn: Turn, *, finish: bool) -> list[bytes]:
    """The server-sent events of an answer; without `finish` they stop before the stop reason."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": _envelope(turn, [], None, output=1)}]
    for number, (start, deltas) in enumerate(_streamed_blocks(turn)):
        events.append({"type": "content_block_start", "index": number, "content_block": start})
        events.extend({"type": "content_block_delta", "index": number, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": number})
    if finish:
        delta = {"stop_reason": _STOPS[turn.stop], "stop_sequence": None}
        events.append(
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": turn.usage.output}}
        )
        events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _streamed_blocks(turn: Turn) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if turn.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(turn.thinking)]
        signature = {"type": "signature_delta", "signature": f"sig-{turn.turn_id}"}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]
    if turn.text:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in pieces(turn.text)],
        )
    for call in turn.calls:
        start = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}
        yield start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(call.raw)]


def whole(turn: Turn) -> dict[str, Any]:
    """The answer as one body, for a request that does not stream."""
    content: list[dict[str, Any]] = []
    if turn.thinking:
        content.append({"type": "thinking", "thinking": turn.thinking, "signature": f"sig-{turn.turn_id}"})
    if turn.text:
        content.append({"type": "text", "text": turn.text})
    for call in turn.calls:
        arguments = json.loads(call.raw or "{}")
        content.append({"type": "tool_use", "id": call.call_id, "name": call.name, "input": arguments})
    return _envelope(turn, content, _STOPS[turn.stop], output=turn.usage.output)


def _envelope(turn: Turn, content: list[dict[str, Any]], stop: str | None, *, output: int) -> dict[str, Any]:
    usage = turn.usage
    return {
        "id": f"msg_{turn.turn_id}",
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input - usage.cache_read - usage.cache_write,
            "output_tokens": output,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
        },
    }


def error_body(status: int, message: str) -> dict[str, Any]:
    """The body of a refusal."""
    return {"type": "error", "error": {"type": _KINDS.get(status, "api_error"), "message": message}}
