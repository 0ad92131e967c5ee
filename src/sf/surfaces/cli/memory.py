"""`sf memory`: what earlier work taught."""

from __future__ import annotations

from pathlib import Path

import click

from sf.domain.excerpt import printable
from sf.paths import find_project
from sf.surfaces.cli.speech import Speech, table


@click.group()
def memory() -> None:
    """What earlier work taught this project, and what every project is told.

    Agents are told the best of it before they start; docs/remembering.md says what is kept, and when.
    """


@memory.command()
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--most", "-n", type=click.IntRange(1, 50), default=10, show_default=True, help="At most so many."
)
@click.option("--all", "everything", is_flag=True, help="Also what is too far from it to be told.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def recall(speech: Speech, query: tuple[str, ...], most: int, everything: bool, as_json: bool) -> int:
    """What an agent would be told about QUERY, best first."""
    from sf.app import memories

    found = memories.recall(find_project(Path.cwd()), " ".join(query), most, everything=everything)
    if speech.answer(found, as_json=as_json):
        return 0
    if not found:
        speech.say("nothing is known about that")
    for entry in found:
        marks = " · avoid" if "is_negative:true" in entry.tags else ""
        where = "every project" if entry.bank.startswith("global/") else "this project"
        speech.say(f"{speech.paint(entry.id, 'bold')}  {entry.score:.3f}  {where}{marks}")
        for line in entry.content.splitlines():
            speech.say(f"    {printable(line)}")
    return 0


@memory.command()
@click.argument("text", nargs=-1, required=True)
@click.option("--tag", "tags", multiple=True, help="A tag such as area:parser; may be given several times.")
@click.option("--everywhere", is_flag=True, help="For every project, not only this one.")
@click.pass_obj
def retain(speech: Speech, text: tuple[str, ...], tags: tuple[str, ...], everywhere: bool) -> int:
    """Keep TEXT for later runs."""
    from sf.app import memories

    kept = memories.retain(find_project(Path.cwd()), " ".join(text), tags, everywhere=everywhere)
    speech.say(f"kept as {kept}")
    return 0


@memory.command()
@click.argument("ids", nargs=-1, required=True)
@click.pass_obj
def forget(speech: Speech, ids: tuple[str, ...]) -> int:
    """Remove entries by the IDS that `sf memory recall` shows."""
    from sf.app import memories

    gone = memories.forget(find_project(Path.cwd()), ids)
    speech.say(f"forgot {gone} of {len(ids)}")
    return 0


@memory.command()
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def stats(speech: Speech, as_json: bool) -> int:
    """Where the memory is, what it holds, and what waits to be delivered."""
    from sf.app import memories

    found = memories.stats(find_project(Path.cwd()))
    if speech.answer(found, as_json=as_json):
        return 0
    speech.say(f"{found.place}, searched with {found.embedder}")
    rows = [
        [
            each.bank + (" (this project)" if each.bank == found.bank else ""),
            str(each.entries),
            str(each.negative),
        ]
        for each in found.banks
    ]
    for line in table(rows, ["bank", "entries", "mistakes"]):
        speech.say(line)
    if found.waiting:
        speech.say(f"{found.waiting} lesson(s) wait to be delivered: {found.error or 'not tried yet'}")
    return 0
