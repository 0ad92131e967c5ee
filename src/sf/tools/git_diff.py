"""git_diff: what the unit has changed so far."""

from __future__ import annotations

import msgspec

from sf.tools.base import Answer, Site, Tool, ok


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """git_diff takes nothing."""


class GitDiff(Tool[Arguments]):
    """The unit's diff as sf sees it, not as the worktree's own git would show it."""

    name = "git_diff"
    description = "Show everything this unit has changed so far as a unified diff."
    needs = "read"
    approval = "git:diff"
    parameters = Arguments

    async def run(self, site: Site, arguments: Arguments) -> Answer:
        """The diff."""
        diff = await site.diff()
        return ok(f"{len(diff.splitlines())} lines" if diff else "nothing changed yet", diff)
