"""Looking: status, why, history. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sf.domain.clock import brief_duration, rfc3339
from sf.domain.phases import Phase
from sf.domain.sizes import told
from sf.errors import BadUsage
from sf.paths import find_project
from sf.surfaces.cli.speech import Speech, count, money, progress_bar, table

if TYPE_CHECKING:
    from sf.app.reports import StatusReport
    from sf.app.standings import UnitLine

_MOST = 20
"""How many of the units that only wait are shown unless all are asked for; programs get more."""
_MOST_AS_JSON = 200


@click.command()
@click.option("--all", "everything", is_flag=True, help="Every unit that waits, however many.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def status(speech: Speech, everything: bool, as_json: bool) -> int:
    """The project at a glance: what runs, what waits, what waits for you."""
    from sf.app import reports

    most = None if everything else _MOST_AS_JSON if as_json or speech.headless else _MOST
    report = reports.status(find_project(Path.cwd()), most=most)
    if speech.answer(report, as_json=as_json):
        return 0
    speech.say(f"Project:    {report.project}" + (f" → {report.branch}" if report.branch else ""))
    holder = f", {report.holder}" if report.holder else ""
    way_on = f" → {report.way_on}" if report.way_on else ""
    speech.say(f"Session:    {report.session}{holder}{way_on}")
    if report.detail:
        speech.say(f"            {report.detail}")
    for word, kind in (("Milestones", "milestone"), ("Slices", "slice"), ("Tasks", "task")):
        done, total = report.done.get(kind, (0, 0))
        speech.say(f"{word + ':':<12}{progress_bar(done, total)}")
    worked = f"{report.runs} runs, {brief_duration(report.worked_ms)}"
    spent = _cost(report.cost_micro_usd, report.reserved_micro_usd)
    speech.say(f"Spent:      {worked}, {count(report.tokens)} tokens, {spent}")
    if report.estimated_micro_usd:
        guessed = money(report.estimated_micro_usd)
        speech.say(f"            of which {guessed} at most: cut off before the answer → sf cost")
    if report.disk is not None:
        room = f"worktrees {told(report.disk.worktrees)}, sf's repository {told(report.disk.repository)}"
        aside = f", set aside {told(report.disk.aside)} (sf rescue list)" if report.disk.aside else ""
        speech.say(f"Disk:       {room}{aside}")
    if report.crowded:
        speech.say(f"            {report.crowded}")
    for text in _units(report):
        speech.say(text)
    for line in report.reverted:
        speech.say(f"Reverted:   {line.id} ({line.detail})  {line.title}")
    for asked in report.asked:
        speech.say(f"Asked for:  {asked}")
    for drift in report.drift:
        speech.say(f"config drift detected — restart to apply: {drift}")
    for blocker in report.blockers:
        told_of = " ".join(filter(None, (blocker.id[-6:], blocker.event, blocker.unit_id, blocker.detail)))
        speech.say(f"Blocker:    {told_of}\n            → {blocker.way_out}")
    if not report.blockers:
        speech.say("Blocker:    none")
    return 0


def _units(report: StatusReport) -> Iterator[str]:
    """A line for each unit that runs or waits, and how many are left out."""
    from sf.app.standings import CUT_OFF

    several = ", " in report.branch
    for line in report.running:
        cut_off = line.standing == CUT_OFF
        word, took = ("Cut off:", "") if cut_off else ("Running:", f"{brief_duration(line.elapsed_ms)} ")
        spent = f"{took}{count(line.tokens)} {_cost(line.cost_micro_usd, line.reserved_micro_usd)}"
        yield f"{word:<12}{line.id} {line.phase} {spent}{_detail(line)}  {line.title}{_target(line, several)}"
    for line in report.ending:
        yield f"Ending:     {line.id} {line.phase}{_detail(line)}  {line.title}"
    for line in report.waiting:
        told = f"{line.standing}{_detail(line)}  {line.title}{_target(line, several)}"
        yield f"Waiting:    {line.id} {line.phase}: {told}"
    more = report.waiting_in_all - len(report.waiting)
    if more > 0:
        yield f"            and {more} more → sf status --all"


def _detail(line: UnitLine) -> str:
    return f" ({line.detail})" if line.detail else ""


def _cost(micro_usd: int, reserved: int) -> str:
    """What was spent; what is only reserved is told apart."""
    return money(micro_usd - reserved) + (f" + {money(reserved)} reserved" if reserved else "")


def _target(line: UnitLine, several: bool) -> str:
    """The branch of a goal, where goals have different ones."""
    return f" → {line.branch}" if several and line.branch else ""


@click.command()
@click.argument("unit_id")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def why(speech: Speech, unit_id: str, as_json: bool) -> int:
    """Why a unit stands where it stands: its reason, its way on, everything recorded about it."""
    from sf.app import reports

    report = reports.why(find_project(Path.cwd()), unit_id)
    if speech.answer(report, as_json=as_json):
        return 0
    speech.say(f"{report.unit.id}: {report.unit.title}")
    speech.say(f"{report.unit.phase}: {report.reason}")
    if report.way_out:
        speech.say(f"→ {report.way_out}")
    if report.workspace:
        speech.say(f"workspace: {report.workspace}" + (f" on {report.branch}" if report.branch else ""))
    of = {name: f" of {most}" for name, most in report.limits.items()}
    counters = (f"{name} {value}{of.get(name, '')}" for name, value in report.counters.items())
    speech.say("counters: " + ", ".join(counters))
    for title, lines in (
        ("waits for", report.blocked_by),
        (
            "children",
            [f"{child.id} {child.phase} {child.standing}: {child.title}" for child in report.children],
        ),
        ("phases", report.transitions),
        ("runs", [_run(run, report.unit.standing) for run in report.runs]),
        ("evidence", [f"{item['kind']}: {item['summary']}" for item in report.evidence]),
        ("will be told", [report.feedback] if report.feedback else []),
    ):
        if lines:
            speech.say(f"\n{title}:")
            for line in lines:
                speech.say(f"  {line}")
    return 0


def _run(run: dict[str, Any], standing: str) -> str:
    took = brief_duration(run["duration_ms"]) if run["duration_ms"] is not None else standing
    code = f" [{run['error_code']}]" if run["error_code"] else ""
    detail = " ".join(str(run["detail"]).split())[:140]
    return f"#{run['attempt']} {run['phase']} {run['outcome'] or run['state']}{code} {took} {detail}"


@click.command()
@click.option("--since", help="Only units that ended on or after this date (YYYY-MM-DD, UTC).")
@click.option(
    "--phase", type=click.Choice([phase.value for phase in Phase]), help="Only units that reached this phase."
)
@click.option(
    "--verdict", type=click.Choice(["success", "abandoned", "canceled", "reverted"]), help="Only these."
)
@click.option("--workflow", help="Only this workflow.")
@click.option("--model", help="Only units that this model worked on.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def history(
    speech: Speech,
    since: str | None,
    phase: str | None,
    verdict: str | None,
    workflow: str | None,
    model: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """Units that have ended, newest first. Filters are joined by and."""
    from sf.app import reports

    project = find_project(Path.cwd())
    rows = reports.history(
        project,
        since=parse_date(since),
        phase=phase,
        verdict=verdict,
        workflow=workflow,
        model=model,
        most=limit,
    )
    if speech.answer(rows, as_json=as_json):
        return 0
    if not rows:
        some = reports.history(project, most=1)
        speech.say("nothing that has ended is like that" if some else "nothing has ended yet")
        return 0
    header = ["ended", "unit", "title", "result", "runs", "cost", "commit"]
    lines = [
        [
            rfc3339(row["archived_at"])[:16],
            row["unit_id"],
            row["title"][:40],
            "reverted" if row["reverted_at"] else row["verdict"] or row["phase_status"],
            str(row["runs"]),
            money(row["cost_micro_usd"]),
            (row["commit_id"] or "")[:10],
        ]
        for row in rows
    ]
    for line in table(lines, header):
        speech.say(line)
    return 0


def parse_date(text: str | None) -> int | None:
    """A date or time as UNIX milliseconds, in UTC unless it names its offset. Raises BadUsage."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadUsage(f"--since {text!r}: expected a date such as 2026-04-01") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
