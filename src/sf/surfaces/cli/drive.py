"""`sf auto` and `sf next`: running the loop in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sf.errors import SfError
from sf.paths import Project, find_project
from sf.surfaces.cli import cells
from sf.surfaces.cli.progress import Progress
from sf.surfaces.cli.speech import Speech, count, money, table

if TYPE_CHECKING:
    from sf.app.compose import Result, Selection

_EXIT = {"done": 0, "waiting": 3, "paused": 3, "budget": 4, "failed": 1, "interrupted": 130}


@click.command()
@click.pass_obj
def auto(speech: Speech) -> int:
    """Run the autopilot until everything is done, or waits for you.

    Ctrl-C stops it: what is running is interrupted and goes on with the next `sf auto`.
    """
    project = find_project(Path.cwd())
    return drive(project, speech)


@click.command("next")
@click.pass_obj
def next_(speech: Speech) -> int:
    """Dispatch one unit, wait for it, show what came of it."""
    from sf.app.compose import Selection

    project = find_project(Path.cwd())
    return drive(project, speech, Selection(most=1))


def drive(project: Project, speech: Speech, selection: Selection | None = None) -> int:
    """Run the loop, show it, and end with the table; the exit code."""
    import asyncio

    from sf.app import reports
    from sf.app.compose import Result, autopilot

    report = reports.status(project)
    # What was asked for may be the end of the pause, and is applied by whoever starts.
    if report.session == "paused" and not report.asked:
        told = "the session is paused → sf resume, then sf auto"
        speech.result = Result("paused", told)
        speech.say(told)
        return 3
    progress = Progress(speech, {unit.id: unit.due_in_ms for unit in report.waiting if unit.due_in_ms})
    try:
        result = asyncio.run(autopilot(project, progress, selection))
    finally:
        progress.close()
    speech.result = result
    try:
        show_outcome(project, speech, result)
    except SfError as error:
        # Whoever stopped it did so perhaps because of that: a store out of reach, a configuration half saved.
        if result.ending != "interrupted":
            raise
        speech.say(f"\ninterrupted: {error.line()}")
    return exit_code(result)


def exit_code(result: Result) -> int:
    """0 done, 1 failed or something was abandoned in this run, 3 waiting for a person, 130 interrupted."""
    return 1 if result.ending == "done" and result.abandoned else _EXIT[result.ending]


def show_outcome(project: Project, speech: Speech, result: Result) -> None:
    """The table of units, evidence, commits and cost, and what waits."""
    from sf.app import reports

    lines = reports.outcome(project, since=result.started_at)
    if lines:
        header = ["unit", "title", "result", "evidence", "commit", "runs", "tokens", "cost"]
        rows = [
            [
                line.id,
                cells.cut(line.title, 44),
                line.result,
                line.evidence,
                line.commit[:10],
                str(line.runs),
                count(line.tokens),
                money(line.cost_micro_usd),
            ]
            for line in lines
        ]
        speech.say()
        for text in table(rows, header):
            speech.say(text)
    elif result.ending != "interrupted":
        speech.say('nothing to do: state a goal with sf plan "…"')
    if result.detail:
        speech.say(f"\n{result.ending}: {result.detail}")
    elif result.ending == "interrupted":
        speech.say("\ninterrupted → sf auto goes on")
    for blocker in reports.status(project).blockers:
        if blocker.waits_for_person:
            where = f"{speech.paint('waits for you', 'yellow')}  {blocker.unit_id or 'session'}"
            speech.say(f"\n{where}: {blocker.detail}\n  → {blocker.way_out}")
