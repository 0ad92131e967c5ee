"""What an agent does in each of its phases, and the outcome that it leads to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from sf.domain import outcomes as o
from sf.domain import plans, testfiles
from sf.domain.phases import Phase
from sf.domain.plans import Plan
from sf.domain.units import Unit
from sf.errors import BadUsage, InvalidPlan, NoProduct, SfError
from sf.harness import artifacts, judging
from sf.harness.agent import Agent, must_submit, nothing_missing
from sf.harness.desk import Desk
from sf.harness.turn import Ended
from sf.routing import route
from sf.store import ledger, records, sessions
from sf.tools.submissions import MilestonePlan, Reassessment, SlicePlan, Submit, TaskPlan
from sf.tools.toolbox import for_phase

Work = Callable[[Agent], Awaitable[o.AnyOutcome]]

_MOST_FILES, _MOST_LINES = 200, 20_000
"""In how many source files, and with how many lines added to each, a test among the code is looked for."""
_AFTER_PLAN = frozenset({Phase.EXECUTE, Phase.TDD, Phase.VERIFY, Phase.REVIEW})

_PLAN_FORMS: dict[str, type[Any]] = {"milestone": MilestonePlan, "slice": SlicePlan, "task": TaskPlan}


async def research(agent: Agent) -> o.AnyOutcome:
    """Map the problem; the last reply is research.md."""
    ended = await agent.converse("research", for_phase(Phase.RESEARCH), nothing_missing)
    if ended.how == "complete":
        artifacts.write(agent.desk.project, agent.unit.id, artifacts.RESEARCH, ended.text + "\n")
    return _common(ended, "researched")


async def plan(agent: Agent) -> o.AnyOutcome:
    """Have a plan submitted, checked, and written as plan.md."""
    unit, desk = agent.unit, agent.desk
    inherited = msgspec.convert(unit.plan, Plan) if unit.plan and unit.type == "task" else None

    def check(form: Any) -> None:
        plans.check(form.plan(), unit.type, desk.rules.max_children, inherited)

    submit = Submit("submit_plan", "Hand in the plan.", _PLAN_FORMS[unit.type], check)
    ended = await agent.converse("plan", for_phase(Phase.PLAN, submit), must_submit("submit_plan"))
    if ended.how != "submitted":
        return _common(ended, "")
    accepted = plans.narrowed(ended.submission.plan(), inherited)
    try:
        write_plan(desk, unit, accepted, route(desk.config, Phase.PLAN).model)
    except InvalidPlan as error:
        raise NoProduct(error.message) from error
    return o.Planned(accepted)


def write_plan(desk: Desk, unit: Unit, accepted: Plan, written_by: str) -> None:
    """Render plan.md and read it back: what does not parse must not leave the phase."""
    text = plans.render(
        accepted,
        unit_id=unit.id,
        created_at=desk.clock.now(),
        written_by=written_by,
        plan_version=unit.plan_version,
    )
    plans.parse(text)
    artifacts.write(desk.project, unit.id, artifacts.PLAN, text)


def ensure_plan_file(desk: Desk, unit: Unit) -> None:
    """A task that came with its plan gets its plan.md before anything is done by it."""
    planned = bool(unit.plan and unit.plan.get("deliverables")) and unit.phase in _AFTER_PLAN
    if planned and not artifacts.read(desk.project, unit.id, artifacts.PLAN):
        try:
            write_plan(desk, unit, msgspec.convert(unit.plan, Plan), f"plan of {unit.parent_id}")
        except InvalidPlan as error:
            raise NoProduct(error.message) from error


async def write_code(agent: Agent) -> o.AnyOutcome:
    """Execute and tdd: let the agent change the tree, then judge the result and not the request."""
    unit = agent.unit
    missing = _missing_tests(agent) if unit.phase is Phase.TDD else _missing_change(agent)
    try:
        ended = await agent.converse(unit.phase.value, for_phase(unit.phase), missing)
    except asyncio.CancelledError:
        # What cannot be judged now is when the next run ends: both are measured from the unit's base.
        with contextlib.suppress(SfError):
            await judging.take_back(agent)
        raise
    except Exception:
        await judging.take_back(agent)
        raise
    taken_back = await judging.take_back(agent)
    if taken_back:
        raise judging.refused(taken_back)
    if ended.how in ("complete", "turns_spent"):
        left = await missing(ended.text)
        if left:
            raise NoProduct(left)
        await _record_claim(agent, ended.text)
        return o.Done("turns spent; the gates decide" if ended.how == "turns_spent" else "done")
    return _common(ended, "")


def _missing_change(agent: Agent) -> Callable[[str], Awaitable[str]]:
    """A task must have changed something in all; a container that came back, something not yet committed."""

    async def missing(text: str) -> str:
        if agent.place.merging:
            return await judging.conflict_left(agent)
        tip = await agent.place.worktree.head()
        changes = await agent.place.worktree.changes(agent.place.base if agent.unit.type == "task" else tip)
        return "" if changes else "no file of the worktree has changed."

    return missing


def _missing_tests(agent: Agent) -> Callable[[str], Awaitable[str]]:
    """Tests must be there; of a merge that is being resolved both sides have brought theirs."""

    async def missing(text: str) -> str:
        if agent.place.merging:
            return await judging.conflict_left(agent)
        return "" if await _has_tests(agent) else f"no test was written. {testfiles.WHAT_COUNTS}"

    return missing


async def _has_tests(agent: Agent) -> bool:
    """Whether the unit wrote a test: a file of its own, or one among the lines that it added to the code."""
    owned, base = agent.desk.workshop.owned, agent.place.base
    tree = await agent.place.worktree.snapshot()
    written = [change for change in await owned.diff_stat(base, tree) if change.status != "D"]
    if any(testfiles.is_test(change.path) for change in written):
        return True
    sources = [
        change.path
        for change in written
        if testfiles.may_hold_tests(change.path) and 0 < (change.added or 0) <= _MOST_LINES
    ]
    for path in sources[:_MOST_FILES]:
        lines = (await owned.diff(base, tree, [path])).splitlines()
        if testfiles.adds_test(path, (line[1:] for line in lines if line.startswith("+"))):
            return True
    return False


async def _record_claim(agent: Agent, text: str) -> None:
    now = agent.desk.clock.now()
    if text:
        await agent.desk.database.write(lambda tx: records.found(tx, agent.lease, "claim", text[:2000], now))


async def reassess(agent: Agent) -> o.AnyOutcome:
    """Have it decided what becomes of a stuck unit."""
    desk, unit = agent.desk, agent.unit
    counts = ledger.counts(desk.database.read, unit)
    workflow = sessions.pinned(desk.database.read, unit.workflow_hash)
    left = max(0, desk.rules.limits(workflow).max_reassess - counts.replans)

    def check(form: Reassessment) -> None:
        if form.outcome == "replan" and left == 0:
            raise BadUsage("it was re-planned as often as allowed; only abandon or escalate are left")
        if form.outcome == "escalate" and not form.questions:
            raise BadUsage("escalate needs at least one concrete question")

    submit = Submit("submit_reassessment", "Hand in your decision.", Reassessment, check)
    ended = await agent.converse(
        "reassess",
        for_phase(Phase.REASSESS, submit),
        must_submit("submit_reassessment"),
        reason=unit.reassess_reason or "",
        replans_left=left,
        diff=await agent.short_diff(),
    )
    if ended.how != "submitted":
        return _common(ended, "")
    form: Reassessment = ended.submission
    return _decided(desk, unit, form)


def _decided(desk: Desk, unit: Unit, form: Reassessment) -> o.Reassessed:
    text = form.explanation
    if form.outcome == "abandon":
        artifacts.write(desk.project, unit.id, artifacts.DECISION, f"# Abandoned\n\n{text}\n")
    if form.outcome == "escalate":
        text = f"{text}\n" + "\n".join(f"- {question}" for question in form.questions)
        artifacts.write(desk.project, unit.id, artifacts.QUESTION, f"# Questions\n\n{text}\n")
    return o.Reassessed(form.outcome, text)


def _common(ended: Ended, note: str) -> o.AnyOutcome:
    """The outcomes that every conversation can end in."""
    match ended.how:
        case "complete" | "submitted":
            return o.Done(note)
        case "blocked":
            return o.AskedHuman(ended.text or "the agent gave no question")
        case "giving_up":
            return o.GaveUp(ended.text or "the agent gave no reason")
        case "stale":
            return o.WentStale(ended.text)
        case "turns_spent":
            raise NoProduct("the agent used up its turns without a result")
        case "paused":
            return o.Interrupted("paused")
        case "canceled":
            return o.CalledOff("canceled_by_operator")


BY_PHASE: dict[Phase, Work] = {
    Phase.RESEARCH: research,
    Phase.PLAN: plan,
    Phase.EXECUTE: write_code,
    Phase.TDD: write_code,
    Phase.REASSESS: reassess,
}
