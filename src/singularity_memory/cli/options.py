"""Options that several commands have: where the memory is, and how it embeds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from singularity_memory.embedders.factory import NAMES, Choice

F = TypeVar("F", bound=Callable[..., Any])
KEY_VARIABLE = "SINGULARITY_MEMORY_EMBEDDER_KEY"


def default_data() -> Path:
    """Where a memory is when nobody says."""
    return Path.home() / ".singularity-memory"


def data_option(command: F) -> F:
    """`--data`."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="SINGULARITY_MEMORY_DATA",
        default=default_data,
        help="The data folder, made when there is none. [~/.singularity-memory]",
    )(command)


def embedder_options(command: F) -> F:
    """`--store`, and `--embedder` with what belongs to it."""
    for decorate in (
        click.option("--embedder-url", default="", help="Where an openai or ollama embedder is."),
        click.option("--embedder-model", default="", help="Its model."),
        click.option(
            "--embedder",
            type=click.Choice(NAMES),
            default="sentence",
            show_default=True,
            help=f"What finds by meaning; the key of a remote one is in ${KEY_VARIABLE}.",
        ),
        click.option(
            "--store",
            default="",
            envvar="SINGULARITY_MEMORY_STORE",
            help="A PostgreSQL address, not the folder's own file; better in $SINGULARITY_MEMORY_STORE.",
        ),
    ):
        command = decorate(command)
    return command


def choice(embedder: str, model: str, url: str) -> Choice:
    """The embedder that the options name."""
    return Choice(name=embedder, model=model, url=url, key=os.environ.get(KEY_VARIABLE, ""))


class Place(NamedTuple):
    """Where a memory is: on a folder, or behind a server's address."""

    data: Path
    store: str
    embedder: Choice
    url: str
    token_file: Path | None


def place_options(command: F) -> F:
    """All options of a command that works on a folder or on a server, given to it as one `place`."""

    def gathered(**values: Any) -> Any:
        chosen = choice(values.pop("embedder"), values.pop("embedder_model"), values.pop("embedder_url"))
        url, token_file = values.pop("url"), values.pop("token_file")
        place = Place(values.pop("data"), values.pop("store"), chosen, url, token_file)
        return command(place=place, **values)

    gathered.__name__, gathered.__doc__ = command.__name__, command.__doc__
    gathered.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    made: Any = embedder_options(data_option(gathered))
    for decorate in (
        click.option(
            "--token-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The file with the token for --url; else $SINGULARITY_MEMORY_TOKEN.",
        ),
        click.option("--url", default="", help="Ask a server, such as http://127.0.0.1:7843, not a folder."),
    ):
        made = decorate(made)
    return made  # type: ignore[no-any-return]
