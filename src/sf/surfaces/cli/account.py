"""`sf attention`, `sf reply` and `sf cost`: what waits for you, and what it has cost."""

from __future__ import annotations

from pathlib import Path

import click

from sf.domain.clock import brief_duration
from sf.domain.ids import full_id
from sf.paths import find_project
from sf.surfaces.cli import cells
from sf.surfaces.cli.look import parse_date
from sf.surfaces.cli.speech import Speech, count, money, table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def attention(speech: Speech, as_json: bool) -> int:
    """Everything that waits for you, and what each question takes as an answer."""
    from sf.app import accounts

    lines = accounts.questions(find_project(Path.cwd()))
    if speech.answer(lines, as_json=as_json):
        return 0
    if not lines:
        speech.say("nothing waits for you")
    for line in lines:
        where = line.unit_id or "the session"
        asked = f"asked {brief_duration(line.asked_ago_ms)} ago; {accounts.stays(line)}"
        speech.say(f"{speech.paint(line.id[-6:], 'bold')}  {where}: {line.kind} ({asked})")
        for text in line.question.splitlines():
            speech.say(f"        {text}")
        speech.say(f"        → sf reply {line.unit_id or line.id[-6:]} …   takes {line.takes}")
    return 0


@click.command()
@click.argument("question")
@click.argument("answer", nargs=-1, required=True)
@click.pass_obj
def reply(speech: Speech, question: str, answer: tuple[str, ...]) -> int:
    """Answer a QUESTION: by its id, the end of its id, or the id of its unit.

    `sf attention` lists the questions and what each takes; "abandon" calls the unit off.
    """
    from sf.app import intake

    text = " ".join(answer)
    given = intake.submit(
        find_project(Path.cwd()), "reply", {"question_id": full_id(question), "answer": text}
    )
    speech.answer(given, as_json=False)
    if "unit_id" not in given:
        speech.say("answered → sf auto")
    elif given["phase"] == "canceled":
        ending = given.get("running")
        speech.say(
            f"{given['unit_id']} is called off" + (f"; still ending: {', '.join(ending)}" if ending else "")
        )
    else:
        speech.say(f"{given['unit_id']} goes on in {given['phase']} → sf auto")
    return 0


@click.command()
@click.option(
    "--by",
    type=click.Choice(["unit", "phase", "model", "day"]),
    default="unit",
    show_default=True,
    help="How to add up; days are those of UTC.",
)
@click.option(
    "--since",
    help="Only what was spent on or after this date (YYYY-MM-DD, UTC), or this time with its offset.",
)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def cost(speech: Speech, by: str, since: str | None, as_json: bool) -> int:
    """What the models have cost, by unit, phase, model or day."""
    from sf.app import accounts

    report = accounts.cost(find_project(Path.cwd()), by, parse_date(since) or 0)  # type: ignore[arg-type]
    if speech.answer(report, as_json=as_json):
        return 0
    if not report.rows:
        speech.say("no model was asked yet")
        return 0
    lines = [
        [
            row["name"],
            cells.cut(row["title"] or "", 44),
            str(row["requests"]),
            count(row["input_tokens"]),
            count(row["output_tokens"]),
            money(row["cost_micro_usd"]),
        ]
        for row in report.rows
    ]
    heading = "day (UTC)" if by == "day" else by
    for line in table(lines, [heading, "", "requests", "in", "out", "cost"]):
        speech.say(line)
    speech.say(f"\n{report.requests} requests, {money(report.cost_micro_usd)}")
    if report.estimated_micro_usd:
        guessed = money(report.estimated_micro_usd)
        speech.say(f"of which {guessed} estimated: cut off, no figures, crashed or under way")
    if report.unpriced_requests:
        unknown = f"{report.unpriced_requests} requests have no known price and are not in this sum"
        speech.say(f"{unknown} → set providers.<name>.prices")
    return 0
