"""The turn loop: one model request, then the tool calls that it asked for, until the agent ends.

The loop decides nothing about phases. It returns how the conversation ended; gates and rules do the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import msgspec

from sf.domain import markers
from sf.domain.budget import Budget
from sf.domain.dialogue import Conversation, Prompting, Reply, Usage
from sf.domain.excerpt import one_line
from sf.domain.runs import TurnKind
from sf.errors import (
    BudgetExhausted,
    InputRequired,
    NoProduct,
    QuotaWait,
    SfError,
    Stalled,
    Transient,
    TurnTimeout,
    Unreachable,
)
from sf.harness.calls import Caller
from sf.harness.progress import Progress
from sf.harness.prompts import Prompt, Prompts
from sf.store.runs import TurnRecord

NON_INTERACTIVE = "This is a non-interactive session. Operator input is unavailable."
_RETRIES_IN_PLACE = 3
_LONGEST_WAIT_IN_PLACE = 30.0
_STORY_LINES = 60


class Recorder(Protocol):
    """Where the loop writes, and where it hears whether it may go on."""

    async def turn(self, record: TurnRecord) -> None:
        """Persist a turn."""
        ...

    async def wanted(self) -> Literal["go", "pause", "cancel"]:
        """Whether the unit still wants this run."""
        ...

    def requested(self, started_at: int, model: str, reply: Reply | None, error: str) -> None:
        """Trace a model request."""
        ...

    async def compacting(self, summary: str) -> str:
        """A window is given up for a fresh one: keep its summary; what memory has to add to the new one."""
        ...


class Payments(Protocol):
    """Where the loop pays for its requests."""

    async def reserve(self, model: str, ceiling: int | None) -> str:
        """Reserve what a request may cost; raises SpendingReached."""
        ...

    async def answered(self, spend_id: str, usage: Usage) -> None:
        """The answer is there with its usage: its reservation is settled."""
        ...

    async def unbilled(self, spend_id: str) -> None:
        """The request was refused, or never sent: its reservation is let go."""
        ...


class Pace(msgspec.Struct, frozen=True):
    """The limits of one conversation, in seconds and turns."""

    max_turns: int
    turn_timeout: float
    stall_timeout: float
    max_output_tokens: int
    input_required: Literal["soft", "hard"] = "soft"
    backoff: float = 1.0
    hot_turns: int = 10
    """How many of the last turns are kept at length for a fresh window."""


class Ended(msgspec.Struct, frozen=True):
    """How a conversation ended: with a submission, or with words and the marker the agent gave them."""

    how: Literal[
        "submitted", "complete", "blocked", "giving_up", "turns_spent", "stale", "paused", "canceled"
    ]
    text: str = ""
    submission: Any = None


Missing = Callable[[str], Awaitable[str]]
"""What the phase's product still lacks, given the last reply's text; empty when it is there."""


class Dialogue:
    """One conversation of an attempt, from the first prompt to its end."""

    def __init__(
        self,
        *,
        conversation: Conversation,
        model: str,
        prompt: Prompt,
        prompts: Prompts,
        caller: Caller,
        recorder: Recorder,
        payments: Payments,
        pace: Pace,
        budget: Budget,
        thinking: bool,
        missing: Missing,
        diff: Callable[[], Awaitable[str]],
        progress: Progress | None = None,
        first_turn: int = 1,
    ) -> None:
        self._conversation = conversation
        self._model = model
        self._prompt = prompt
        self._prompts = prompts
        self._caller = caller
        self._recorder = recorder
        self._payments = payments
        self._pace = pace
        self._budget = budget
        self._missing = missing
        self._diff = diff
        self._progress = progress
        self._story: list[str] = []
        self._recent: deque[str] = deque(maxlen=pace.hot_turns)
        self._nudged = False
        self._spend_id = ""
        self.turn = first_turn - 1
        self._prompting = Prompting(
            instructions=prompt.instructions,
            tools=caller.toolbox.specs(),
            thinking=thinking,
            max_output_tokens=pace.max_output_tokens,
            timeout=pace.turn_timeout,
        )

    async def run(self) -> Ended:
        """Turns until the agent ends, is stopped, or has used up what it may."""
        self._conversation.say(self._prompt.opening)
        if self._progress is not None:
            await self._progress.begin()
        for number in range(1, self._pace.max_turns + 1):
            kind = TurnKind.FIRST if number == 1 else TurnKind.CONTINUATION
            ended = await self._turn(kind) or await self._keep_moving(number)
            if ended is not None:
                return ended
        return Ended("turns_spent")

    async def _turn(self, kind: TurnKind) -> Ended | None:
        self.turn += 1
        reply = await self._reply()
        if reply.calls and self._spend_id:
            # Tools may run for long and be stopped; what the answer cost is known now. Without any, the
            # turn's own transaction follows at once and settles it.
            await self._payments.answered(self._spend_id, reply.usage)
        results, submission = await self._caller.answer(reply.calls)
        if results:
            self._conversation.answer(results)
        self._budget = self._budget.after(reply.usage)
        await self._recorder.turn(self._record(kind, reply))
        self._spend_id = ""
        self._note(reply)
        if submission is not None:
            return Ended("submitted", reply.text, submission)
        ended = None if reply.calls else await self._without_calls(reply)
        if ended is not None:
            return ended
        await self._keep_within_budget()
        wanted = await self._recorder.wanted()
        return None if wanted == "go" else Ended("paused" if wanted == "pause" else "canceled")

    async def _keep_moving(self, turns: int) -> Ended | None:
        """Turns that change nothing are told once to take another way; after that they end the run."""
        pace = "going" if self._progress is None else await self._progress.after(turns)
        if self._progress is None or pace == "going":
            return None
        if pace == "stale":
            return Ended("stale", f"after the pivot, {self._progress.every} turns left no new tree")
        self._conversation.say(self._prompts.pivot(self._progress.every))
        return None

    async def _without_calls(self, reply: Reply) -> Ended | None:
        """A reply that asked for no tool: an end, or one continuation that says what is missing."""
        marker = markers.parse(reply.text)
        text = markers.without(reply.text)
        if marker in ("blocked", "giving_up"):
            return Ended(marker, text)
        missing = await self._missing(text)
        if marker == "complete" and not missing:
            return Ended("complete", text)
        if marker is None and text.rstrip().endswith("?"):
            return self._asked(text)
        if self._nudged:
            if missing:
                raise NoProduct(missing)
            return Ended("complete", text)
        self._nudged = True
        self._conversation.say(self._prompts.continuation(missing))
        return None

    def _asked(self, text: str) -> Ended | None:
        if self._pace.input_required == "hard":
            raise InputRequired(f"the agent asked: {one_line(text, 300)}")
        if self._nudged:
            return Ended("blocked", text)
        self._nudged = True
        self._conversation.say(NON_INTERACTIVE)
        return None

    async def _reply(self) -> Reply:
        """One reply; what is worth retrying in place is retried a few times."""
        for number in range(1, _RETRIES_IN_PLACE + 2):
            started_at = time.time_ns() // 1_000_000
            try:
                reply = await self._paid_request()
            except (Transient, QuotaWait, Unreachable) as error:
                self._recorder.requested(started_at, self._model, None, error.code)
                wait = _wait_in_place(error, number, self._pace.backoff)
                if wait is None:
                    raise _ending(error) from None
                await asyncio.sleep(wait)
                continue
            self._recorder.requested(started_at, self._model, reply, "")
            return reply
        raise AssertionError("the last try returns or raises")

    async def _paid_request(self) -> Reply:
        """A request under a reservation. One that is cut off keeps it: the run's end settles it."""
        ceiling = self._conversation.ceiling(self._prompting)
        self._spend_id = await self._payments.reserve(self._model, ceiling)
        try:
            return await self._guarded_request()
        except SfError as error:
            if error.unbilled and self._spend_id:
                await self._payments.unbilled(self._spend_id)
            raise

    async def _guarded_request(self) -> Reply:
        """A request under the turn's and the stall clock; the stall clock is fed by stream events."""
        last_event = started = time.monotonic()

        def beat() -> None:
            nonlocal last_event
            last_event = time.monotonic()

        request = asyncio.ensure_future(self._conversation.request(self._prompting, beat))
        try:
            while not request.done():
                now = time.monotonic()
                stalls_at = last_event + self._pace.stall_timeout
                ends_at = started + self._pace.turn_timeout
                if now >= ends_at:
                    raise TurnTimeout(
                        f"no complete answer from {self._model} in {self._pace.turn_timeout:g} s"
                    )
                if now >= stalls_at:
                    raise Stalled(f"nothing heard from {self._model} for {self._pace.stall_timeout:g} s")
                await asyncio.wait([request], timeout=min(stalls_at, ends_at) - now)
            return request.result()
        finally:
            if not request.done():
                request.cancel()
                await asyncio.gather(request, return_exceptions=True)

    async def _keep_within_budget(self) -> None:
        if self._budget.at_hard_limit():
            raise BudgetExhausted(
                f"{self._budget.used_tokens} of {self._budget.max_tokens} tokens of context are used"
            )
        if self._budget.should_compact():
            summary = self._summary()
            fresh = self._prompts.compaction(
                prompt=self._prompt.task,
                chapter=summary,
                diff=await self._diff(),
                known=await self._recorder.compacting(summary),
            )
            self._conversation.restart(fresh)
            self._recent.clear()
            self._budget = self._budget.emptied()

    def _record(self, kind: TurnKind, reply: Reply) -> TurnRecord:
        return TurnRecord(
            turn=self.turn,
            kind=kind,
            model=self._model,
            marker=markers.parse(reply.text),
            tool_calls=len(reply.calls),
            usage=reply.usage,
            budget=self._budget,
            messages=tuple(self._conversation.take_new_messages()),
            spend_id=self._spend_id,
        )

    def _note(self, reply: Reply) -> None:
        """What a fresh window must know of the turns it does not contain: the last ones at more length."""
        called = ", ".join(call.name for call in reply.calls)
        if not (reply.text.strip() or called):
            return
        if len(self._recent) == self._recent.maxlen:
            self._story.append(one_line(self._recent[0], 200))
            del self._story[:-_STORY_LINES]
        words = one_line(reply.text, 600)
        self._recent.append(f"- {words}" + (f" [{called}]" if called and words else called))

    def _summary(self) -> str:
        """What was done so far; the hot cache becomes part of the story."""
        text = "\n".join([*self._story, *self._recent])
        self._story += [one_line(line, 200) for line in self._recent]
        del self._story[:-_STORY_LINES]
        return text


def _wait_in_place(error: Transient | QuotaWait | Unreachable, number: int, backoff: float) -> float | None:
    """How long to wait before asking again in the same turn; None when the run must end instead."""
    if number > _RETRIES_IN_PLACE:
        return None
    named = _named_wait(error)
    if named is None:
        return float(backoff * 2 ** (number - 1))
    return named if named <= _LONGEST_WAIT_IN_PLACE else None


def _named_wait(error: Transient | QuotaWait | Unreachable) -> float | None:
    """The seconds before which the provider said it will not answer, if it did."""
    if isinstance(error, QuotaWait):
        return error.seconds
    return error.retry_after if isinstance(error, Transient) else None


def _ending(error: Transient | QuotaWait | Unreachable) -> SfError:
    """What ends the run: a time too far off to wait for in place is a wait, whichever refusal named it."""
    named = _named_wait(error)
    if isinstance(error, Transient) and named is not None and named > _LONGEST_WAIT_IN_PLACE:
        return QuotaWait(error.message, seconds=named)
    return error
