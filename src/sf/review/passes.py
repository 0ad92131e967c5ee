"""The review in three passes: context, parts, synthesis. Only the synthesis decides."""

from __future__ import annotations

from collections.abc import Sequence

from sf.domain import outcomes as o
from sf.domain.excerpt import one_line
from sf.domain.phases import Phase
from sf.errors import NoProduct, Paused
from sf.harness.agent import Agent, must_submit, nothing_missing
from sf.harness.turn import Ended
from sf.review.chunks import FileDiff, chunks, outline, split
from sf.store import records
from sf.tools.submissions import Finding, ReviewNotes, Submit, Synthesis
from sf.tools.toolbox import for_phase


async def review(agent: Agent) -> o.AnyOutcome:
    """Review everything that the unit would merge."""
    tree = await agent.place.worktree.snapshot()
    files = split(await agent.desk.workshop.owned.diff(agent.place.shown_from, tree))
    if not files:
        return await _without_files(agent)
    summary = await _context(agent, files)
    findings: list[Finding] = []
    parts = chunks(files)
    largest = max(sum(len(file.text) for file in part) for part in parts)
    await agent.billing.promise(len(parts) + 1, largest)
    for number, part in enumerate(parts, 1):
        findings += await _part(agent, summary, part, number, len(parts))
    verdict = await _synthesis(agent, summary, findings)
    await _keep(agent, tree, verdict, len(parts))
    if verdict.verdict == "pass":
        return o.Done("review passed")
    return o.ChangesWanted(_told(verdict))


async def _without_files(agent: Agent) -> o.AnyOutcome:
    """Only who resolved a conflict by keeping one side has done its work with no file changed."""
    parents = await agent.desk.workshop.owned.parents(await agent.place.worktree.head())
    if len(parents) > 1:
        return o.Done("nothing to review: a conflict was resolved by keeping one side")
    return o.ChangesWanted("There is nothing to review: the unit has changed no file.")


async def _context(agent: Agent, files: list[FileDiff]) -> str:
    ended = await agent.converse(
        "review_context", for_phase(Phase.REVIEW), nothing_missing, tier="fast", diff=outline(files)
    )
    return _went_on(ended, "complete").text


async def _part(
    agent: Agent, summary: str, part: list[FileDiff], number: int, count: int
) -> Sequence[Finding]:
    submit = Submit("submit_review", "Hand in your findings; an empty list is fine.", ReviewNotes)
    ended = await agent.converse(
        "review_chunk",
        for_phase(Phase.REVIEW, submit),
        must_submit("submit_review"),
        summary=summary,
        chunk={"number": number, "count": count, "diff": "".join(file.text for file in part)},
    )
    notes: ReviewNotes = _went_on(ended, "submitted").submission
    return notes.findings


async def _synthesis(agent: Agent, summary: str, findings: Sequence[Finding]) -> Synthesis:
    submit = Submit("submit_synthesis", "Hand in the verdict of the whole review.", Synthesis)
    ended = await agent.converse(
        "review_synthesis",
        for_phase(Phase.REVIEW, submit),
        must_submit("submit_synthesis"),
        summary=summary,
        findings="\n".join(_line(finding) for finding in findings) or "(none)",
    )
    verdict: Synthesis = _went_on(ended, "submitted").submission
    return verdict


def _went_on(ended: Ended, how: str) -> Ended:
    """A pass must end as it should; a reviewer that stops short decides nothing."""
    if ended.how == how:
        return ended
    if ended.how in ("paused", "canceled"):
        raise Paused("the review was stopped between turns")
    raise NoProduct(f"a review pass ended with {ended.how}: {one_line(ended.text, 200)}")


def _line(finding: Finding) -> str:
    fix = f" Do: {finding.fix}" if finding.fix else ""
    return f"- [{finding.severity}] {finding.file}: {finding.what}{fix}"


def _told(verdict: Synthesis) -> str:
    lines = "\n".join(_line(finding) for finding in verdict.findings)
    return f"The review says {verdict.verdict}: {verdict.summary}\n{lines}"


async def _keep(agent: Agent, tree: str, verdict: Synthesis, parts: int) -> None:
    now = agent.desk.clock.now()
    summary = f"{verdict.verdict}: {one_line(verdict.summary, 300)} ({parts} part(s))"

    await agent.desk.database.write(
        lambda tx: records.found(tx, agent.lease, "review", summary, now, tree=tree)
    )
