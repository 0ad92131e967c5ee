"""Models behind the providers' own wire formats: one streamed request per call, none behind it.

Importing this module imports pydantic-ai, so import it only where a hosted model is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import msgspec
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP
from pydantic_ai.settings import ModelSettings, ThinkingLevel
from pydantic_ai.tools import ToolDefinition

from sf import errors
from sf.domain.dialogue import Prompting, Reply, ToolResult
from sf.providers._clients import Client, open_client
from sf.providers._failures import translated
from sf.providers._replies import reply_of, require_finished
from sf.providers.pricing import Price, ceiling_micro_usd, with_premium

__all__ = ["HostedConversation", "HostedModel", "Price", "estimate_input_tokens", "open_model"]

_BYTES_PER_TOKEN = 4
_MOST_DENSE = 4.0
"""A token for each byte: more than that was not text."""
_NOT_RUN = "This call was not run."
_SILENT = "(no answer)"
_GRACE = 5.0


def open_model(
    name: str,
    *,
    base_url: str | None,
    api_key: str,
    price: Price | None = None,
    first_event_timeout: float | None = None,
) -> HostedModel:
    """The model `provider:model`; any provider with a `base_url` is spoken to as chat completions.

    `first_event_timeout` bounds the wait for the first output of a request, in seconds.
    """
    provider, _, model = name.partition(":")
    if not provider or not model:
        raise errors.InvalidConfig(f"{name!r} is not a model's name", hint="write provider:model")
    try:
        client = open_client(provider, model, base_url=base_url, api_key=api_key)
    except ImportError as error:
        raise errors.ModelUnavailable(f"{name}: {error.name} is not installed") from error
    return HostedModel(provider, model, client, api_key, with_premium(price, provider), first_event_timeout)


class HostedModel:
    """One model of one provider, with the connection pool that its conversations share."""

    def __init__(
        self,
        provider: str,
        model: str,
        client: Client,
        api_key: str,
        price: Price | None,
        first_event_timeout: float | None,
    ) -> None:
        self.provider = provider
        self.model = model
        self.price = price
        self._client = client
        self._api_key = api_key
        self._first_event_timeout = first_event_timeout

    def __repr__(self) -> str:
        return f"HostedModel({self.provider}:{self.model})"

    def start(self, history: Sequence[bytes] = ()) -> HostedConversation:
        """A conversation, fresh or going on from what `take_new_messages` once gave."""
        messages = [
            message
            for stored in history
            for message in ModelMessagesTypeAdapter.validate_json(b"[" + stored + b"]")
        ]
        return HostedConversation(self, messages)

    def cost_of(self, input_tokens: int, output_tokens: int) -> int | None:
        """What so many tokens cost at most, in micro-dollars; None when no price is known."""
        return ceiling_micro_usd(self.provider, self.model, self.price, input_tokens, output_tokens)

    async def aclose(self) -> None:
        """Close the connections; requests under way fail."""
        await self._client.close()

    async def exchange(
        self, messages: Sequence[ModelMessage], prompting: Prompting, on_event: Callable[[], None]
    ) -> ModelResponse:
        """One streamed request; failures come as errors of the tree."""
        failure: Exception
        try:
            async with model_request_stream(
                self._client.model,
                messages,
                model_settings=self._settings(prompting),
                model_request_parameters=_parameters(prompting),
                instrument=False,
            ) as stream:
                async for _ in stream:
                    on_event()
                return stream.get()
        except (AgentRunError, UserError) as error:
            failure = error
        # Raised outside the handler: the provider's exception holds the request, and with it the key.
        raise translated(
            failure,
            provider=self.provider,
            model=self.model,
            address=_origin(self._client.model.base_url or ""),
            api_key=self._api_key,
        )

    def _settings(self, prompting: Prompting) -> ModelSettings:
        settings = self._client.settings | ModelSettings(
            max_tokens=prompting.max_output_tokens,
            request_timeout=prompting.timeout,
            # The socket's own limit stays behind the request's, so that one clock decides.
            timeout=prompting.timeout + _GRACE,
        )
        if self._first_event_timeout is not None:
            settings["first_event_timeout"] = self._first_event_timeout
        if self._client.model.profile.get("supports_thinking", False):
            settings["thinking"] = self._thinking(prompting)
        return settings

    def _thinking(self, prompting: Prompting) -> ThinkingLevel:
        if not prompting.thinking:
            return False
        if not self._client.thinking_budgets:
            return "high"
        # A budget comes out of the output limit; at least half of that is left for the answer.
        levels: tuple[ThinkingLevel, ...] = ("high", "medium", "low", "minimal")
        room = prompting.max_output_tokens // 2
        return next((level for level in levels if ANTHROPIC_THINKING_BUDGET_MAP[level] <= room), False)


class HostedConversation:
    """A history with one model. Nothing is added to it but by a request that succeeded."""

    def __init__(self, model: HostedModel, history: list[ModelMessage]) -> None:
        self._model = model
        self._history = history
        self._bytes = sum(_size(message) for message in history)
        self.density = 1.0
        """How many times the tokens that its bytes let expect the provider counted last, if more."""
        self._untaken: list[ModelMessage] = []
        self._results: dict[str, ToolResult] = {}
        self._texts: list[str] = []

    def say(self, text: str) -> None:
        """Queue a user message for the next request."""
        self._texts.append(text)

    def answer(self, results: Sequence[ToolResult]) -> None:
        """Queue results for the calls of the last reply; a second result for a call replaces the first."""
        open_calls = {call_id for call_id, _ in self._open_calls()}
        for result in results:
            if result.call_id not in open_calls:
                raise errors.BadUsage(f"no open call has the id {result.call_id!r}")
            self._results[result.call_id] = result

    async def request(self, prompting: Prompting, on_event: Callable[[], None]) -> Reply:
        """One streamed request with the history and what is queued; on failure both stay as they were."""
        asked, sent = self._queued(), estimate_input_tokens(self, prompting)
        response = await self._model.exchange([*self._history, asked], prompting, on_event)
        require_finished(response)
        reply = reply_of(response, self._model.price)
        self._keep(asked, response)
        self.density = min(max(1.0, self.density * reply.usage.input_tokens / sent), _MOST_DENSE)
        return reply if reply.usage.input_tokens else _estimated(reply, response, sent)

    def ceiling(self, prompting: Prompting) -> int | None:
        """What the queued request costs when the model uses all the output it may."""
        return self._model.cost_of(estimate_input_tokens(self, prompting), prompting.max_output_tokens)

    def take_new_messages(self) -> list[bytes]:
        """The messages added since the last call, as one JSON text each, for append-only storage."""
        taken = [ModelMessagesTypeAdapter.dump_json([message])[1:-1] for message in self._untaken]
        self._untaken.clear()
        return taken

    def restart(self, text: str) -> None:
        """Drop the history and what is queued, and begin a fresh window with this user text."""
        self._history = []
        self._bytes = 0
        self._results = {}
        self._texts = [text]

    def waiting_bytes(self) -> int:
        """The bytes that the next request would send, instructions and tools aside."""
        queued = [*self._texts, *(result.content for result in self._results.values())]
        return self._bytes + sum(map(_bytes, queued))

    def _open_calls(self) -> list[tuple[str, str]]:
        if not self._history or not isinstance(self._history[-1], ModelResponse):
            return []
        return [(call.tool_call_id, call.tool_name) for call in self._history[-1].tool_calls]

    def _queued(self) -> ModelRequest:
        # Providers want a result for every call, before any text of the same message.
        returns = [
            ToolReturnPart(
                tool_name=name,
                content=self._results[call_id].content if call_id in self._results else _NOT_RUN,
                tool_call_id=call_id,
            )
            for call_id, name in self._open_calls()
        ]
        prompts = [UserPromptPart(content=text) for text in self._texts if text.strip()]
        if not prompts and not self._results:
            raise errors.BadUsage("there is nothing to say to the model")
        return ModelRequest(parts=[*returns, *prompts])

    def _keep(self, asked: ModelRequest, response: ModelResponse) -> None:
        for message in (asked, _storable(response)):
            self._history.append(message)
            self._untaken.append(message)
            self._bytes += _size(message)
        self._results = {}
        self._texts = []


def _origin(url: str) -> str:
    """Where a provider is, without a path and without a name and password in front of the host."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def estimate_input_tokens(conversation: HostedConversation, prompting: Prompting) -> int:
    """About how many tokens the next request would send, from its bytes and what was counted before."""
    tools = sum(
        len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in prompting.tools
    )
    size = conversation.waiting_bytes() + _bytes(prompting.instructions) + tools
    return int(size / _BYTES_PER_TOKEN * conversation.density) + 1


def _estimated(reply: Reply, response: ModelResponse, sent: int) -> Reply:
    """A reply whose provider counts nothing, by its size: a conversation must know how long it is."""
    output = reply.usage.output_tokens or _size(response) // _BYTES_PER_TOKEN + 1
    usage = msgspec.structs.replace(reply.usage, input_tokens=sent, output_tokens=output)
    return msgspec.structs.replace(reply, usage=usage)


def _parameters(prompting: Prompting) -> ModelRequestParameters:
    tools = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.parameters,
            strict=False,
        )
        for tool in prompting.tools
    ]
    instructions = [InstructionPart(content=prompting.instructions)] if prompting.instructions else []
    return ModelRequestParameters(function_tools=tools, instruction_parts=instructions)


def _storable(response: ModelResponse) -> ModelResponse:
    """The response, with words in place of an empty answer: providers refuse empty messages in a history."""
    if response.tool_calls or (response.text or "").strip():
        return response
    thinking = [part for part in response.parts if not isinstance(part, TextPart)]
    return dataclasses.replace(response, parts=[*thinking, TextPart(content=_SILENT)])


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _size(message: ModelMessage) -> int:
    return len(ModelMessagesTypeAdapter.dump_json([message]))
