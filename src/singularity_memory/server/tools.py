"""The MCP server: one tool for each operation that an agent needs, with the wire's types as its schemas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import msgspec
from mcp.server import Server, ServerRequestContext

from singularity_memory import wire
from singularity_memory.errors import MemoryFault
from singularity_memory.operations import FEEDBACK, FORGET, RECALL, RETAIN, VALIDATE, Operation
from singularity_memory.server.openapi import VERSION, plain_schema
from singularity_memory.server.parsing import parsed

Answer = Callable[[ServerRequestContext[Any, Any], wire.Request], Awaitable[wire.Reply]]
TOOLS = {operation.name: operation for operation in (RECALL, RETAIN, FEEDBACK, VALIDATE, FORGET)}
_INSTRUCTIONS = (
    "A memory that outlives sessions. Recall before you begin something, with the names and the question that"
    " you have. Retain what was learned and will be needed again: decisions with their reasons, pitfalls with"
    " their solutions, how things are built and tested; no secrets, no logs, nothing that the code says"
    " itself. Use one bank for what is true everywhere, such as global/coding, and one for each project, such"
    " as project/<name>. Give feedback on what you recalled and used."
)


def server(answer: Answer) -> Server[dict[str, Any]]:
    """An MCP server whose tools are answered by `answer`; a fault becomes a tool's error."""

    async def list_tools(
        _: ServerRequestContext[Any, Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(operation) for operation in TOOLS.values()])

    async def call_tool(
        context: ServerRequestContext[Any, Any], call: types.CallToolRequestParams
    ) -> types.CallToolResult:
        operation = TOOLS.get(call.name)
        if operation is None:
            return _failed(f"there is no tool {call.name!r}; there are {', '.join(TOOLS)}")
        try:
            request = parsed(msgspec.json.encode(call.arguments or {}), operation)
            return _done(await answer(context, request))
        except MemoryFault as fault:
            return _failed(f"{fault.code}: {fault.message}")

    return Server(
        "singularity-memory",
        version=VERSION,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(operation: Operation) -> types.Tool:
    return types.Tool(
        name=operation.name,
        title=operation.summary.rstrip("."),
        description=f"{operation.summary} {operation.about}",
        input_schema=plain_schema(operation.request),
        output_schema=plain_schema(operation.reply),
        annotations=types.ToolAnnotations(
            read_only_hint=operation.scope == "read",
            destructive_hint=operation is FORGET,
            idempotent_hint=operation is not FEEDBACK,
            open_world_hint=False,
        ),
    )


def _done(reply: wire.Reply) -> types.CallToolResult:
    text = msgspec.json.encode(reply).decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=msgspec.json.decode(text)
    )


def _failed(line: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=line)], is_error=True)
