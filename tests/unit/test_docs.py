"""What is not documented fails here: commands, configuration keys, hooks, error codes, links."""

from __future__ import annotations

import ast
import re
import tomllib
import typing
from pathlib import Path

import click
import msgspec
import pytest

import sf
import sf.app.intake
import sf.workspaces.refusals
from sf import errors
from sf.config.schema import Config, Section
from sf.domain.plans import SliceEntry, TaskEntry
from sf.domain.units import HoldKind
from sf.harness.hooks import DEFAULT_TIMEOUTS
from sf.surfaces.cli.main import COMMANDS, SUMMARIES
from sf.surfaces.cli.main import sf as commands
from sf.tools.chapter_open import ChapterOpen
from sf.tools.submissions import (
    Finding,
    MilestonePlan,
    Reassessment,
    ReviewNotes,
    SlicePlan,
    Synthesis,
    TaskPlan,
)
from sf.tools.toolbox import CHANGING, READING

ROOT = Path(__file__).parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

_OUTCOMES = {"Failed", "Interrupted", "CalledOff", "Waiting", "Unconfigured", "GateFailed", "Held"}


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


@pytest.mark.conforms("C-89")
def test_every_operator_command_is_there_with_its_help() -> None:
    """Those of the specification's list; `agent` comes with the persistent agents."""
    named = {"plan", "abandon", "auto", "next", "dispatch", "pause", "status", "revert", "doctor", "history"}
    named |= {
        "reassess-resolve",
        "force-clear",
        "merge-resolve",
        "uat-approve",
        "uat-reject",
        "clean",
        "resume",
    }
    context = click.Context(commands)
    for name in sorted(named):
        command = commands.get_command(context, name)
        assert command is not None and command.help, name


@pytest.mark.conforms("C-92")
def test_the_version_is_one_of_semver_and_the_changelog_says_what_that_means() -> None:
    assert re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-[0-9A-Za-z.-]+)?", sf.__version__)
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    changes = _text("CHANGELOG.md")
    newest = re.search(r"^## (\S+)", changes, re.MULTILINE)
    assert newest is not None and newest[1] == project["version"] == sf.__version__
    policy = " ".join(changes.partition("\n## ")[0].split())
    assert "SemVer 2.0" in policy
    frozen = ("data model", "phases", "life of a run", "hooks", "configuration", "conformance")
    assert [part for part in frozen if part not in policy] == []


def _told(kind: type[msgspec.Struct]) -> set[str]:
    """What the page says of a struct's fields: their names, with the value of those that have one."""
    written = {
        field.name: "" if field.required else f" = {msgspec.json.encode(field.default).decode()}"
        for field in msgspec.structs.fields(kind)
    }
    return {f"`{name}{value}`" for name, value in written.items()}


def test_every_tool_and_its_arguments_are_in_the_page_of_the_scripted_model() -> None:
    rows = [line for line in _text("docs/scripted-model.md").splitlines() if line.startswith("| `")]
    page = {line.split("`")[1]: line for line in rows}
    forms: dict[str, type[msgspec.Struct]] = {
        tool.name: tool.parameters for tool in (*READING, *CHANGING, ChapterOpen())
    }
    forms |= {
        "submit_review": ReviewNotes,
        "submit_synthesis": Synthesis,
        "submit_reassessment": Reassessment,
    }
    forms |= {"slices": SliceEntry, "tasks": TaskEntry, "findings": Finding}
    missing = {(name, told) for name, form in forms.items() for told in _told(form) if told not in page[name]}
    assert missing == set()
    whole = _text("docs/scripted-model.md").partition("`submit_plan` has besides")
    for form in (MilestonePlan, SlicePlan, TaskPlan):
        assert {told for told in _told(form) if told not in page["submit_plan"] + whole[2]} == set()


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


def _recorded_codes(node: ast.AST) -> set[str]:
    """The codes that are written out where an outcome is made, or where outcomes are recorded."""
    if isinstance(node, ast.FunctionDef) and "RunOutcome" in ast.unparse(node.returns or node.args):
        parts: list[ast.AST] = [node]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OUTCOMES:
        parts = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "code")]
    else:
        return set()
    inner = [item for part in parts for item in ast.walk(part)]
    texts = {item.value for item in inner if isinstance(item, ast.Constant) and isinstance(item.value, str)}
    return {text for text in texts if re.fullmatch("[a-z_]+", text)} | {
        HoldKind[item.attr].value
        for item in inner
        if isinstance(item, ast.Attribute) and ast.unparse(item.value) == "HoldKind"
    }


def test_every_code_that_a_run_can_get_is_documented() -> None:
    found: set[str] = set()
    for file in sorted((ROOT / "src/sf").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            found |= _recorded_codes(node)
    assert {"shutdown", "replans_exhausted", "giving_up", "gate_timeout", "no_evidence"} <= found
    text = _text("docs/errors.md")
    assert {code for code in found if f"`{code}`" not in text} == set()


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
