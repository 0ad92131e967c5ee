"""`sf config`: check it, or show what is in force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from sf.app.trust import load_config
from sf.paths import find_project
from sf.surfaces.cli.speech import Speech


@click.group()
def config() -> None:
    """Check or show the configuration."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def check(speech: Speech, as_json: bool) -> int:
    """Read both files and list every problem; exit code 2 when there is one."""
    project = find_project(Path.cwd())
    load_config(project)
    if not speech.answer({"valid": True}, as_json=as_json):
        speech.say("the configuration is valid")
    return 0


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@click.pass_obj
def show(speech: Speech, as_json: bool) -> int:
    """Everything in force, defaults included. Secrets appear as the references they are."""
    project = find_project(Path.cwd())
    values = msgspec.to_builtins(load_config(project))
    if not speech.answer(values, as_json=as_json):
        for line in _lines(values, ""):
            speech.say(line)
    return 0


def _lines(table: dict[str, Any], prefix: str) -> list[str]:
    lines = []
    for key, value in table.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            lines += _lines(value, path + ".")
        else:
            lines.append(f"{path} = {msgspec.json.encode(value).decode()}")
    return lines
