"""Which models a configuration means: their keys, their prices, and the opening of those behind a network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sf.config.schema import Config, Provider
from sf.paths import Project
from sf.providers.catalog import Settings, load_playbook
from sf.providers.pricing import Price
from sf.secrets import resolve

if TYPE_CHECKING:
    from sf.providers.hosted import HostedModel


class Keys:
    """The providers' keys: fetched once for each way that is configured, held in memory only."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    async def get(self, provider: str, settings: Settings) -> str:
        """A provider's key, by what its settings name. Raises SecretUnavailable."""
        source = provider, settings.api_key
        if source not in self._known:
            # A command may ask a person: everything else goes on meanwhile.
            self._known[source] = await asyncio.to_thread(
                resolve, *source, has_base_url=bool(settings.base_url)
            )
        return self._known[source]


async def preflight(project: Project, config: Config, keys: Keys) -> None:
    """Refuse to start when a model that will be used has no key or no playbook."""
    tiers = (config.tiers.fast, config.tiers.standard, config.tiers.reasoning)
    for name in dict.fromkeys(tier.models[0] for tier in tiers):
        provider, _, model = name.partition(":")
        if provider == "script":
            load_playbook(project.dot / "playbooks", model)
        else:
            await keys.get(provider, settings_of(config, provider, model))


def settings_of(config: Config, provider: str, model: str) -> Settings:
    """What a hosted model is opened by: its address, where its key comes from, its price."""
    found = config.providers.get(provider, Provider())
    price = found.prices.get(model)
    own = Price(price.input, price.output, price.cache_read, price.cache_write) if price else None
    return Settings(found.base_url, found.api_key, own)


async def open_hosted(keys: Keys, provider: str, model: str, settings: Settings) -> HostedModel:
    """A model behind a network, ready to be talked to; its packages are imported here."""
    from sf.providers import hosted

    return hosted.open_model(
        f"{provider}:{model}",
        base_url=settings.base_url or None,
        api_key=await keys.get(provider, settings),
        price=settings.price,
    )
