"""Where a project's rows are kept: its own file, or the server that the configuration names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sf.errors import InvalidConfig, InvalidWorkflow, UnsafeConfig
from sf.paths import Project
from sf.store import place as places
from sf.store.place import Place, Url

if TYPE_CHECKING:
    from sf.config.schema import Config


def place_of(project: Project) -> Place:
    """The project's store, for a command that needs nothing else of the configuration.

    Files that never say `store` name none, and are not read further: `sf status` must stay quick.
    """
    mark = _mark(project)
    if not mark.exists() and not any(map(_mentions_store, (project.global_config, project.config))):
        return project.database
    from sf.app.trust import load_config

    try:
        return chosen(project, load_config(project))
    except UnsafeConfig:
        raise
    except (InvalidConfig, InvalidWorkflow) as error:
        # An autopilot at work goes on with what it read when it was usable: its rows can still be told.
        url = _named_alone(project)
        if url is None or (not url and mark.exists()):
            raise error from None
        return from_url(project, url) if url else project.database


def remember(project: Project, place: Place) -> None:
    """Keep whether rows are on a server: a configuration that is half saved may say nothing of one."""
    if isinstance(place, Url):
        project.runtime.mkdir(parents=True, exist_ok=True)
        _mark(project).touch()
    else:
        _mark(project).unlink(missing_ok=True)


def _mark(project: Project) -> Path:
    return project.runtime / "on-a-server"


def chosen(project: Project, config: Config) -> Place:
    """The store that a configuration means."""
    if not config.store.url:
        return project.database
    return from_url(project, config.store.url)


def from_url(project: Project, url: str) -> Url:
    """The store at a url, or at the url that a `$(command)` prints.

    Each project has a schema of its own there, unless the url names one.
    """
    if places.is_reference(url):
        from sf.secrets import from_command

        url = from_command("the command of store.url", url)
    wrong = places.problem(url)
    if wrong:
        raise InvalidConfig(f"store.url {wrong}")
    return Url(places.canonical(url), schema="" if places.names_schema(url) else _schema(project))


def _named_alone(project: Project) -> str | None:
    """The url that the configuration names, whatever else is wrong with it; None where nobody can tell."""
    from sf.app.trust import is_tracked
    from sf.config.load import read_toml

    url = ""
    for file in (project.global_config, project.config):
        problems: list[str] = []
        section = read_toml(file, problems).get("store", {})
        named = section.get("url", "") if isinstance(section, dict) else None
        if (problems and _mentions_store(file)) or not isinstance(named, str):
            return None
        if named and file == project.config and is_tracked(project, file):
            # It came with the repository, and may not make sf contact anything.
            return None
        url = named if "url" in section else url
    return url


def _schema(project: Project) -> str:
    return "sf_" + re.sub(r"[^a-z0-9]+", "_", project.key.lower())[-50:]


def _mentions_store(file: Path) -> bool:
    try:
        return b"store" in file.read_bytes()
    except OSError:
        return False
