"""An agent's part of a run: the prompt, the tools of its phase, the conversation, and what came of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from sf.config.schema import Tier
from sf.domain import events, markers
from sf.domain.budget import Budget
from sf.domain.dialogue import Reply, ToolCall
from sf.domain.excerpt import head_and_tail, one_line
from sf.domain.ids import ulid
from sf.domain.phases import WRITING
from sf.domain.runs import AttemptState, Lease, RunOutcome
from sf.domain.units import Status, Unit
from sf.harness import artifacts, briefing, lessons
from sf.harness.billing import Billing
from sf.harness.bounds import Areas
from sf.harness.calls import Caller
from sf.harness.chapters import Chapters
from sf.harness.desk import Desk
from sf.harness.notice import hook_variables
from sf.harness.progress import Progress
from sf.harness.prompts import Prompt
from sf.harness.site import WorkSite
from sf.harness.turn import Dialogue, Ended, Pace
from sf.harness.workshop import Place
from sf.policy import scratch
from sf.policy.mediator import Circumstances, Decision
from sf.policy.orphans import MARK
from sf.policy.sandbox import clean_env
from sf.providers.scripted import Cue
from sf.routing import route
from sf.store import records, runs, units
from sf.store.chapters import Outcome
from sf.store.runs import TurnRecord
from sf.store.tx import Tx
from sf.tools.base import Answer
from sf.tools.toolbox import Toolbox

_DIFF_LIMIT = 24_000
_REMEMBERING = frozenset({"research", "plan", "execute", "tdd", "reassess"})
"""Conversations that are told what earlier work taught; a review judges by what it sees."""
_CHAPTER_ENDS: dict[str, Outcome] = {
    **dict.fromkeys(("submitted", "complete"), "success"),
    **dict.fromkeys(("stale", "turns_spent"), "pivot"),
}
_NO_LIMIT = 1e8
"""Seconds: longer than anyone waits, and a number that every clock below can hold."""


class Agent:
    """The agent of one run. Review uses it too, once for each of its passes."""

    def __init__(self, desk: Desk, unit: Unit, lease: Lease, place: Place) -> None:
        self.desk = desk
        self.unit = unit
        self.lease = lease
        self.place = place
        self.billing = Billing(desk, unit, lease)
        self.feedback_read = ""
        self._turn = 0
        self._trace_id = lease.run_id
        self._scratch: Path | None = None
        self._chapters = Chapters(desk, unit, lease)

    async def converse(
        self,
        template: str,
        toolbox: Toolbox,
        missing: Callable[[str], Awaitable[str]],
        *,
        tier: Tier | None = None,
        **variables: Any,
    ) -> Ended:
        """Hold one conversation of this run with the model that its phase is routed to."""
        desk, unit = self.desk, self.unit
        await self._state(AttemptState.BUILDING_PROMPT)
        feedback, self.feedback_read = records.unread_feedback(desk.database.read, unit.id)
        told = briefing.variables(desk, unit, self.lease.run_id, feedback)
        prompt = desk.prompts.phase(template, {**told, **variables})
        if template in _REMEMBERING:
            prompt = msgspec.structs.replace(prompt, known=await self._known(briefing.subject(desk, unit)))
        # What a conversation costs is settled in one moment, and stays.
        chosen, pace = route(desk.config, unit.phase, tier), self._pace()
        self.billing.begin()
        await self._state(AttemptState.LAUNCHING_AGENT, model=chosen.model)
        conversation = await desk.catalog.start(chosen.model, Cue(template, unit.title, self._visit()))
        await self._state(AttemptState.INITIALIZING_SESSION)
        dialogue = Dialogue(
            conversation=conversation,
            model=chosen.model,
            prompt=prompt,
            prompts=desk.prompts,
            caller=self._caller(toolbox),
            recorder=self,
            payments=self.billing,
            pace=pace,
            budget=self._budget(),
            thinking=chosen.thinking,
            missing=missing,
            diff=self.short_diff,
            progress=self._progress(),
            first_turn=self._turn + 1,
        )
        await self._state(AttemptState.STREAMING_TURN)
        self._trace_prompt(template, prompt)
        if template in _REMEMBERING:
            await self._chapters.begin(template)
        try:
            ended = await dialogue.run()
        finally:
            self._turn = dialogue.turn
        await self._chapters.end(markers.without(ended.text), _CHAPTER_ENDS.get(ended.how, "failure"))
        return ended

    # --- what the turn loop writes and asks (harness.turn.Recorder) ---

    async def turn(self, record: TurnRecord) -> None:
        """Persist a turn under the lease, then announce it."""
        now = self.desk.clock.now()

        def write(tx: Tx) -> int:
            cost = self.billing.enter(tx, record, now)
            usage = msgspec.structs.replace(record.usage, cost_micro_usd=cost)
            runs.record_turn(tx, self.lease, msgspec.structs.replace(record, usage=usage), now)
            return cost

        cost = await self.desk.database.write(write)
        self._log(f"turn {record.turn}: {record.tool_calls} call(s), {record.usage.output_tokens} tokens out")
        self.desk.announce(
            events.TURN_ENDED,
            self.unit.id,
            run_id=self.lease.run_id,
            turn=record.turn,
            model=record.model,
            input_tokens=record.usage.input_tokens,
            output_tokens=record.usage.output_tokens,
            cost_micro_usd=cost,
            budget=round(record.budget.fraction, 3),
        )

    async def wanted(self) -> Literal["go", "pause", "cancel"]:
        """Whether the unit still wants this run: its row is read again between turns."""
        told = self.desk.stops.get(self.lease.run_id)
        if told == "cancel" or units.get(self.desk.database.read, self.unit.id).status is Status.CANCELED:
            return "cancel"
        return "pause" if told or self.desk.pausing() else "go"

    def requested(self, started_at: int, model: str, reply: Reply | None, error: str) -> None:
        """Trace a model request."""
        usage = msgspec.to_builtins(reply.usage) if reply is not None else {}
        if reply is not None and reply.text:
            self._log(f"> {one_line(reply.text, 500)}")
        self.desk.tracer.span(
            "model_request",
            trace_id=self._trace_id,
            started_at=started_at,
            attrs={"unit_id": self.unit.id, "model": model, "phase": self.unit.phase.value, **usage},
            error=error,
        )

    async def compacting(self, summary: str) -> str:
        """Keep the summary of a window that is given up; what memory has to add to the new one."""
        desk, unit, now = self.desk, self.unit, self.desk.clock.now()
        await desk.database.write(
            lambda tx: lessons.window_closed(tx, self.lease, unit, summary, desk.rules, now)
        )
        return await self._known(f"{briefing.subject(desk, unit)}\n{summary}")

    async def _known(self, query: str) -> str:
        known = await self.desk.knowledge.recall(self.lease, query, self.unit.phase.value)
        return self.desk.prompts.known(known.variables())

    # --- parts ---

    def scratch(self) -> Path:
        """The run's own temporary folder, kept from one command to the next."""
        if self._scratch is None:
            self._scratch = scratch.make(self.lease.run_id)
        return self._scratch

    def close(self) -> None:
        """Remove what the run kept outside its worktree."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _begin(self, call: ToolCall) -> None:
        self.desk.announce(
            events.TOOL_STARTED, self.unit.id, tool=call.name, arguments=one_line(_shown(call), 100)
        )

    def _watch(self, call: ToolCall, answer: Answer, decision: Decision | None, started_at: int) -> None:
        refused = decision is not None and decision.verdict != "allow"
        self._log(f"  {call.name} {one_line(_shown(call), 300)} → {one_line(answer.response.output, 200)}")
        span_id = ulid()
        self._chapters.spanned(span_id)
        self.desk.tracer.span(
            "tool_call",
            trace_id=self._trace_id,
            span_id=span_id,
            started_at=started_at,
            attrs={
                "unit_id": self.unit.id,
                "tool": call.name,
                "success": answer.response.success,
                "output": one_line(answer.response.output, 300),
                "decision": decision.verdict if decision else "none",
                "step": decision.step if decision else "",
                "risk": decision.risk if decision else 0.0,
            },
            error="refused" if refused else "" if answer.response.success else "failed",
        )
        self.desk.announce(
            events.TOOL_CALLED,
            self.unit.id,
            tool=call.name,
            success=answer.response.success,
            output=one_line(answer.response.output, 100),
        )

    def _log(self, line: str) -> None:
        """A line in the run's own log, for people who watch."""
        artifacts.append_line(self.desk.project, self.unit.id, artifacts.run_log(self.lease.run_id), line)

    async def _state(self, state: AttemptState, model: str | None = None) -> None:
        """Where the attempt stands is shown live; its row says no more than that it is at its turns."""
        self.desk.announce(events.STATE_CHANGED, self.unit.id, state=state.value, model=model)

    def _trace_prompt(self, template: str, prompt: Prompt) -> None:
        self.desk.log.info(
            "agent session started",
            unit_id=self.unit.id,
            unit_type=self.unit.type,
            session_id=self.unit.session_id,
            turn_count=self._turn,
            prompt=template,
            characters=len(prompt.instructions) + len(prompt.opening),
        )

    def _caller(self, toolbox: Toolbox) -> Caller:
        desk = self.desk
        harness = desk.config.harness
        reading = (desk.project.active(self.unit.id),)
        own = Areas.of(self.unit) if self.unit.type == "task" else Areas((), ())
        site = WorkSite(
            self.place.folder,
            reading,
            sandbox=desk.sandbox,
            readable=desk.readable(),
            scratch=self.scratch(),
            environment=clean_env(desk.environment, {MARK: self.lease.run_id}),
            diff=lambda: self.place.worktree.diff(self.place.shown_from),
            recall=self._known,
            turn_to=self._chapters.begin,
            abort_grace=harness.tool_abort_grace,
            abort_kill=harness.tool_abort_kill,
        )
        circumstances = Circumstances(
            unit_id=self.unit.id,
            phase=self.unit.phase,
            root=self.place.folder,
            reading=reading,
            allowed_areas=own.allowed,
            forbidden_areas=own.forbidden,
            sandboxed=desk.sandbox is not None,
        )
        ask = self._ask_hooks if harness.hooks.pre_tool_use else None
        return Caller(toolbox, site, circumstances, harness.tool_timeout, self._watch, ask, self._begin)

    async def _ask_hooks(self, call: ToolCall) -> str:
        """Why the operator's hooks refuse a call; they run in the project, never where the agent has been."""
        desk, unit = self.desk, self.unit
        payload = {
            "tool": call.name,
            "arguments": call.arguments,
            "unit": briefing.issue(unit),
            "phase": unit.phase.value,
            "run_id": self.lease.run_id,
        }
        return await desk.hooks.refusal(
            payload,
            cwd=desk.project.root,
            trace_id=self._trace_id,
            variables=hook_variables(desk, unit, self.lease.run_id, str(self.place.folder)),
        )

    def _pace(self) -> Pace:
        harness = self.desk.config.harness
        return Pace(
            max_turns=harness.max_turns_per_attempt,
            turn_timeout=harness.turn_timeout or _NO_LIMIT,
            stall_timeout=harness.stall_timeout or _NO_LIMIT,
            max_output_tokens=harness.max_output_tokens,
            input_required=harness.turn_input_required,
            backoff=min(1.0, harness.retry_backoff),
            hot_turns=harness.hot_cache_turns,
        )

    def _visit(self) -> int:
        """Which time the unit is in this phase: a run that was interrupted is made again, not counted."""
        found = runs.of_unit(self.desk.database.read, self.unit.id)
        ended = [run for run in found if run.phase is self.unit.phase and run.id != self.lease.run_id]
        return 1 + sum(run.outcome is not RunOutcome.INTERRUPTED for run in ended)

    def _progress(self) -> Progress | None:
        """Only where the product is a changed tree."""
        every = self.desk.config.harness.stale_turns
        return Progress(self.place.worktree.snapshot, every) if self.unit.phase in WRITING else None

    def _budget(self) -> Budget:
        harness = self.desk.config.harness
        return Budget(harness.context_window, harness.context_compact_at, harness.context_hard_limit)

    async def short_diff(self) -> str:
        """What the unit has changed so far, within a prompt's budget."""
        diff = await self.place.worktree.diff(self.place.shown_from)
        return head_and_tail(diff, _DIFF_LIMIT, "... [diff cut; git_diff shows all of it] ...")


def _shown(call: ToolCall) -> str:
    return json.dumps(call.arguments) if call.arguments is not None else call.raw


async def nothing_missing(text: str) -> str:
    """For conversations whose product is the words themselves."""
    return "" if text.strip() else "you replied with nothing"


def must_submit(tool: str) -> Callable[[str], Awaitable[str]]:
    """For conversations whose product is a submission."""

    async def missing(text: str) -> str:
        return f"call {tool}; words alone are not accepted."

    return missing
