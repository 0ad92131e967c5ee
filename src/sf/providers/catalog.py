"""Models by name: `provider:model`, opened once and kept while their settings stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sf.domain.dialogue import Conversation
from sf.errors import ModelUnavailable
from sf.providers import playbooks
from sf.providers.scripted import Cue, ScriptedModel

if TYPE_CHECKING:
    from sf.providers.hosted import HostedConversation, HostedModel


class Model(Protocol):
    """Something that conversations can be started with."""

    def start(self, cue: Cue) -> Conversation:
        """A fresh conversation."""
        ...

    def cost_of(self, input_tokens: int, output_tokens: int) -> int | None:
        """What so many tokens cost at most, in micro-dollars; None when no price is known."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


class _Hosted:
    """A hosted model, for which the cue means nothing."""

    def __init__(self, model: HostedModel) -> None:
        self._model = model

    def start(self, cue: Cue) -> HostedConversation:
        return self._model.start()

    def cost_of(self, input_tokens: int, output_tokens: int) -> int | None:
        return self._model.cost_of(input_tokens, output_tokens)

    async def aclose(self) -> None:
        await self._model.aclose()


Opener = Callable[[str, str], "HostedModel"]
"""(provider, model) -> an open hosted model, with key, address and price already found."""

Settings = Callable[[str, str], object]
"""(provider, model) -> what the opener would open it by now; equal values mean the same open model."""


class Catalog:
    """Opens models on first use, and anew when their settings have changed."""

    def __init__(self, playbook_folder: Path, open_hosted: Opener, settings: Settings) -> None:
        self._playbooks = playbook_folder
        self._open_hosted = open_hosted
        self._settings = settings
        self._models: dict[str, tuple[object, Model]] = {}
        self._replaced: list[Model] = []
        """Conversations that began with them go on with them."""

    def start(self, name: str, cue: Cue) -> Conversation:
        """A conversation with the named model."""
        return self._model(name).start(cue)

    def cost_of(self, name: str, input_tokens: int, output_tokens: int) -> int | None:
        """What so many tokens of the named model cost at most; None when no price is known."""
        return self._model(name).cost_of(input_tokens, output_tokens)

    def _model(self, name: str) -> Model:
        provider, _, model = name.partition(":")
        settings = None if provider == "script" else self._settings(provider, model)
        known = self._models.get(name)
        if known is not None and known[0] == settings:
            return known[1]
        opened = self._open(name)
        if known is not None:
            self._replaced.append(known[1])
        self._models[name] = settings, opened
        return opened

    def _open(self, name: str) -> Model:
        provider, _, model = name.partition(":")
        if provider == "script":
            return ScriptedModel(load_playbook(self._playbooks, model))
        return _Hosted(self._open_hosted(provider, model))

    async def aclose(self) -> None:
        """Close every model that was opened."""
        for model in (*self._replaced, *(model for _, model in self._models.values())):
            await model.aclose()
        self._replaced.clear()
        self._models.clear()


def load_playbook(folder: Path, name: str) -> playbooks.Playbook:
    """A playbook by name, or by the path of its file. Raises ModelUnavailable or InvalidPlaybook."""
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.exists():
        raise ModelUnavailable(f"there is no playbook {path}", hint='name one as "script:<file>.toml"')
    return playbooks.load(path)
