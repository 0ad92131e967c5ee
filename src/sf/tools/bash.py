"""bash: a command in the sandbox."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from sf.tools.base import Answer, Site, Tool, failure, ok


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What bash takes."""

    command: str
    timeout_seconds: Annotated[int, Meta(ge=1, le=3600)] = 120


class Bash(Tool[Arguments]):
    """Run a command in the worktree: no network, the rest of the machine read-only."""

    name = "bash"
    description = "Run a shell command in the worktree (sandboxed: no network, nothing outside is writable)."
    needs = "exec"
    approval = "shell:sandboxed"
    parameters = Arguments

    def shell(self, arguments: Arguments) -> str | None:
        """The command."""
        return arguments.command

    async def run(self, site: Site, arguments: Arguments) -> Answer:
        """Exit code and combined output."""
        ran = await site.command(arguments.command, float(arguments.timeout_seconds))
        if ran.timed_out:
            return failure(f"timed out after {arguments.timeout_seconds} s and was killed", text=ran.output)
        if ran.exit_code == 0:
            return ok("exit code 0", ran.output)
        return failure(f"exit code {ran.exit_code}", text=ran.output)
