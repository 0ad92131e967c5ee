"""What tokens cost, by the user's own price or by the published ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sf.domain.dialogue import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


_CACHE_WRITE = {"anthropic": 1.25}
"""How many times the price of input a provider takes for a token that it writes into its cache."""


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens, which is micro-dollars per token; cached input defaults to input."""

    input_per_mtok_usd: float
    output_per_mtok_usd: float
    cache_read_per_mtok_usd: float | None = None
    cache_write_per_mtok_usd: float | None = None

    @property
    def free(self) -> bool:
        """Whether no token costs anything."""
        return not (self.input_per_mtok_usd or self.output_per_mtok_usd or self.read or self.write)

    @property
    def read(self) -> float:
        """The price of a token that came from the provider's cache."""
        given = self.cache_read_per_mtok_usd
        return self.input_per_mtok_usd if given is None else given

    @property
    def write(self) -> float:
        """The price of a token that went into the provider's cache."""
        given = self.cache_write_per_mtok_usd
        return self.input_per_mtok_usd if given is None else given

    def cost_micro_usd(self, usage: Usage) -> int:
        """The price of these tokens, rounded to the nearest micro-dollar."""
        fresh = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
        return round(
            fresh * self.input_per_mtok_usd
            + usage.cache_read_tokens * self.read
            + usage.cache_write_tokens * self.write
            + usage.output_tokens * self.output_per_mtok_usd
        )

    def ceiling_micro_usd(self, input_tokens: int, output_tokens: int) -> int:
        """The most that so many tokens can cost, however much of the input is cached."""
        dearest = max(self.input_per_mtok_usd, self.read, self.write)
        return round(input_tokens * dearest + output_tokens * self.output_per_mtok_usd)


def with_premium(price: Price | None, provider: str) -> Price | None:
    """The price, with what the provider takes for writing its cache where the user names no price for it."""
    if price is None or price.cache_write_per_mtok_usd is not None:
        return price
    premium = _CACHE_WRITE.get(provider, 1.0)
    return msgspec.structs.replace(price, cache_write_per_mtok_usd=price.input_per_mtok_usd * premium)


def ceiling_micro_usd(
    provider: str, model: str, price: Price | None, input_tokens: int, output_tokens: int
) -> int | None:
    """The most that so many tokens can cost, by the user's price or else the published one; None without."""
    own = with_premium(price, provider)
    if own is not None:
        return own.ceiling_micro_usd(input_tokens, output_tokens)
    return _published_ceiling_micro_usd(provider, model, input_tokens, output_tokens)


def _published_ceiling_micro_usd(
    provider: str, model: str, input_tokens: int, output_tokens: int
) -> int | None:
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    fresh = Tokens(input_tokens=input_tokens, output_tokens=output_tokens)
    cached = Tokens(input_tokens=input_tokens, output_tokens=output_tokens, cache_write_tokens=input_tokens)
    try:
        dearest = max(
            calc_price(tokens, model, provider_id=provider).total_price for tokens in (fresh, cached)
        )
    except LookupError:
        return None
    return round(dearest * 1_000_000)


def metered(response: ModelResponse, price: Price | None) -> Usage:
    """The usage of a response with its cost; `priced` is False where no price or no usage is known."""
    spent = response.usage
    usage = Usage(spent.input_tokens, spent.output_tokens, spent.cache_read_tokens, spent.cache_write_tokens)
    if price is not None:
        cost, told = price.cost_micro_usd(usage), price.free or _reported(response)
        return msgspec.structs.replace(usage, cost_micro_usd=cost, priced=told)
    try:
        published = response.cost().total_price
    except (LookupError, ValueError):
        # LookupError: the model has no published price. ValueError: the provider reported no usage.
        return msgspec.structs.replace(usage, priced=False)
    return msgspec.structs.replace(
        usage, cost_micro_usd=round(published * 1_000_000), priced=_reported(response)
    )


def _reported(response: ModelResponse) -> bool:
    """Whether the provider said what was used: every request has input, and every word is output."""
    said = bool(response.tool_calls or response.text)
    return response.usage.input_tokens > 0 and (response.usage.output_tokens > 0 or not said)
