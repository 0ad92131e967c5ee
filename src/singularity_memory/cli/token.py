"""`token`: who may read and write which banks of a server."""

from __future__ import annotations

import datetime
from pathlib import Path

import click
import msgspec

from singularity_memory.cli.options import data_option
from singularity_memory.folder import Folder
from singularity_memory.operations import Scope
from singularity_memory.tokens import Tokens


@click.group()
def token() -> None:
    """Add, list and revoke tokens. A server that runs on the folder heeds a change at once."""


@token.command()
@click.argument("name")
@click.option("--bank", "banks", multiple=True, required=True, help="A bank, or a beginning: 'project/*'.")
@click.option("--read", "scopes", flag_value="read", multiple=True, help="It may recall.")
@click.option("--write", "scopes", flag_value="write", multiple=True, help="It may retain, judge and forget.")
@data_option
def add(name: str, banks: tuple[str, ...], scopes: tuple[Scope, ...], data: Path) -> None:
    """Make a token and print it, this once: only its hash is kept.

    \b
      singularity-memory token add ci --bank 'project/*' --read
      singularity-memory token add agent --bank project/app --bank global/coding --read --write
    """
    if not scopes:
        raise click.UsageError("say --read, --write or both")
    click.echo(Tokens(Folder(data.expanduser())).add(name, banks, scopes))


@token.command("list")
@click.option("--json", "as_json", is_flag=True)
@data_option
def list_(as_json: bool, data: Path) -> None:
    """The tokens by name, without themselves."""
    every = Tokens(Folder(data.expanduser())).every()
    if as_json:
        told = [
            {"name": one.name, "banks": one.banks, "scopes": one.scopes, "created_at": one.created_at}
            for one in every
        ]
        click.echo(msgspec.json.format(msgspec.json.encode(told), indent=2))
        return
    for one in every:
        made = datetime.datetime.fromtimestamp(one.created_at, datetime.UTC).date()
        click.echo(f"{one.name}  {'+'.join(one.scopes)}  {' '.join(one.banks)}  since {made}")


@token.command()
@click.argument("name")
@data_option
def revoke(name: str, data: Path) -> None:
    """Take a token back."""
    Tokens(Folder(data.expanduser())).revoke(name)
    click.echo(f"revoked {name}")
