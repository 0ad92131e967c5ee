"""From a name and options in a configuration to an embedder."""

from __future__ import annotations

import msgspec

from singularity_memory.embedders import Embedder
from singularity_memory.errors import UnknownEmbedder

NAMES = ("sentence", "static", "openai", "ollama", "none")


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which embedder; the rest is for those that ask a server."""

    name: str = "sentence"
    model: str = ""
    url: str = ""
    key: str = ""
    dimension: int = 0
    threads: int = 2


def embedder(choice: Choice) -> Embedder | None:
    """The embedder that was chosen; None for «none». Raises when it is unknown, missing or tampered with."""
    if choice.name == "sentence":
        from singularity_memory.embedders.sentence import SentenceEmbedder

        return SentenceEmbedder(choice.threads)
    if choice.name == "static":
        from singularity_memory.embedders.static import StaticEmbedder

        return StaticEmbedder()
    if choice.name in ("openai", "ollama"):
        from singularity_memory.embedders import remote

        url = choice.url or (remote.OPENAI if choice.name == "openai" else remote.OLLAMA)
        return remote.RemoteEmbedder(choice.name, url, choice.model, choice.key, choice.dimension)
    if choice.name == "none":
        return None
    raise UnknownEmbedder(f"there is no embedder {choice.name}; there are {', '.join(NAMES)}")
