"""`sf plan` and `sf dispatch`: stating what should be done."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sf.domain.ids import full_id, is_unit_id
from sf.errors import BadUsage
from sf.paths import find_project
from sf.surfaces.cli.speech import Speech


@click.command()
@click.argument("goal")
@click.option("--workflow", help="The workflow template to follow.")
@click.option("--link-issue", type=int, help="Remember an issue number for your hooks.")
@click.option("--priority", type=int, help="1 (urgent) to 4 (low).")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def plan(
    speech: Speech,
    goal: str,
    workflow: str | None,
    link_issue: int | None,
    priority: int | None,
    as_json: bool,
) -> int:
    """State a GOAL: sf will decompose it, write it, prove it and merge it.

    `sf plan -` reads the goal from standard input. `sf plan reload` reads .sf/plan.md.
    """
    from sf.app import planning

    project = find_project(Path.cwd())
    if goal == "reload":
        answer = planning.reload(project)
        if not speech.answer(answer, as_json=as_json):
            for word, ids in answer.items():
                speech.say(f"{word.replace('_', ' ')}: {', '.join(ids) or 'none'}")
        return 0
    text = sys.stdin.read() if goal == "-" else goal
    planning.check_priority(priority)
    answer = planning.plan(project, text, workflow=workflow, link_issue=link_issue, priority=priority)
    if not speech.answer(answer, as_json=as_json):
        speech.say(f"{answer['unit_id']}: {answer['title']}")
        if not planning.has_gates(project):
            speech.say("note: no gate is configured, so this will be built but not merged: [harness.gates]")
        speech.say("→ sf auto runs it; sf status shows it")
    return 0


@click.command()
@click.argument("what")
@click.option("--workflow", help="For a prompt: the workflow template to follow.")
@click.pass_obj
def dispatch(speech: Speech, what: str, workflow: str | None) -> int:
    """Run one ad-hoc prompt as a task of its own, or one unit (by its id) out of turn.

    A unit that waits for others is begun without them, and does not wait for them again.
    """
    from sf.app import intake, planning, reports
    from sf.app.compose import Selection
    from sf.surfaces.cli.drive import drive

    project = find_project(Path.cwd())
    unit_id = full_id(what)
    if not is_unit_id(unit_id):
        if "/" in what and " " not in what:
            raise BadUsage(f"{what!r} is neither a unit id nor a prompt", hint="sf status lists the units")
        answer = planning.plan(project, what, workflow=workflow, adhoc=True)
        speech.say(f"{answer['unit_id']}: {answer['title']}")
        return drive(project, speech, Selection(only=frozenset({answer["unit_id"]})))
    forced = intake.submit(project, "force_dispatch", {"unit_id": unit_id, "station": project.key})
    if forced["overrides"] and reports.status(project).session != "paused":
        others = ", ".join(forced["overrides"])
        speech.say(f"note: once begun, {unit_id} never waits for {others} again, whatever comes of this run")
    return drive(project, speech, Selection(force=unit_id, most=1))
