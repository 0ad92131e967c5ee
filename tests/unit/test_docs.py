"""What is not documented fails here: commands, configuration keys, hooks, error codes, links."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

import sf.app.intake
import sf.workspaces.refusals
from sf import errors
from sf.config.schema import Config, Section
from sf.harness.hooks import DEFAULT_TIMEOUTS
from sf.surfaces.cli.main import COMMANDS, SUMMARIES

ROOT = Path(__file__).parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _keys(kind: type[Section]) -> set[str]:
    found = set()
    for field, hint in typing.get_type_hints(kind).items():
        found.add(field)
        for inner in (hint, *typing.get_args(hint)):
            if isinstance(inner, type) and issubclass(inner, Section):
                found |= _keys(inner)
    return found


def test_every_configuration_key_is_documented() -> None:
    text = _text("docs/configuration.md")
    missing = {key for key in _keys(Config) if not re.search(rf"\b{re.escape(key)}\b", text)}
    assert missing == set()


def test_every_command_is_in_the_readme_and_in_the_help() -> None:
    readme = _text("README.md")
    assert {name for name in COMMANDS if f"sf {name}" not in readme} == set()
    assert set(SUMMARIES) == set(COMMANDS)


def test_every_hook_is_documented() -> None:
    text = _text("docs/configuration.md")
    assert {name for name in DEFAULT_TIMEOUTS if f"`{name}`" not in text} == set()


@pytest.mark.conforms("C-35")
def test_every_error_has_a_code_of_its_own_and_it_is_documented() -> None:
    def below(kind: type[errors.SfError]) -> list[type[errors.SfError]]:
        return [kind, *(deeper for child in kind.__subclasses__() for deeper in below(child))]

    kinds = below(errors.SfError)
    assert sf.app.intake.Queued in kinds
    assert sf.workspaces.refusals.CheckoutBusy in kinds
    text = _text("docs/errors.md")
    assert {kind.code for kind in kinds if f"`{kind.code}`" not in text} == set()


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
