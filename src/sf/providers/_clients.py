"""Clients of the hosted providers: only the chosen provider's package is imported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from sf import errors

_ANTHROPIC_URL = "https://api.anthropic.com"
_OPENAI_URL = "https://api.openai.com/v1"
_NO_KEY = "none"


@dataclass(frozen=True)
class Client:
    """A model that can be asked, the settings every request to it carries, and how to close it."""

    model: Model[Any]
    settings: ModelSettings
    thinking_budgets: bool
    """Thinking is asked for as a number of tokens out of the output limit, not as an effort."""
    close: Callable[[], Awaitable[None]]


def open_client(provider: str, model: str, *, base_url: str | None, api_key: str) -> Client:
    """The client for `provider`; every one makes exactly one attempt per request."""
    if provider == "anthropic":
        return _anthropic(model, base_url or _ANTHROPIC_URL, api_key)
    if provider == "openai":
        return _openai(model, base_url or _OPENAI_URL, api_key)
    if base_url is None:
        raise errors.InvalidConfig(
            f"the provider {provider!r} is not built in and has no base_url",
            hint=f"set providers.{provider}.base_url, or use anthropic: or openai:",
        )
    return _compatible(provider, model, base_url, api_key)


def _anthropic(model: str, base_url: str, api_key: str) -> Client:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models import create_async_httpx2_client
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=api_key or _NO_KEY,
        base_url=base_url,
        max_retries=0,
        http_client=create_async_httpx2_client(),
    )
    hosted = AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client))
    budgets = not hosted.profile.get("anthropic_supports_adaptive_thinking", False)
    return Client(hosted, ModelSettings(cache=True), budgets, client.close)


def _openai(model: str, base_url: str, api_key: str) -> Client:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel, OpenAIResponsesModelSettings
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    client = _openai_client(base_url, api_key)
    provider = OpenAIProvider(openai_client=client)
    chat = OpenAIChatModel(
        model,
        provider=provider,
        profile=OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True),
    )
    if not chat.profile.get("supports_thinking", False):
        return Client(chat, ModelSettings(cache=True), False, client.close)
    # OpenAI's reasoning models refuse function tools on chat completions from GPT-5.4 on, even when
    # the request names no effort. Nothing is stored there: reasoning travels sealed in the history.
    settings = OpenAIResponsesModelSettings(cache=True, openai_store=False)
    return Client(OpenAIResponsesModel(model, provider=provider), settings, False, client.close)


def _compatible(name: str, model: str, base_url: str, api_key: str) -> Client:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    client = _openai_client(base_url, api_key)
    # Servers of this kind know `max_tokens`; many refuse or ignore the newer name.
    profile = OpenAIModelProfile(
        openai_chat_streaming_requires_finish_reason=True,
        openai_chat_supports_max_completion_tokens=False,
    )
    hosted = OpenAIChatModel(
        model, provider=OpenAICompatibleProvider(name, openai_client=client), profile=profile
    )
    return Client(hosted, ModelSettings(), False, client.close)


def _openai_client(base_url: str, api_key: str) -> Any:
    from openai import AsyncOpenAI
    from pydantic_ai.models import create_async_httpx2_client

    return AsyncOpenAI(
        api_key=api_key or _NO_KEY,
        base_url=base_url,
        max_retries=0,
        http_client=create_async_httpx2_client(),
    )
