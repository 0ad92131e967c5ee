"""`sf revert` and `sf rescue`: taking back what was merged, and getting at what was not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sf.domain.clock import rfc3339
from sf.domain.excerpt import printable
from sf.errors import BadUsage
from sf.paths import Project, find_project
from sf.surfaces.cli import cells
from sf.surfaces.cli.speech import Speech, table

if TYPE_CHECKING:
    from sf.app.rescues import Rescue
    from sf.app.undoing import Candidate, Survey, Undone
    from sf.domain.reverting import Step


@click.command()
@click.argument("unit_id", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def revert(speech: Speech, unit_id: str | None, yes: bool) -> int:
    """Undo what a unit merged, by revert commits on the branch; with no UNIT_ID, choose from a list.

    Every commit is shown first. On a conflict nothing is changed.
    """
    from sf.app import undoing

    project = find_project(Path.cwd())
    survey = undoing.survey(project, unit_id or _choose(speech, project))
    speech.answer(survey, as_json=False)
    _show(speech, survey)
    if not yes and not _confirmed(speech, survey):
        speech.say("nothing was changed")
        return 0
    undone = undoing.carry_out(project, survey)
    speech.answer(undone, as_json=False)
    _tell(speech, undone)
    return 0


def _asks(speech: Speech) -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and not speech.headless


def _choose(speech: Speech, project: Project) -> str:
    from sf.app import undoing

    found = undoing.candidates(project)
    if not found:
        raise BadUsage("there is nothing to revert: no unit has begun yet")
    if not _asks(speech):
        listed = ", ".join(f"{item.unit_id} ({item.standing})" for item in found)
        raise BadUsage(f"which unit? {listed}", hint="sf revert <unit>")
    for number, item in enumerate(found, 1):
        speech.say(f"{number}  {_candidate(item)}")
    chosen: int = click.prompt("which one", type=click.IntRange(1, len(found)))
    return found[chosen - 1].unit_id


def _candidate(item: Candidate) -> str:
    return f"{item.unit_id}  {item.standing}  {item.title}"


def _show(speech: Speech, survey: Survey) -> None:
    speech.say(f"{survey.unit_id}: {survey.title}")
    if survey.steps:
        speech.say(f"to be reverted on {survey.branch}, in this order:")
        rows = [[step.commit, rfc3339(step.committed_at * 1000), _subject(step)] for step in survey.steps]
        for line in table(rows, ["commit", "committed", "subject"], indent=2):
            speech.say(f"  {line}")
    for warning in survey.warnings:
        speech.say(f"{speech.paint('warning', 'yellow')}: {printable(warning)}")


def _subject(step: Step) -> str:
    return printable(step.subject) + (" [merge]" if step.is_merge else "")


def _confirmed(speech: Speech, survey: Survey) -> bool:
    if not _asks(speech):
        raise BadUsage("nothing was changed: this needs a yes", hint=f"sf revert {survey.unit_id} --yes")
    return click.confirm(f"revert {len(survey.steps)} commit(s) on {survey.branch}?")


def _tell(speech: Speech, undone: Undone) -> None:
    for item in undone.reverted:
        by = f"by {item.by[:10]}" if item.by else "was undone already"
        speech.say(f"reverted {item.commit[:10]} {by}  {printable(item.subject)}")
    if undone.new != undone.old:
        speech.say(f"{undone.branch} is at {undone.new[:10]}; it was at {undone.old[:10]}")
    if undone.marked:
        speech.say("no longer done: " + ", ".join(undone.marked))
    speech.say(f"→ {undone.next}")


@click.group()
def rescue() -> None:
    """Work that was not merged: list it, look at it, make a branch of it. Nothing is ever deleted."""


@rescue.command("list")
@click.option("--runs", is_flag=True, help="Also what each run of a unit without success left.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def list_(speech: Speech, runs: bool, as_json: bool) -> int:
    """What was parked because it is not on the branch, and what is about to be."""
    from sf.app import rescues

    found = rescues.listed(find_project(Path.cwd()), runs=runs)
    if speech.answer(found, as_json=as_json):
        return 0
    for folder in found.set_aside:
        speech.say(f"set aside from a worktree, for no commit can hold it: {printable(folder)}")
    if found.due:
        speech.say(f"ended, and what they leave is parked by sf auto, now or next: {', '.join(found.due)}")
    if not found.parked:
        told = "nothing is parked yet" if found.due else "nothing is parked"
        speech.say(told + ("" if runs else "; sf rescue list --runs looks at single runs too"))
        return 0
    header = ["id", "unit", "when", "files", "on the branch", "subject"]
    for line in table([_row(item) for item in found.parked], header):
        speech.say(line)
    speech.say("→ sf rescue show <id>, sf rescue restore <id>")
    return 0


def _row(item: Rescue) -> list[str]:
    return [
        item.id,
        item.unit_id or "unknown",
        rfc3339(item.at * 1000)[:16],
        str(item.files),
        "yes" if item.landed else "no",
        cells.cut(printable(item.subject), 60),
    ]


@rescue.command()
@click.argument("ref")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def show(speech: Speech, ref: str, as_json: bool) -> int:
    """One piece of work by its id, or the beginning of it: commits and changed files."""
    from sf.app import rescues

    found = rescues.shown(find_project(Path.cwd()), ref)
    if speech.answer(found, as_json=as_json):
        return 0
    item = found.rescue
    speech.say(f"{item.id}: {item.unit_id or 'unknown unit'} {item.title}".rstrip())
    speech.say(f"commit:  {item.commit}, {rfc3339(item.at * 1000)}, {printable(item.subject)}")
    speech.say(f"kept as: {item.ref}")
    speech.say(f"on the branch already: {'yes' if item.landed else 'no'}")
    for title, lines in (
        ("commits", [f"{commit.id[:10]} {printable(commit.subject)}" for commit in found.commits]),
        ("files", [f"{change.status} {printable(change.path)}" for change in found.changes]),
    ):
        if lines:
            speech.say(f"\n{title}:")
            for line in lines:
                speech.say(f"  {line}")
    speech.say(f"\n→ sf rescue restore {item.id}")
    return 0


@rescue.command()
@click.argument("ref")
@click.option("--branch", help="The name of the branch to make.  [default: rescue-<id>]")
@click.pass_obj
def restore(speech: Speech, ref: str, branch: str | None) -> int:
    """Make a branch of it in your repository. Your checkout stays as it is."""
    from sf.app import rescues

    made = rescues.restore(find_project(Path.cwd()), ref, branch)
    speech.answer(made, as_json=False)
    speech.say(f"branch {made.branch} is at {made.commit[:10]} ({printable(made.subject)})")
    speech.say(f"→ git switch {made.branch}, or git log -p {made.branch}")
    return 0
