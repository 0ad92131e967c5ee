"""What the generated messages have in common."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True):
    """Frozen, and open: a field that a newer server adds is passed over."""
