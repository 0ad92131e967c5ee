"""The context budget of one conversation."""

from __future__ import annotations

import msgspec

from sf.domain.dialogue import Usage


class Budget(msgspec.Struct, frozen=True):
    """How full the context window is, and where it must be acted on."""

    max_tokens: int
    compact_at: float
    hard_limit_at: float
    used_tokens: int = 0

    @property
    def fraction(self) -> float:
        """How much of the window is used."""
        return self.used_tokens / self.max_tokens

    def should_compact(self) -> bool:
        """Whether the window must be replaced before the next turn."""
        return self.fraction >= self.compact_at

    def at_hard_limit(self) -> bool:
        """Whether not even one more turn is safe."""
        return self.fraction >= self.hard_limit_at

    def after(self, usage: Usage) -> Budget:
        """The budget after a reply.

        A request's input already holds the whole thread, so its total replaces the last one; adding
        would count every earlier turn again.
        """
        total = usage.input_tokens + usage.output_tokens
        return msgspec.structs.replace(self, used_tokens=total)

    def emptied(self) -> Budget:
        """The budget of a fresh window."""
        return msgspec.structs.replace(self, used_tokens=0)
