"""Given a provider that fails, when a request is made, then the error says what to do and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from sf import errors
from sf.domain.dialogue import Prompting
from sf.errors import Transient
from sf.providers.hosted import HostedConversation, open_model
from sf.testing.model_server import (
    KEY,
    BadRequest,
    DropStream,
    EndWithoutFinish,
    Fault,
    ModelServer,
    Overloaded,
    RateLimited,
    Say,
    Scripted,
    ServerError,
    Stall,
    Unauthorized,
    UnknownModel,
)

NAMES = ("anthropic:claude-sonnet-4-6", "openai:gpt-4o", "openai:gpt-5.4", "local:some-model")
PROMPTING = Prompting("Be brief.", (), thinking=False, max_output_tokens=1000, timeout=10.0)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    assert isinstance(request.param, str)
    yield request.param


@asynccontextmanager
async def talking(name: str, *script: Scripted) -> AsyncIterator[tuple[ModelServer, HostedConversation]]:
    async with ModelServer(script) as server:
        model = open_model(name, base_url=server.url, api_key=KEY)
        try:
            yield server, model.start()
        finally:
            await model.aclose()


def quiet() -> None:
    """An event that nobody counts."""


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (RateLimited(), Transient),
        (RateLimited(7), errors.QuotaWait),
        (Overloaded(), Transient),
        (Overloaded(7), errors.QuotaWait),
        (ServerError(500), Transient),
        (ServerError(503), Transient),
        (BadRequest("prompt is too long: 300000 tokens > 200000 maximum"), errors.TurnFailed),
        (BadRequest("that makes no sense"), errors.TurnFailed),
        (Unauthorized(), errors.ModelUnavailable),
        (UnknownModel(), errors.ModelUnavailable),
        (DropStream(0), Transient),
        (DropStream(1), Transient),
        (DropStream(3), Transient),
        (EndWithoutFinish(), Transient),
    ],
)
async def test_each_fault_has_its_error_and_a_retry_sends_the_same(
    name: str, fault: Fault, expected: type[errors.SfError]
) -> None:
    async with talking(name, fault, Say("at last")) as (server, talk):
        talk.say("go")
        with pytest.raises(errors.SfError) as caught:
            await talk.request(PROMPTING, quiet)
        assert type(caught.value) is expected
        assert talk.take_new_messages() == []
        assert len(server.requests) == 1
        if isinstance(caught.value, errors.QuotaWait):
            assert caught.value.seconds == 7
        if isinstance(caught.value, errors.ModelUnavailable):
            assert f"providers.{name.partition(':')[0]}." in caught.value.hint
        assert (await talk.request(PROMPTING, quiet)).text == "at last"
        assert len(talk.take_new_messages()) == 2
    assert server.requests[0].body == server.requests[1].body


async def test_a_request_that_takes_too_long_is_a_turn_timeout(name: str) -> None:
    short = Prompting("", (), thinking=False, max_output_tokens=100, timeout=0.4)
    async with talking(name, Stall(30.0), Say("ok")) as (server, talk):
        talk.say("go")
        started = time.monotonic()
        with pytest.raises(errors.TurnTimeout):
            await talk.request(short, quiet)
        assert time.monotonic() - started < 3.0
        assert server.hung_up.wait(2.0)
        assert (await talk.request(PROMPTING, quiet)).text == "ok"


async def test_the_first_event_has_a_clock_of_its_own(name: str) -> None:
    with ModelServer([Stall(30.0)]) as server:
        model = open_model(name, base_url=server.url, api_key=KEY, first_event_timeout=0.4)
        talk = model.start()
        talk.say("go")
        with pytest.raises(errors.TurnTimeout):
            await talk.request(PROMPTING, quiet)
        await model.aclose()


async def _unreached(name: str, url: str) -> errors.Unreachable:
    """How a request ends that cannot be sent."""
    model = open_model(name, base_url=url, api_key=KEY)
    talk = model.start()
    talk.say("go")
    with pytest.raises(errors.Unreachable) as caught:
        await talk.request(PROMPTING, quiet)
    await model.aclose()
    assert caught.value.unbilled
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return caught.value


async def test_a_server_that_is_not_there_was_asked_nothing(name: str) -> None:
    with ModelServer([]) as server:
        port = server.url.rpartition(":")[2]
    error = await _unreached(name, f"http://me:{KEY}@127.0.0.1:{port}/v1")
    assert error.message.startswith(f"cannot reach http://127.0.0.1:{port} for {name}: ")
    assert "Connect call failed" in error.message, "what the machine said"


async def test_a_host_that_has_no_address_is_named(name: str) -> None:
    error = await _unreached(name, "http://no-such-host.invalid")
    assert error.message.startswith(f"cannot reach http://no-such-host.invalid for {name}: ")


async def test_a_server_that_takes_no_connection_in_time_was_asked_nothing() -> None:
    short = Prompting("", (), thinking=False, max_output_tokens=100, timeout=30.0)
    with socket.socket() as full, contextlib.ExitStack() as callers:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            caller = callers.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        model = open_model("local:m", base_url=f"http://127.0.0.1:{full.getsockname()[1]}", api_key=KEY)
        talk = model.start()
        talk.say("go")
        with pytest.raises(errors.Unreachable) as caught:
            await talk.request(short, quiet)
        await model.aclose()
    assert caught.value.unbilled


async def test_a_proxy_that_makes_no_connection_has_sent_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 No Way Out\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        error = await _unreached(name, "https://models.example")
    assert error.message == f"cannot reach https://models.example for {name}: 503 No Way Out"


async def test_a_connection_that_is_closed_without_an_answer_may_have_been_billed(name: str) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = open_model(name, base_url=f"http://127.0.0.1:{port}", api_key=KEY)
        talk = model.start()
        talk.say("go")
        with pytest.raises(Transient) as caught:
            await talk.request(PROMPTING, quiet)
        await model.aclose()
    assert not caught.value.unbilled


async def test_a_wrong_key_is_refused_and_stands_nowhere(name: str, caplog: pytest.LogCaptureFixture) -> None:
    secret = "sk-very-secret-000111222"
    caplog.set_level(logging.DEBUG)
    with ModelServer([Unauthorized()], key=secret) as server:
        model = open_model(name, base_url=server.url, api_key=secret)
        talk = model.start()
        talk.say("go")
        with pytest.raises(errors.ModelUnavailable) as caught:
            await talk.request(PROMPTING, quiet)
        unknown = open_model(name, base_url=server.url, api_key="another-key")
        stranger = unknown.start()
        stranger.say("go")
        with pytest.raises(errors.ModelUnavailable):
            await stranger.request(PROMPTING, quiet)
        await unknown.aclose()
        await model.aclose()
    shown = "".join(traceback.format_exception(caught.value))
    for text in (caught.value.line(), shown, repr(model), repr(server.requests), caplog.text):
        assert secret not in text
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert not server.requests[0].key_in_body


async def test_the_key_is_in_no_message_of_the_history(name: str) -> None:
    async with talking(name, Say("hello")) as (server, talk):
        talk.say("go")
        await talk.request(PROMPTING, quiet)
        stored = b"".join(talk.take_new_messages())
    assert KEY.encode() not in stored
    assert not server.requests[0].key_in_body


@pytest.mark.parametrize("name", ["no-provider", "local:model-without-address", ":x", "x:"])
def test_a_name_that_cannot_be_served_is_a_mistake(name: str) -> None:
    with pytest.raises(errors.InvalidConfig):
        open_model(name, base_url=None, api_key="k")
