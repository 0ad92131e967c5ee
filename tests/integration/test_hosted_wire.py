"""Given what a provider demands of a request, when one is sent, then it is so on the wire."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx2
import pytest

from sf.domain.dialogue import Prompting, ToolResult, ToolSpec
from sf.providers.hosted import open_model
from sf.testing.model_server import KEY, Answer, Call, ModelServer, RequestView, Say, Scripted

READ = ToolSpec("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def prompting(*, thinking: bool, limit: int = 64_000) -> Prompting:
    return Prompting("Be brief.", (READ,), thinking=thinking, max_output_tokens=limit, timeout=10.0)


def quiet() -> None:
    """An event that nobody counts."""


async def sent_body(name: str, how: Prompting) -> dict[str, Any]:
    async with ModelServer([Say("ok")]) as server:
        model = open_model(name, base_url=server.url, api_key=KEY)
        talk = model.start()
        talk.say("go")
        await talk.request(how, quiet)
        await model.aclose()
        return server.requests[0].body


@pytest.mark.parametrize(
    ("limit", "budget"), [(64_000, 16_384), (24_000, 10_000), (4_096, 2_048), (2_048, 1_024), (1_000, None)]
)
async def test_a_thinking_budget_fits_into_the_output_limit(limit: int, budget: int | None) -> None:
    body = await sent_body("anthropic:claude-haiku-4-5", prompting(thinking=True, limit=limit))
    assert (body.get("thinking") or {}).get("budget_tokens") == budget
    assert body["max_tokens"] == limit


async def test_thinking_is_an_effort_where_the_model_takes_one() -> None:
    adaptive = await sent_body("anthropic:claude-opus-4-6", prompting(thinking=True, limit=1000))
    assert adaptive["thinking"]["type"] == "adaptive"
    assert adaptive["output_config"]["effort"] == "high"
    reasoning = await sent_body("openai:gpt-5.4", prompting(thinking=True))
    assert reasoning["reasoning"]["effort"] == "high"


@pytest.mark.parametrize("name", ["openai:gpt-4o", "local:some-model"])
async def test_thinking_is_not_asked_of_a_model_that_has_none(name: str) -> None:
    body = await sent_body(name, prompting(thinking=True))
    assert "reasoning_effort" not in body


async def test_anthropic_caches_instructions_tools_and_history() -> None:
    body = await sent_body("anthropic:claude-sonnet-4-6", prompting(thinking=False))
    assert body["system"][-1]["cache_control"]["type"] == "ephemeral"
    assert body["tools"][-1]["cache_control"]["type"] == "ephemeral"
    assert body["cache_control"]["type"] == "ephemeral"


async def test_local_servers_get_the_old_name_of_the_output_limit() -> None:
    body = await sent_body("local:some-model", prompting(thinking=False))
    assert body["max_tokens"] == 64_000
    assert "max_completion_tokens" not in body


async def test_reasoning_models_of_openai_are_asked_through_responses_and_nothing_is_stored() -> None:
    body = await sent_body("openai:gpt-5.4", prompting(thinking=True))
    assert body["store"] is False
    assert "reasoning.encrypted_content" in body["include"]


@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-4-6", "openai:gpt-5.4"])
async def test_thinking_goes_back_to_the_provider_in_a_tool_loop(name: str) -> None:
    views: list[RequestView] = []

    def script(view: RequestView) -> Scripted:
        views.append(view)
        if view.index == 0:
            return Answer(calls=(Call("read_file", {"path": "a"}, "c1"),), thinking="I should look first.")
        return Say("done")

    async with ModelServer(script) as server:
        model = open_model(name, base_url=server.url, api_key=KEY)
        talk = model.start()
        talk.say("go")
        await talk.request(prompting(thinking=True), quiet)
        stored = talk.take_new_messages()
        resumed = model.start(stored)
        for conversation in (talk, resumed):
            conversation.answer([ToolResult("c1", "read_file", "A")])
            assert (await conversation.request(prompting(thinking=True), quiet)).text == "done"
        await model.aclose()
    assert [view.messages[1].thinking for view in views[1:]] == ["I should look first."] * 2


def test_a_script_that_fails_tells_the_test() -> None:
    def broken(view: RequestView) -> Scripted:
        raise LookupError(view.model)

    with pytest.raises(LookupError), ModelServer(broken) as server:
        headers = {"x-api-key": KEY}
        assert httpx2.post(f"{server.url}/v1/messages", json=ANTHROPIC, headers=headers).status_code == 400
        assert httpx2.post(f"{server.url}/v1/messages", content=b"{", headers=headers).status_code == 400


ANTHROPIC: dict[str, Any] = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
USE = {"type": "tool_use", "id": "c1", "name": "t", "input": {}}
CHAT: dict[str, Any] = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
CHAT_USE = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("messages", {"model": "m", "messages": ANTHROPIC["messages"]}, "max_tokens"),
        ("messages", ANTHROPIC | {"messages": [{"role": "assistant", "content": "hi"}]}, "user role"),
        ("messages", ANTHROPIC | {"messages": [{"role": "user", "content": "hi"}] * 2}, "alternate"),
        (
            "messages",
            ANTHROPIC
            | {
                "messages": [
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": [USE]},
                    {"role": "user", "content": "no result"},
                ]
            },
            "tool_result",
        ),
        ("messages", ANTHROPIC | {"tools": [{"name": "t", "input_schema": {}}]}, "input_schema"),
        ("chat/completions", {"model": "m", "messages": CHAT["messages"]}, "max_tokens"),
        (
            "chat/completions",
            CHAT | {"messages": [*CHAT["messages"], CHAT_USE, {"role": "user", "content": "x"}]},
            "tool_calls",
        ),
        (
            "chat/completions",
            CHAT | {"tools": [{"type": "function", "function": {"name": "t", "parameters": {}}}]},
            "object",
        ),
        ("responses", {"model": "m", "input": "hi"}, "max_output_tokens"),
    ],
)
def test_the_server_refuses_what_the_services_refuse(path: str, body: dict[str, Any], said: str) -> None:
    with ModelServer([Say("never")]) as server:
        answer = httpx2.post(f"{server.url}/v1/{path}", json=body, headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("messages", ANTHROPIC),
        ("chat/completions", CHAT),
        ("responses", {"model": "m", "max_output_tokens": 5, "input": "hi"}),
    ],
)
def test_the_server_answers_without_a_stream_too(path: str, body: dict[str, Any]) -> None:
    with ModelServer([Say("whole")]) as server:
        headers = {"x-api-key": KEY, "authorization": f"Bearer {KEY}"}
        answer = httpx2.post(f"{server.url}/v1/{path}", json=body, headers=headers)
        denied = httpx2.post(f"{server.url}/v1/{path}", json=body, headers={"authorization": "Bearer no"})
    assert answer.status_code == 200
    assert "whole" in json.dumps(answer.json())
    assert denied.status_code == 401
    assert server.requests[0].headers["authorization"] == "[key]"
    assert server.requests[1].headers["authorization"] == "[withheld]"


@pytest.mark.parametrize(("chosen", "other"), [("anthropic", "openai"), ("openai", "anthropic")])
def test_only_the_chosen_provider_is_imported(chosen: str, other: str) -> None:
    code = (
        "import sys; from sf.providers.hosted import open_model; "
        f"open_model('{chosen}:m', base_url='http://127.0.0.1:9', api_key='k'); "
        f"print('{chosen}' in sys.modules, '{other}' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True", "False"]
