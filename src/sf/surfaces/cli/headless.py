"""`sf headless <command>`: one JSON event per line, a result line at the end."""

from __future__ import annotations

import contextlib
import io

import click

from sf.surfaces.cli.speech import Speech


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, required=True)
def headless(arguments: tuple[str, ...]) -> int:
    """Run any command for a program: JSON events, then `{"event": "result", …}`."""
    from sf.surfaces.cli.main import run

    speech = Speech(headless=True)
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        code = run(arguments, speech)
    speech.event(
        "result", ok=code == 0, exit_code=code, data=speech.result, error=errors.getvalue().strip() or None
    )
    return code
