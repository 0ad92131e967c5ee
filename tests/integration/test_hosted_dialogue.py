"""Given a provider that speaks a real wire format, when a conversation goes on, then both sides agree."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from sf import errors
from sf.domain.dialogue import Prompting, ToolResult, ToolSpec
from sf.providers.hosted import HostedConversation, HostedModel, Price, estimate_input_tokens, open_model
from sf.testing.model_server import (
    KEY,
    Answer,
    Call,
    Empty,
    MalformedArguments,
    ModelServer,
    RequestView,
    Say,
    Script,
    Scripted,
    Stall,
    Tokens,
    Truncated,
)

NAMES = ("anthropic:claude-sonnet-4-6", "openai:gpt-4o", "openai:gpt-5.4", "local:some-model")
READ = ToolSpec(
    "read_file",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
PROMPTING = Prompting("Be brief.", (READ,), thinking=False, max_output_tokens=1000, timeout=10.0)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    assert isinstance(request.param, str)
    yield request.param


@asynccontextmanager
async def talking(
    name: str, script: Script, price: Price | None = None
) -> AsyncIterator[tuple[ModelServer, HostedModel, HostedConversation]]:
    async with ModelServer(script) as server:
        model = open_model(name, base_url=server.url, api_key=KEY, price=price)
        try:
            yield server, model, model.start()
        finally:
            await model.aclose()


def quiet() -> None:
    """An event that nobody counts."""


async def test_a_text_comes_whole_and_every_event_is_told(name: str) -> None:
    events: list[float] = []
    async with talking(name, [Say("hello there, this is a text of some length")]) as (server, _, talk):
        talk.say("hi")
        reply = await talk.request(PROMPTING, lambda: events.append(time.monotonic()))
    assert reply.text == "hello there, this is a text of some length"
    assert reply.calls == ()
    assert not reply.truncated
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 10)
    assert len(events) >= 2
    assert len(server.requests) == 1


async def test_a_tool_loop_of_three_turns_with_parallel_calls(name: str) -> None:
    views: list[RequestView] = []

    def script(view: RequestView) -> Scripted:
        views.append(view)
        if view.index == 0:
            return Answer(
                ("Reading.",),
                (Call("read_file", {"path": "a"}, "c1"), Call("read_file", {"path": "b"}, "c2")),
            )
        return Call("read_file", {"path": "c"}) if view.index == 1 else Say("done")

    async with talking(name, script) as (_, _, talk):
        talk.say("read them")
        first = await talk.request(PROMPTING, quiet)
        assert [(call.call_id, call.arguments) for call in first.calls] == [
            ("c1", {"path": "a"}),
            ("c2", {"path": "b"}),
        ]
        talk.say("and hurry")
        talk.answer([ToolResult(call.call_id, call.name, f"is {call.arguments}") for call in first.calls])
        second = await talk.request(PROMPTING, quiet)
        talk.answer([ToolResult(second.calls[0].call_id, "read_file", "C")])
        third = await talk.request(PROMPTING, quiet)
    assert (first.text, third.text) == ("Reading.", "done")
    assert views[0].system == "Be brief."
    assert views[0].tools == ("read_file",)
    assert [result.content for result in views[1].last.results] == ["is {'path': 'a'}", "is {'path': 'b'}"]
    assert views[1].last.text == "and hurry"
    assert [message.role for message in views[2].messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize("raw", ['{"path": ', "[1, 2]", "not json"])
async def test_arguments_that_are_no_object_are_kept_raw_and_can_be_answered(name: str, raw: str) -> None:
    async with talking(name, [MalformedArguments("read_file", raw), Say("sorry")]) as (_, _, talk):
        talk.say("go")
        reply = await talk.request(PROMPTING, quiet)
        (call,) = reply.calls
        assert (call.name, call.arguments, call.raw) == ("read_file", None, raw)
        talk.answer([ToolResult(call.call_id, call.name, "the arguments were not an object")])
        assert (await talk.request(PROMPTING, quiet)).text == "sorry"


async def test_a_call_without_any_arguments_has_none_to_give(name: str) -> None:
    async with talking(name, [MalformedArguments("read_file", "")]) as (_, _, talk):
        talk.say("go")
        reply = await talk.request(PROMPTING, quiet)
    assert reply.calls[0].arguments == {}


@pytest.mark.parametrize("raw", ["", '{"path": "a'])
async def test_a_call_cut_off_by_the_limit_has_no_arguments(name: str, raw: str) -> None:
    async with talking(name, [Truncated("Let me", "read_file", raw), Say("ok")]) as (_, _, talk):
        talk.say("go")
        reply = await talk.request(PROMPTING, quiet)
        assert reply.truncated
        assert [(call.arguments, call.raw) for call in reply.calls] == [(None, raw)]
        talk.say("go on")
        assert (await talk.request(PROMPTING, quiet)).text == "ok"


async def test_an_empty_answer_is_a_reply_and_the_conversation_goes_on(name: str) -> None:
    async with talking(name, [Empty(), Say("now")]) as (_, _, talk):
        talk.say("go")
        reply = await talk.request(PROMPTING, quiet)
        assert (reply.text, reply.calls, reply.truncated) == ("", (), False)
        talk.say("well?")
        assert (await talk.request(PROMPTING, quiet)).text == "now"


async def test_new_messages_are_handed_out_once_and_a_conversation_resumes_from_them(name: str) -> None:
    views: list[RequestView] = []

    def script(view: RequestView) -> Scripted:
        views.append(view)
        return Call("read_file", {"path": "a"}) if view.index == 0 else Say("done")

    async with talking(name, script) as (_, model, talk):
        talk.say("one")
        reply = await talk.request(PROMPTING, quiet)
        stored = talk.take_new_messages()
        assert [json.loads(message)["kind"] for message in stored] == ["request", "response"]
        assert talk.take_new_messages() == []
        resumed = model.start(stored)
        resumed.answer([ToolResult(reply.calls[0].call_id, "read_file", "A")])
        assert (await resumed.request(PROMPTING, quiet)).text == "done"
        assert len(resumed.take_new_messages()) == 2
    assert [message.role for message in views[1].messages] == ["user", "assistant", "user"]


async def test_a_restart_begins_a_fresh_window(name: str) -> None:
    views: list[RequestView] = []

    def script(view: RequestView) -> Scripted:
        views.append(view)
        return Call("read_file", {"path": "a"}) if view.index == 0 else Say("done")

    async with talking(name, script) as (_, _, talk):
        talk.say("x" * 4000)
        await talk.request(PROMPTING, quiet)
        before = estimate_input_tokens(talk, PROMPTING)
        talk.restart("the story so far")
        assert estimate_input_tokens(talk, PROMPTING) < before - 900
        await talk.request(PROMPTING, quiet)
        assert len(talk.take_new_messages()) == 4
    assert [message.text for message in views[1].messages] == ["the story so far"]


async def test_what_a_provider_counts_is_expected_of_the_next_request(name: str) -> None:
    """By its bytes alone a file of dense text was reserved at half of what it cost."""

    def script(view: RequestView) -> Scripted:
        return Answer(("go on",), usage=Tokens(input=3_000, output=5))

    async with talking(name, script) as (_, _, talk):
        talk.say("x" * 4000)
        assert estimate_input_tokens(talk, PROMPTING) < 1_500
        await talk.request(PROMPTING, quiet)
        talk.say("y" * 4000)
        assert estimate_input_tokens(talk, PROMPTING) > 4_500
        talk.restart("字" * 1000)
        assert talk.waiting_bytes() == 3000


async def test_cost_by_override_and_unknown_models_are_unpriced(name: str) -> None:
    answer = Answer(("x",), usage=Tokens(input=1000, output=100, cache_read=400))
    async with talking(name, [answer], Price(3.0, 15.0, 0.3, 3.75)) as (_, _, talk):
        talk.say("go")
        usage = (await talk.request(PROMPTING, quiet)).usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.priced) == (1000, 400, True)
    assert usage.cost_micro_usd == 600 * 3 + 120 + 1500
    unknown = name.partition(":")[0] + ":no-such-model-7"
    async with talking(unknown, [answer]) as (_, _, talk):
        talk.say("go")
        usage = (await talk.request(PROMPTING, quiet)).usage
    assert (usage.cost_micro_usd, usage.priced) == (0, False)


async def test_an_answer_without_figures_has_no_cost_that_is_known(name: str) -> None:
    for price, known in ((Price(3.0, 15.0), False), (Price(0.0, 0.0), True), (None, False)):
        async with talking(name, [Answer(("x",), usage=Tokens(input=0, output=0))], price) as (_, _, talk):
            talk.say("go " * 4000)
            usage = (await talk.request(PROMPTING, quiet)).usage
        assert (usage.cost_micro_usd, usage.priced) == (0, known)
        assert 3000 <= usage.input_tokens < 4000 and usage.output_tokens > 0, "the window fills all the same"


async def test_cached_tokens_are_never_free_by_default_and_never_dearer_than_what_was_reserved(
    name: str,
) -> None:
    own, premium = Price(3.0, 15.0), 1.25 if name.startswith("anthropic") else 1.0
    written = 500 if name.startswith("anthropic") else 0
    answer = Answer(("x",), usage=Tokens(input=1000, output=100, cache_read=400, cache_write=written))
    async with talking(name, [answer], own) as (_, model, talk):
        talk.say("go")
        usage = (await talk.request(PROMPTING, quiet)).usage
        assert usage.cost_micro_usd == (1000 - written) * 3 + written * 3 * premium + 1500
        assert model.cost_of(1000, 100) == 1000 * 3 * premium + 1500
    async with talking(name, [], None) as (_, model, _):
        plain, published = Price(3.0, 15.0, 0.3, 3.75), model.cost_of(1000, 100)
    if name == "anthropic:claude-sonnet-4-6":
        assert published == plain.ceiling_micro_usd(1000, 100) == 1000 * 3.75 + 1500


@pytest.mark.parametrize("name", NAMES[:3])
async def test_a_known_model_has_its_published_price(name: str) -> None:
    async with talking(name, [Answer(("x",), usage=Tokens(input=1000, output=100))]) as (_, _, talk):
        talk.say("go")
        usage = (await talk.request(PROMPTING, quiet)).usage
    assert usage.priced
    assert usage.cost_micro_usd > 0


async def test_cancelling_closes_the_connection_and_leaves_the_queue(name: str) -> None:
    async with talking(name, [Stall(30.0), Say("second")]) as (server, _, talk):
        talk.say("go")
        running = asyncio.create_task(talk.request(PROMPTING, quiet))
        assert await asyncio.to_thread(server.asked.wait, 5.0)
        await asyncio.sleep(0.1)
        running.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await asyncio.to_thread(server.hung_up.wait, 2.0)
        assert time.monotonic() - started < 1.0
        assert (await talk.request(PROMPTING, quiet)).text == "second"
        assert len(talk.take_new_messages()) == 2
    first, second = server.requests
    assert first.body == second.body


async def test_an_answer_to_no_call_is_refused(name: str) -> None:
    async with talking(name, []) as (server, _, talk):
        with pytest.raises(errors.BadUsage):
            talk.answer([ToolResult("nope", "read_file", "x")])
        with pytest.raises(errors.BadUsage):
            await talk.request(PROMPTING, quiet)
    assert server.requests == []
