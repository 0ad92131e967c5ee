"""What a token may do: read or write, in the banks that its patterns name."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from singularity_memory.errors import BadRequest
from singularity_memory.operations import Scope

EVERY_BANK = "*"
SCOPES: tuple[Scope, ...] = ("read", "write")


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A permission. A pattern is a bank's name, or the beginning of one and a star."""

    name: str
    banks: tuple[str, ...]
    scopes: tuple[Scope, ...]

    def allows(self, bank: str, scope: Scope) -> bool:
        """Whether it covers a scope in a bank."""
        return scope in self.scopes and any(matches(pattern, bank) for pattern in self.banks)

    def covers_every_bank(self, scope: Scope) -> bool:
        """Whether no bank is left out."""
        return scope in self.scopes and EVERY_BANK in self.banks


EVERYTHING = Grant("", (EVERY_BANK,), SCOPES)


def matches(pattern: str, bank: str) -> bool:
    """Whether a pattern names a bank."""
    return bank.startswith(pattern[:-1]) if pattern.endswith("*") else bank == pattern


def checked_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """Patterns without doubles. Raises BadRequest when there is none, or a star is not at the end of one."""
    found = tuple(dict.fromkeys(patterns))
    for pattern in found:
        if not pattern or "*" in pattern[:-1]:
            raise BadRequest(f"a pattern is a bank's name, or its beginning and one star, not {pattern!r}")
    if not found:
        raise BadRequest("a token needs a bank; '*' is every bank")
    return found
