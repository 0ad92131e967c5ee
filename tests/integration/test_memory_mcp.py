"""The memory as an MCP server, asked by the real client: over streamable HTTP and over stdio."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.support.memory_server import PATIENCE, MemoryServer, run

BANK = "project/mcp"
TESTS = "Run the test suite with two workers, or the database tests collide"
TOOLS = {"recall", "retain", "feedback", "validate", "forget"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryServer]:
    with MemoryServer(tmp_path_factory.mktemp("mcp") / "data") as made:
        yield made


@contextlib.asynccontextmanager
async def over_http(server: MemoryServer, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=False) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def over_stdio(*arguments: str) -> AsyncIterator[Client]:
    command = ["-m", "singularity_memory", "mcp", "--embedder", "static", *arguments]
    async with Client(
        StdioServerParameters(command=sys.executable, args=command), read_timeout_seconds=PATIENCE
    ) as client:
        yield client


def said(result: CallToolResult) -> str:
    (part,) = result.content
    assert isinstance(part, TextContent)
    return part.text


def told(result: CallToolResult) -> Any:
    assert not result.is_error, said(result)
    return result.structured_content


async def exercise(client: Client, bank: str) -> None:
    """Every tool once, as an agent would."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == TOOLS
    assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools.values())
    kept = told(await client.call_tool("retain", {"bank": bank, "entries": [{"content": TESTS}]}))
    entry = kept["entries"][0]["id"]
    found = told(await client.call_tool("recall", {"bank": bank, "query": "how do I run the tests?"}))
    assert (found["entries"][0]["content"], found["entries"][0]["id"]) == (TESTS, entry)
    assert told(await client.call_tool("feedback", {"id": entry, "signal": 1})) == {"id": entry}
    assert told(await client.call_tool("validate", {"id": entry})) == {"id": entry}
    wrong = await client.call_tool("recall", {"bank": bank, "query": "x", "top_k": 0})
    assert wrong.is_error and "top_k" in said(wrong)
    unknown = await client.call_tool("feedback", {"id": "nothing", "signal": 1})
    assert unknown.is_error and "unknown_entry" in said(unknown)
    assert told(await client.call_tool("forget", {"bank": bank, "ids": [entry]})) == {"forgotten": 1}


@pytest.mark.conforms("C-94")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_streamable_http(server: MemoryServer, mode: str) -> None:
    async with over_http(server, server.token, mode) as client:
        await exercise(client, f"project/{mode}")


async def test_the_tokens_of_http_count_for_mcp(server: MemoryServer) -> None:
    added = run(["token", "add", "reader", "--bank", "project/*", "--read", "--data", str(server.data)])
    server.retain(BANK, TESTS)
    server.retain("global/coding", TESTS)
    async with over_http(server, added.stdout.strip()) as client:
        assert told(await client.call_tool("recall", {"bank": BANK, "query": "tests"}))["entries"]
        for tool, arguments in (
            ("retain", {"bank": BANK, "entries": [{"content": TESTS}]}),
            ("recall", {"bank": "global/coding", "query": "tests"}),
            ("forget", {"bank": BANK, "filter": {"a": 1}}),
        ):
            refused = await client.call_tool(tool, arguments)
            assert refused.is_error and said(refused).startswith("forbidden")


def test_without_a_token_or_from_a_page_there_is_no_mcp(server: MemoryServer) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert server.ask("POST", "/mcp", ping, token=None).status == 401
    assert server.ask("POST", "/mcp", ping, headers={"Origin": "http://evil.example"}).status == 403
    assert server.ask("POST", "/mcp", ping, headers={"Host": "evil.example"}).status == 403
    stream = {"Accept": "text/event-stream"}
    assert server.ask("GET", "/mcp", headers=stream).status == 405


async def test_over_stdio_on_a_folder(tmp_path: Path) -> None:
    async with over_stdio("--data", str(tmp_path / "data")) as client:
        await exercise(client, BANK)
        await client.call_tool("retain", {"bank": BANK, "entries": [{"content": TESTS}]})
    again = run(["recall", "--data", str(tmp_path / "data"), "--embedder", "none", BANK, "tests"])
    assert TESTS in again.stdout


async def test_over_stdio_on_a_server(server: MemoryServer) -> None:
    token = str(server.data / "token")
    async with over_stdio("--url", server.url, "--token-file", token) as client:
        await exercise(client, "project/remote")
    wrong = server.data.parent / "wrong-token"
    wrong.write_text("sm_nobody_gave_this\n", encoding="ascii")
    async with over_stdio("--url", server.url, "--token-file", str(wrong)) as client:
        refused = await client.call_tool("recall", {"bank": BANK, "query": "tests"})
        assert refused.is_error and "unauthorised" in said(refused)
