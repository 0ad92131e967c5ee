"""Steering: pause, resume, abandon, and the answers that units wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sf.paths import find_project
from sf.surfaces.cli.speech import Speech


def _submit(kind: str, **payload: Any) -> dict[str, Any]:
    from sf.app import intake

    return intake.submit(find_project(Path.cwd()), kind, payload)


def _told(speech: Speech, answer: dict[str, Any], text: str) -> int:
    speech.answer(answer, as_json=False)
    speech.say(text)
    return 0


@click.command()
@click.argument("reason", default="")
@click.pass_obj
def pause(speech: Speech, reason: str) -> int:
    """Pause: running turns end, nothing is lost or charged."""
    answer = _submit("pause", reason=reason)
    return _told(speech, answer, f"{_paused(answer)} → sf resume lifts it")


def _paused(answer: dict[str, Any]) -> str:
    from sf.app import reports

    report = reports.status(find_project(Path.cwd()))
    running = sum(unit.standing == "running" for unit in report.running)
    if running:
        return "pausing: " + ("one run ends" if running == 1 else f"{running} runs end") + " after this turn"
    return "paused already" if answer.get("already") else "paused"


@click.command()
@click.pass_obj
def resume(speech: Speech) -> int:
    """Lift a pause; `sf auto` then goes on."""
    from sf.app import reports

    paused = reports.status(find_project(Path.cwd())).session == "paused"
    answer = _submit("resume")
    return _told(speech, answer, "resumed → sf auto goes on" if paused else "nothing was paused")


@click.command(epilog='for example: sf abandon slice/m1/s2 "not needed any more"')
@click.argument("unit_id")
@click.argument("reason")
@click.option("--now", is_flag=True, help="Stop a running turn at once instead of after it.")
@click.pass_obj
def abandon(speech: Speech, unit_id: str, reason: str, now: bool) -> int:
    """Call a unit off, with everything below it.

    Its work is not lost: the next `sf auto`, or the one that runs, parks it for `sf rescue list`.
    """
    answer = _submit("abandon", unit_id=unit_id, reason=reason, now=now)
    running = answer["running"]
    text = f"{answer['unit_id']} is called off" + (f"; still ending: {', '.join(running)}" if running else "")
    return _told(speech, answer, f"{text}; sf auto parks what it leaves → sf rescue list")


@click.command("reassess-resolve", epilog='for example: sf reassess-resolve task/m1/s1/t2 "use the old API"')
@click.argument("unit_id")
@click.argument("answer")
@click.pass_obj
def reassess_resolve(speech: Speech, unit_id: str, answer: str) -> int:
    """Answer the question of a unit that escalated or is blocked; the agent reads your words."""
    given = _submit("reassess_resolve", unit_id=unit_id, answer=answer)
    return _told(speech, given, f"{unit_id} goes on in {given['phase']}")


@click.command("uat-approve")
@click.argument("unit_id")
@click.pass_obj
def uat_approve(speech: Speech, unit_id: str) -> int:
    """Accept a unit that waits for acceptance."""
    answer = _submit("uat_approve", unit_id=unit_id)
    return _told(speech, answer, f"{unit_id} goes on in {answer['phase']}")


@click.command("uat-reject", epilog='for example: sf uat-reject slice/m1/s2 "the button does nothing"')
@click.argument("unit_id")
@click.argument("reason")
@click.pass_obj
def uat_reject(speech: Speech, unit_id: str, reason: str) -> int:
    """Refuse a unit that waits for acceptance; it is reassessed with your reason."""
    answer = _submit("uat_reject", unit_id=unit_id, reason=reason)
    return _told(speech, answer, f"{unit_id} goes to {answer['phase']}")


@click.command("merge-resolve")
@click.argument("unit_id")
@click.pass_obj
def merge_resolve(speech: Speech, unit_id: str) -> int:
    """Try the merge of a unit again, after you resolved the conflict in its worktree."""
    answer = _submit("merge_resolve", unit_id=unit_id)
    return _told(speech, answer, f"{unit_id} is merged again with the next sf auto")


@click.command("force-clear")
@click.argument("blocker_id")
@click.pass_obj
def force_clear(speech: Speech, blocker_id: str) -> int:
    """Clear a blocker without an answer, by its id or the end of it, as `sf status` shows it."""
    answer = _submit("force_clear", blocker_id=blocker_id)
    goes_on = f"; {answer.get('unit_id')} goes on in {answer.get('phase')} (→ sf auto, unless one runs)"
    where = goes_on if answer.get("unit_id") else ""
    return _told(speech, answer, f"cleared{where}")
