"""A model's response as a reply: its text, its calls, and whether it is whole."""

from __future__ import annotations

import json
from typing import Any

from pydantic_ai.messages import ModelResponse, ToolCallPart

from sf import errors
from sf.domain.dialogue import Reply, ToolCall
from sf.errors import Transient
from sf.providers.pricing import Price, metered


def reply_of(response: ModelResponse, price: Price | None) -> Reply:
    """The reply in a finished response; calls that cannot be read are kept with their raw text."""
    truncated = response.finish_reason == "length"
    parts = response.parts
    calls = tuple(
        _call(part, cut_off=truncated and number == len(parts) - 1)
        for number, part in enumerate(parts)
        if isinstance(part, ToolCallPart)
    )
    return Reply(response.text or "", calls, metered(response, price), truncated)


def require_finished(response: ModelResponse) -> None:
    """Raise unless the provider said why the answer ended."""
    # A stream that is cut at an event's border looks complete but for the missing reason.
    if response.finish_reason is None or response.finish_reason == "error":
        raise Transient("the stream ended before the answer did")
    if response.finish_reason == "content_filter":
        raise errors.TurnFailed("the provider refused to answer this conversation")


def _call(part: ToolCallPart, *, cut_off: bool) -> ToolCall:
    raw = part.args if isinstance(part.args, str) else json.dumps(part.args or {})
    if isinstance(part.args, dict):
        return ToolCall(part.tool_call_id, part.tool_name, part.args)
    # No arguments at all is how a tool without parameters is called, unless the output limit cut them.
    if not raw.strip() or part.args is None:
        return ToolCall(part.tool_call_id, part.tool_name, None if cut_off else {})
    arguments = _parsed(raw)
    if isinstance(arguments, dict):
        return ToolCall(part.tool_call_id, part.tool_name, arguments)
    return ToolCall(part.tool_call_id, part.tool_name, None, raw)


def _parsed(raw: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
