"""Models by name: `provider:model`, opened once and kept while their settings stay."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sf.domain.dialogue import Conversation
from sf.errors import ModelUnavailable
from sf.providers import playbooks
from sf.providers.pricing import Price, ceiling_micro_usd
from sf.providers.scripted import Cue, ScriptedModel

if TYPE_CHECKING:
    from sf.providers.hosted import HostedConversation, HostedModel


class _Hosted:
    """A hosted model, for which the cue means nothing."""

    def __init__(self, model: HostedModel) -> None:
        self._model = model

    def start(self, cue: Cue) -> HostedConversation:
        return self._model.start()

    async def aclose(self) -> None:
        await self._model.aclose()


class Settings(msgspec.Struct, frozen=True):
    """What a hosted model is opened by; equal ones mean the same open model."""

    base_url: str = ""
    api_key: str = ""
    """Where its key comes from."""
    price: Price | None = None


Opener = Callable[[str, str, Settings], Awaitable["HostedModel"]]
"""(provider, model, settings) -> an open hosted model, its key found."""


class Catalog:
    """Opens models on first use, and anew when their settings have changed."""

    def __init__(
        self, playbook_folder: Path, open_hosted: Opener, settings: Callable[[str, str], Settings]
    ) -> None:
        self._playbooks = playbook_folder
        self._open_hosted = open_hosted
        self._settings = settings
        self._scripted: dict[str, ScriptedModel] = {}
        self._hosted: dict[str, tuple[Settings, _Hosted]] = {}
        self._opening = asyncio.Lock()
        self._replaced: list[_Hosted] = []
        """Conversations that began with them go on with them."""

    async def start(self, name: str, cue: Cue) -> Conversation:
        """A conversation with the named model."""
        provider, _, model = name.partition(":")
        if provider == "script":
            return self._played(model).start(cue)
        return (await self._open(provider, model)).start(cue)

    def cost_of(self, name: str, input_tokens: int, output_tokens: int) -> int | None:
        """What so many tokens of the named model cost at most; None when no price is known. Opens nothing."""
        provider, _, model = name.partition(":")
        if provider == "script":
            return self._played(model).cost_of(input_tokens, output_tokens)
        price = self._settings(provider, model).price
        return ceiling_micro_usd(provider, model, price, input_tokens, output_tokens)

    def _played(self, name: str) -> ScriptedModel:
        if name not in self._scripted:
            self._scripted[name] = ScriptedModel(load_playbook(self._playbooks, name))
        return self._scripted[name]

    async def _open(self, provider: str, model: str) -> _Hosted:
        """The open model; of several that want it at once one opens it, and the others wait."""
        name = f"{provider}:{model}"
        if (known := self._known(name)) is not None:
            return known
        async with self._opening:
            if (known := self._known(name)) is not None:
                return known
            settings = self._settings(provider, model)
            opened = _Hosted(await self._open_hosted(provider, model, settings))
            if name in self._hosted:
                self._replaced.append(self._hosted[name][1])
            self._hosted[name] = settings, opened
            return opened

    def _known(self, name: str) -> _Hosted | None:
        provider, _, model = name.partition(":")
        settings, opened = self._hosted.get(name, (None, None))
        return opened if settings == self._settings(provider, model) else None

    async def aclose(self) -> None:
        """Close every model that was opened."""
        for model in (*self._replaced, *(model for _, model in self._hosted.values())):
            await model.aclose()
        self._replaced.clear()
        self._hosted.clear()
        self._scripted.clear()


def load_playbook(folder: Path, name: str) -> playbooks.Playbook:
    """A playbook by name, or by the path of its file. Raises ModelUnavailable or InvalidPlaybook."""
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.exists():
        raise ModelUnavailable(f"there is no playbook {path}", hint='name one as "script:<file>.toml"')
    return playbooks.load(path)
