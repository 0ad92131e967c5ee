"""Carrying out tool calls: arguments checked, the mediator asked, the answer in the contract's shape."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from sf.domain.dialogue import ToolCall, ToolResult
from sf.errors import SfError
from sf.policy import mediator
from sf.policy.mediator import Action, Circumstances, Decision
from sf.tools.base import Answer, Site, Tool, failure
from sf.tools.toolbox import Toolbox

Begin = Callable[[ToolCall], None]
"""Told of every call before anything is asked or done."""


Watch = Callable[[ToolCall, Answer, Decision | None, int], None]
"""Told of every call: what was asked, answered and decided, and when it began."""


Ask = Callable[[ToolCall], Awaitable[str]]
"""Why the operator's hooks refuse a call; nothing when they let it pass."""


class Caller:
    """Runs the calls of one agent, one at a time."""

    def __init__(
        self,
        toolbox: Toolbox,
        site: Site,
        circumstances: Circumstances,
        timeout: float,
        watch: Watch,
        ask: Ask | None = None,
        begin: Begin = lambda call: None,
    ) -> None:
        self._ask = ask
        self.toolbox = toolbox
        self._site = site
        self._circumstances = circumstances
        self._timeout = timeout
        self._watch = watch
        self._begin = begin

    async def answer(self, calls: Sequence[ToolCall]) -> tuple[list[ToolResult], Any]:
        """The results of all calls, and the first accepted submission."""
        results = []
        submission = None
        for call in calls:
            started_at = time.time_ns() // 1_000_000
            self._begin(call)
            answer, decision = await self._one(call)
            self._watch(call, answer, decision, started_at)
            results.append(ToolResult(call.call_id, call.name, answer.response.encode()))
            submission = submission if submission is not None else answer.submission
        return results, submission

    async def _one(self, call: ToolCall) -> tuple[Answer, Decision | None]:
        tool = self.toolbox.get(call.name)
        if tool is None:
            return self._refused(f"there is no tool {call.name!r} here"), None
        if call.arguments is None:
            return self._refused(f"the arguments are not a JSON object: {call.raw[:200]!r}"), None
        try:
            msgspec.json.encode(call.arguments)
            arguments = msgspec.convert(call.arguments, tool.parameters)
        except UnicodeEncodeError:
            return self._refused("the arguments hold half a character (a lone surrogate)"), None
        except msgspec.ValidationError as error:
            return self._refused(f"bad arguments for {call.name}: {error}"), None
        action = Action(call.name, tool.needs, tool.paths(arguments), tool.shell(arguments))
        decision = mediator.decide(action, self._circumstances)
        if decision.verdict != "allow":
            return self._refused(f"refused ({decision.step}): {decision.reason}"), decision
        refusal = await self._ask(call) if self._ask else ""
        if refusal:
            return self._refused(f"refused (hook): {refusal}"), Decision("block", "hook", refusal, 0.0)
        return await self._run(tool, arguments), decision

    async def _run(self, tool: Tool[Any], arguments: Any) -> Answer:
        # A command carries its own time limit; what bounds it here is only a tool that hangs.
        own = arguments.timeout_seconds if tool.needs == "exec" else 0
        allowed = self._timeout + own if self._timeout else None
        try:
            async with asyncio.timeout(allowed):
                answer: Answer = await tool.run(self._site, arguments)
                return answer
        except TimeoutError:
            return self._refused(f"{tool.name} took too long" + (f": {allowed:g} s" if allowed else ""))
        except SfError as error:
            return self._refused(error.line())
        except (OSError, ValueError) as error:
            return self._refused(f"{type(error).__name__}: {error}")

    def _refused(self, reason: str) -> Answer:
        return failure(reason, available=self.toolbox.names)
