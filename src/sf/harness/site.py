"""The place a tool works in: the worktree, the unit's own folder to read, and the sandbox for commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from sf.policy.sandbox import Sandbox
from sf.tools.base import Ran


class WorkSite:
    """A worktree as the tools see it."""

    def __init__(
        self,
        root: Path,
        reading: Sequence[Path],
        *,
        sandbox: Sandbox | None,
        readable: Sequence[Path],
        environment: Mapping[str, str],
        scratch: Path,
        diff: Callable[[], Awaitable[str]],
        recall: Callable[[str], Awaitable[str]],
        turn_to: Callable[[str], Awaitable[None]],
        abort_grace: float,
        abort_kill: float,
    ) -> None:
        self.root = root
        self.reading = tuple(reading)
        self._sandbox = sandbox
        self._readable = readable
        self._environment = environment
        self._scratch = scratch
        self._diff = diff
        self._recall = recall
        self._turn_to = turn_to
        self._grace = abort_grace
        self._kill = abort_kill

    async def command(self, command: str | Sequence[str], timeout: float) -> Ran:
        """Run a command in the sandbox."""
        assert self._sandbox is not None, "the mediator refuses commands where there is no sandbox"
        done = await self._sandbox.run(
            command,
            workspace=self.root,
            readable=[*self.reading, *self._readable],
            env=self._environment,
            timeout=timeout,
            scratch=self._scratch,
            grace=self._grace,
            kill_after=self._kill,
        )
        return Ran(done.exit_code, done.output, done.timed_out)

    async def diff(self) -> str:
        """What the unit has changed so far."""
        return await self._diff()

    async def recall(self, query: str) -> str:
        """What is known from earlier work; empty when nothing is."""
        return await self._recall(query)

    async def turn_to(self, name: str) -> None:
        """The work turns to something else."""
        await self._turn_to(name)
