"""The operator's hooks: commands run at fixed points, each with its own time limit, killed as a group."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from sf.config.schema import Hooks
from sf.domain import utf8
from sf.domain.excerpt import head_and_tail
from sf.errors import HookFailed, HookTimeout, HookUntold, WorkspaceFailed
from sf.observe.log import Log
from sf.observe.trace import Tracer
from sf.policy import orphans, process
from sf.unbroken import or_undone

HookType = Literal[
    "before_run",
    "after_run",
    "after_create",
    "before_remove",
    "pre_dispatch",
    "pre_tool_use",
    "post_unit",
    "on_event",
]
HALT = 2
"""The exit code by which a pre_tool_use hook ends the whole run; any other but 0 refuses the call."""

DEFAULT_TIMEOUTS: dict[str, float] = {
    "before_run": 120.0,
    "after_run": 30.0,
    "after_create": 120.0,
    "before_remove": 30.0,
    "pre_dispatch": 15.0,
    "pre_tool_use": 15.0,
    "on_event": 30.0,
    "post_unit": 60.0,
}


_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.ETXTBSY)
"""Why no process is started for the moment, whatever the hook is; the last while somebody saves it."""
_FIRST_LINE = 256
"""More of a first line the kernel does not read either."""


class HookRunner:
    """Runs hooks and says how they ended; what a failure means is the caller's to decide."""

    def __init__(
        self, root: Path, environment: Mapping[str, str], log: Log, tracer: Tracer, hooks: Hooks
    ) -> None:
        self._root = root
        self._environment = environment
        self._log = log
        self._tracer = tracer
        self.hooks = hooks

    def commands(self, kind: HookType) -> tuple[str, ...]:
        """What is configured for one kind of hook."""
        configured = getattr(self.hooks, kind)
        return configured if isinstance(configured, tuple) else (configured,) if configured else ()

    async def run(
        self,
        kind: HookType,
        payload: dict[str, Any],
        *,
        cwd: Path,
        trace_id: str,
        variables: Mapping[str, str],
    ) -> None:
        """Run every hook of a kind in order. Raises HookFailed or HookTimeout at the first that fails."""
        for command in self.commands(kind):
            await self.one(kind, command, payload, cwd=cwd, trace_id=trace_id, variables=variables)

    async def one(
        self,
        kind: HookType,
        command: str,
        payload: dict[str, Any],
        *,
        cwd: Path,
        trace_id: str,
        variables: Mapping[str, str],
        parent: str = "",
    ) -> None:
        """Run one command as a hook, below the span `parent`. Raises HookFailed or HookTimeout."""
        done, output = await self._call(kind, command, payload, cwd, trace_id, variables, parent)
        if done.timed_out:
            raise HookTimeout(
                f"{kind} hook {command!r} took longer than {self.timeout(kind):g} s and was killed"
            )
        if done.exit_code != 0:
            raise HookFailed(f"{kind} hook {command!r} exited with {done.exit_code}: {output[:300]}")

    async def refusal(
        self, payload: dict[str, Any], *, cwd: Path, trace_id: str, variables: Mapping[str, str]
    ) -> str:
        """Why a tool call may not be made, by the pre_tool_use hooks; nothing when all of them let it pass.

        A hook that hangs refuses. Raises HookFailed when one halts the run.
        """
        for command in self.commands("pre_tool_use"):
            done, output = await self._call("pre_tool_use", command, payload, cwd, trace_id, variables)
            if done.exit_code == HALT:
                raise HookFailed(f"pre_tool_use hook {command!r} halted the run: {output[:300]}")
            if done.exit_code != 0:
                return output or f"refused by {command!r}"
        return ""

    async def _call(
        self,
        kind: HookType,
        command: str,
        payload: dict[str, Any],
        cwd: Path,
        trace_id: str,
        variables: Mapping[str, str],
        parent: str = "",
    ) -> tuple[process.Completed, str]:
        allowed = self.timeout(kind)
        started_at = time.time_ns() // 1_000_000
        try:
            done = await self._carry_out(self.argv(command), payload, cwd, variables, allowed)
        except (OSError, ValueError) as error:
            reason = unrunnable(Path(self.argv(command)[0])) if isinstance(error, OSError) else ""
            cause = HookUntold if isinstance(error, OSError) and error.errno in _SHORTAGES else HookFailed
            raise cause(f"{kind} hook {command!r} cannot be run: {reason or error}") from error
        failed = "hook_timeout" if done.timed_out else "hook_failed" if done.exit_code != 0 else ""
        self._tracer.span(
            "hook",
            trace_id=trace_id,
            started_at=started_at,
            attrs={"hook": kind, "command": command, "exit_code": done.exit_code},
            error=failed,
            parent=parent,
        )
        output = head_and_tail(done.output.strip(), 2048, "(truncated)")
        self._log.info(
            f"hook {'failed' if failed else 'completed'}",
            hook=kind,
            command=command,
            exit_code=done.exit_code,
            unit_id=variables.get("SF_UNIT_ID"),
            unit_type=variables.get("SF_UNIT_TYPE"),
            output=output or None,
        )
        return done, output

    async def _carry_out(
        self,
        argv: list[str],
        payload: dict[str, Any],
        cwd: Path,
        variables: Mapping[str, str],
        allowed: float,
    ) -> process.Completed:
        with orphans.noted(self.notes) as note:
            try:
                done = await process.run(
                    argv,
                    cwd=cwd,
                    env={**self._environment, **variables, orphans.HOOK_MARK: note.hook_id},
                    stdin=utf8.as_json(payload) + b"\n",
                    timeout=allowed,
                    grace=1.0,
                    kill_after=1.0,
                )
            except asyncio.CancelledError:
                await or_undone(self._end_left(note))
                raise
            if done.timed_out:
                await or_undone(self._end_left(note))
        return done

    async def _end_left(self, note: orphans.Note) -> None:
        """End what has left the process group of a hook that was cut off; if need be, at the next start."""
        try:
            await asyncio.to_thread(orphans.end, [orphans.hook_mark(note.hook_id)])
        except (OSError, WorkspaceFailed) as error:
            note.stays = True
            self._log.warning("what a hook left running is ended at the next start", error=str(error))

    @property
    def notes(self) -> Path:
        """Where the hooks that run now are noted, for the start after a crash."""
        return self._root / ".sf" / "runtime" / "hooks"

    def timeout(self, kind: HookType) -> float:
        """How long a hook may take, in seconds."""
        return float(self.hooks.timeouts.get(kind, DEFAULT_TIMEOUTS[kind]))

    def argv(self, command: str) -> list[str]:
        """The command's words; a relative script is looked for in the project, since hooks run elsewhere."""
        words = shlex.split(command)
        if words and "/" in words[0] and not words[0].startswith("/"):
            words[0] = str(script_path(self._root, words[0]))
        return words


def script_path(root: Path, name: str) -> Path:
    """A script named in the configuration: in the project's .sf folder, else relative to the project.

    In that order: agents write in the project, and must not be able to put a script in another's place.
    """
    given = Path(name)
    if given.is_absolute():
        return given
    own = root / ".sf" / given
    return own if own.exists() else root / given


def unrunnable(script: Path) -> str:
    """Why a script that is there cannot be run, by its first line; empty when nothing speaks against it."""
    try:
        with script.open("rb") as file:
            first = file.readline(_FIRST_LINE)
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    if first.endswith(b"\r\n"):
        return "its lines end as Windows ends them (CRLF); save it with LF"
    words = os.fsdecode(first[2:]).split()
    if words and words[0].startswith("/") and not Path(words[0]).exists():
        return f"what its first line names is not there: {words[0]}"
    return ""
