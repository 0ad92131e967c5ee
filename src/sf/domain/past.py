"""A commit of the user's own history, as far as the deep scan looks at it."""

from __future__ import annotations

import msgspec


class PastCommit(msgspec.Struct, frozen=True):
    """Who changed what, and when; no merge. The text is the repository's: nobody has cleaned it."""

    author: str
    at: int
    """UNIX seconds of the commit."""
    subject: str
    paths: tuple[str, ...]
