"""What tokens cost, by the user's own price or by the published ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sf.domain.dialogue import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens, which is micro-dollars per token; cached input defaults to input."""

    input_per_mtok_usd: float
    output_per_mtok_usd: float
    cache_read_per_mtok_usd: float | None = None
    cache_write_per_mtok_usd: float | None = None

    def cost_micro_usd(self, usage: Usage) -> int:
        """The price of these tokens, rounded to the nearest micro-dollar."""
        read = (
            self.input_per_mtok_usd if self.cache_read_per_mtok_usd is None else self.cache_read_per_mtok_usd
        )
        write = (
            self.input_per_mtok_usd
            if self.cache_write_per_mtok_usd is None
            else self.cache_write_per_mtok_usd
        )
        fresh = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
        return round(
            fresh * self.input_per_mtok_usd
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
            + usage.output_tokens * self.output_per_mtok_usd
        )


def published_micro_usd(provider: str, model: str, input_tokens: int, output_tokens: int) -> int | None:
    """What so many tokens cost by the published prices; None where the model has none."""
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    tokens = Tokens(input_tokens=input_tokens, output_tokens=output_tokens)
    try:
        return round(calc_price(tokens, model, provider_id=provider).total_price * 1_000_000)
    except LookupError:
        return None


def metered(response: ModelResponse, price: Price | None) -> Usage:
    """The usage of a response with its cost; `priced` is False where no price is known."""
    spent = response.usage
    usage = Usage(spent.input_tokens, spent.output_tokens, spent.cache_read_tokens, spent.cache_write_tokens)
    if price is not None:
        return msgspec.structs.replace(usage, cost_micro_usd=price.cost_micro_usd(usage))
    try:
        published = response.cost().total_price
    except (LookupError, ValueError):
        # LookupError: the model has no published price. ValueError: the provider reported no usage.
        return msgspec.structs.replace(usage, priced=False)
    return msgspec.structs.replace(usage, cost_micro_usd=round(published * 1_000_000))
