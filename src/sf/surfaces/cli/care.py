"""Taking care of a project: doctor, clean, session."""

from __future__ import annotations

from pathlib import Path

import click

from sf.domain.clock import rfc3339
from sf.domain.sizes import told
from sf.paths import find_project
from sf.surfaces.cli.speech import Speech, money, table


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.option(
    "--gates", is_flag=True, help="Also run every gate once, on a fresh checkout of the code as it is."
)
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, gates: bool) -> int:
    """Check configuration, workflows, gates, hooks, database, rows, git, worktrees, sandbox and keys.

    Exit code 0 when everything passes, 1 when anything warns or fails.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from sf.app.doctor import examine

    speech: Speech = ctx.obj
    project = find_project(Path.cwd())
    checks = examine(project)
    if gates:
        from sf.app.trying import try_gates

        checks += try_gates(project)
    if not speech.answer(checks, as_json=as_json):
        for check in checks:
            mark = {"pass": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}[
                check.verdict
            ]
            speech.say(f"{speech.paint(*mark)}  {check.name:<14} {check.detail}")
    return 0 if all(check.verdict == "pass" for check in checks) else 1


@doctor.command()
@click.option("--dry-run", is_flag=True, help="Only show what would be repaired.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def fix(speech: Speech, dry_run: bool, as_json: bool) -> int:
    """Put right every row that breaks a rule, where only one value can be right.

    Nothing may run meanwhile. Exit code 1 when something is left that only you can decide.
    """
    from sf.app.mending import mend

    mended = mend(find_project(Path.cwd()), dry_run=dry_run)
    if not speech.answer(mended, as_json=as_json):
        for line in mended.repaired:
            speech.say(f"{'would repair' if dry_run else 'repaired'}  {line}")
        for line in mended.left:
            speech.say(f"left to you  {line}")
        if not mended.repaired and not mended.left:
            speech.say("nothing to repair")
    return 1 if mended.left else 0


@click.group()
def session() -> None:
    """The project's sessions: [budget] session_usd is counted for each by itself."""


@session.command("list")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def list_(speech: Speech, as_json: bool) -> int:
    """Every session: when it began and ended, what was done in it, what it cost."""
    from sf.app import periods

    found = periods.listed(find_project(Path.cwd()))
    if speech.answer(found, as_json=as_json):
        return 0
    if not found:
        speech.say("there is no session yet: sf plan or sf auto begins one")
        return 0
    rows = [
        [
            line.id,
            rfc3339(line.started_at)[:16],
            rfc3339(line.ended_at)[:16] if line.ended_at is not None else "",
            line.status,
            f"{line.done} / {line.units}",
            money(line.cost_micro_usd),
        ]
        for line in found
    ]
    for text in table(rows, ["session", "began", "ended", "status", "units done", "cost"]):
        speech.say(text)
    return 0


@session.command()
@click.option("--force", is_flag=True, help="Even with open units; the next session takes them over.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def end(speech: Speech, force: bool, as_json: bool) -> int:
    """End the present session; the next `sf plan` or `sf auto` begins one with an account of its own."""
    from sf.app import periods

    ended = periods.end(find_project(Path.cwd()), force=force)
    if not speech.answer(ended, as_json=as_json):
        carried = f"; {ended.carried} open unit(s) go on in the next one" if ended.carried else ""
        speech.say(f"session {ended.session_id} has ended{carried}")
    return 0


@click.command()
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def clean(speech: Speech, dry_run: bool, as_json: bool) -> int:
    """Archive old traces, put leftover worktrees away, pack sf's repository, vacuum the database.

    Work that is not merged is kept under refs/sf/rescue/. Nothing may run meanwhile.
    """
    from sf.app.tidying import clean as tidy

    steps = tidy(find_project(Path.cwd()), dry_run=dry_run)
    if not speech.answer(steps, as_json=as_json):
        for step in steps:
            size = f" ({told(step.size)})" if step.size else ""
            mark = "would " if dry_run else "FAILED to " if step.failed else ""
            note = f": {step.note}" if step.note else ""
            speech.say(f"{mark}{step.what} {step.subject}{size}{note}")
        if not steps:
            speech.say("nothing to tidy up")
    return 1 if any(step.failed for step in steps) else 0
