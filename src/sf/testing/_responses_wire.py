"""OpenAI's `POST /v1/responses`, as a server speaks it."""

from __future__ import annotations

import json
from typing import Any

from sf.testing._chat_wire import error_body, presented_key
from sf.testing._model_script import (
    RawCall,
    RequestView,
    Turn,
    ViewedCall,
    ViewedMessage,
    ViewedResult,
    merged,
    pieces,
)

__all__ = ["error_body", "frames", "presented_key", "problem", "view", "whole"]

_SYSTEM = ("system", "developer")


def problem(body: dict[str, Any]) -> str | None:
    """Why the real service would refuse this body, if it would."""
    if not body.get("max_output_tokens"):
        return "max_output_tokens: a limit is required by this server"
    for number, tool in enumerate(body.get("tools") or []):
        if (tool.get("parameters") or {}).get("type") != "object":
            return f"Invalid schema for function in tools[{number}]: schema must have type 'object'"
    items = _items(body)
    asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    if missing := sorted(set(asked) ^ set(answered)):
        return f"No tool output found for function call {missing}."
    if not items or items[-1].get("role") == "assistant":
        return "input: the last item must be the user's or a tool output"
    for item in items:
        if item.get("type") == "reasoning" and not item.get("encrypted_content") and not body.get("store"):
            return "reasoning items need encrypted_content when nothing is stored"
    return None


def _items(body: dict[str, Any]) -> list[dict[str, Any]]:
    sent = body.get("input") or []
    return [{"role": "user", "content": sent}] if isinstance(sent, str) else list(sent)


def view(body: dict[str, Any], index: int) -> RequestView:
    """The request in the common shape."""
    items = _items(body)
    system = [body.get("instructions") or ""]
    system.extend(_text(item) for item in items if item.get("role") in _SYSTEM)
    spoken = merged([_viewed(item) for item in items if item.get("role") not in _SYSTEM])
    tools = tuple(tool["name"] for tool in body.get("tools") or [] if tool.get("type") == "function")
    return RequestView(
        "responses", index, body.get("model", ""), "\n".join(filter(None, system)), spoken, tools
    )


def _text(item: dict[str, Any]) -> str:
    content = item.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _viewed(item: dict[str, Any]) -> ViewedMessage:
    match item.get("type"):
        case "function_call":
            call = ViewedCall(item["call_id"], item["name"], json.loads(item["arguments"]))
            return ViewedMessage("assistant", calls=(call,))
        case "function_call_output":
            output = item["output"] if isinstance(item["output"], str) else _text({"content": item["output"]})
            return ViewedMessage("user", results=(ViewedResult(item["call_id"], output),))
        case "reasoning":
            summary = "".join(part["text"] for part in item.get("summary") or [])
            return ViewedMessage("assistant", thinking=summary)
        case _:
            return ViewedMessage("assistant" if item["role"] == "assistant" else "user", _text(item))


def frames(turn: Turn, *, finish: bool) -> list[bytes]:
    """The server-sent events of an answer; without `finish` they stop before the terminal event."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _envelope(turn, [], "in_progress")}
    ]
    items = _output(turn)
    for number, item in enumerate(items):
        place = {"output_index": number, "item_id": item["id"]}
        opened = {**item, "status": "in_progress"} | _emptied(item)
        events.append({"type": "response.output_item.added", "output_index": number, "item": opened})
        events.extend({**delta, **place} for delta in _deltas(item))
        events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    if finish:
        events.append({"type": f"response.{_status(turn)}", "response": whole(turn)})
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _emptied(item: dict[str, Any]) -> dict[str, Any]:
    match item["type"]:
        case "message":
            return {"content": []}
        case "function_call":
            return {"arguments": ""}
        case _:
            return {"summary": [], "encrypted_content": None}


def _deltas(item: dict[str, Any]) -> list[dict[str, Any]]:
    match item["type"]:
        case "message":
            text = item["content"][0]["text"]
            event = {"type": "response.output_text.delta", "content_index": 0, "logprobs": []}
            return [{**event, "delta": piece} for piece in pieces(text)]
        case "function_call":
            event = {"type": "response.function_call_arguments.delta"}
            return [{**event, "delta": piece} for piece in pieces(item["arguments"])]
        case _:
            text = item["summary"][0]["text"]
            event = {"type": "response.reasoning_summary_text.delta", "summary_index": 0}
            return [{**event, "delta": piece} for piece in pieces(text)]


def _output(turn: Turn) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        sealed = f"enc-{turn.turn_id}"
        items.append(
            {"id": f"rs_{turn.turn_id}", "type": "reasoning", "summary": summary, "encrypted_content": sealed}
        )
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}]
        items.append(
            {
                "id": f"msg_{turn.turn_id}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    items.extend(_call_item(call) for call in turn.calls)
    return items


def _call_item(call: RawCall) -> dict[str, Any]:
    return {
        "id": f"fc_{call.call_id}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.raw,
    }


def _status(turn: Turn) -> str:
    return "incomplete" if turn.stop == "length" else "completed"


def whole(turn: Turn) -> dict[str, Any]:
    """The answer as one body, for a request that does not stream."""
    usage = turn.usage
    body = _envelope(turn, _output(turn), _status(turn))
    body["usage"] = {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    }
    if turn.stop == "length":
        body["incomplete_details"] = {"reason": "max_output_tokens"}
    return body


def _envelope(turn: Turn, output: list[dict[str, Any]], status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{turn.turn_id}",
        "object": "response",
        "created_at": 1,
        "model": turn.model,
        "status": status,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
