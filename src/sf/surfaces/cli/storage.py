"""`sf store`: where the project's rows are kept."""

from __future__ import annotations

from pathlib import Path

import click

from sf.paths import find_project
from sf.surfaces.cli.speech import Speech


@click.group()
def store() -> None:
    """Move the project's rows to another database."""


@store.command()
@click.argument("url")
@click.option(
    "--others-gone",
    is_flag=True,
    help="Take along what other folders finished and never wound up: they are gone for good.",
)
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def migrate(speech: Speech, url: str, others_gone: bool, as_json: bool) -> int:
    """Copy every row to URL and say what to configure; the present store stays as it is.

    URL is "postgresql://user@host/database", a '$(command)' that prints one, or "sqlite" for .sf/sf.db.
    Nothing may run meanwhile, and the other store must be empty.
    """
    from sf.app.moving import move

    project = find_project(Path.cwd())
    moved = move(project, url, others_gone=others_gone)
    if speech.answer(moved, as_json=as_json):
        return 0
    rows = sum(moved.rows.values())
    speech.say(f"copied {rows} rows of {len(moved.rows)} tables from {moved.source} to {moved.target}")
    if moved.setting:
        speech.say("To use it, put this into .sf/config.toml, or into ~/.sf/config.toml if git tracks that:")
        speech.say(f"[store]\nurl = '{moved.setting}'")
    else:
        speech.say("To use it, remove [store] url from your configuration.")
    return 0
