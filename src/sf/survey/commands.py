"""The commands that test and lint a project, where each was found and how sure that is.

`sf init` makes gates of the first of each kind that is more than a guess, so their order is one of
preference. What needs a network, or a folder that git does not track, is a guess: gates have neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from sf.survey.tree import Tree, table
from sf.survey.wording import plain, shown

Purpose = Literal["test", "lint", "types", "build"]
Surety = Literal["sure", "likely", "guess"]

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_PYTHON_TEST = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
_MAKE_TARGETS: dict[str, Purpose] = {
    "test": "test",
    "tests": "test",
    "check": "test",
    "lint": "lint",
    "typecheck": "types",
    "build": "build",
}
_NPM_SCRIPTS: dict[str, Purpose] = {"test": "test", "lint": "lint", "typecheck": "types", "build": "build"}
_LOOKED_INTO = 20


class Command(msgspec.Struct, frozen=True):
    """A command for one purpose, and what says so."""

    purpose: Purpose
    command: str
    found_in: str
    surety: Surety


def commands_of(tree: Tree) -> tuple[Command, ...]:
    """Every command that the files at the top name or imply, the ones to prefer first."""
    found: dict[tuple[Purpose, str], Command] = {}
    for read in (_make, _npm, _others, _python_tests, _python_checks, _guesses):
        for command in read(tree):
            found.setdefault((command.purpose, command.command), command)
    return tuple(found.values())


def make_targets(tree: Tree, name: str) -> list[str]:
    """The targets that a makefile has in plain words, in order."""
    return re.findall(r"^([A-Za-z][\w-]{0,60})[ \t]*:(?![=:])", tree.text(name), re.MULTILINE)


def npm_scripts(tree: Tree, name: str) -> dict[str, str]:
    """The scripts of a package.json."""
    scripts = table(tree.json(name).get("scripts"))
    return {key: value for key, value in scripts.items() if isinstance(value, str)}


def _make(tree: Tree) -> Iterator[Command]:
    name = next((name for name in MAKEFILES if name in tree.present), "")
    targets = set(make_targets(tree, name)) if name else set()
    for target, purpose in _MAKE_TARGETS.items():
        if target in targets and not (target == "check" and {"test", "tests"} & targets):
            yield Command(purpose, f"make {target}", name, "likely" if target == "check" else "sure")


def _npm(tree: Tree) -> Iterator[Command]:
    for script, line in npm_scripts(tree, "package.json").items():
        purpose = _NPM_SCRIPTS.get(script)
        if purpose and line and "no test specified" not in line:
            called = "npm test --silent" if script == "test" else f"npm run {script} --silent"
            yield Command(purpose, called, "package.json", "sure")


def _others(tree: Tree) -> Iterator[Command]:
    for manifest, purpose, command, surety in _IMPLIED:
        if manifest in tree.present:
            yield Command(purpose, command, manifest, surety)
    if "phpunit.xml" in tree.present or "phpunit.xml.dist" in tree.present:
        found = "phpunit.xml" if "phpunit.xml" in tree.present else "phpunit.xml.dist"
        yield Command("test", "vendor/bin/phpunit", found, "guess")


_IMPLIED: tuple[tuple[str, Purpose, str, Surety], ...] = (
    ("Cargo.toml", "test", "cargo test --offline", "sure"),
    ("go.mod", "test", "go test ./...", "sure"),
    ("pom.xml", "test", "mvn --offline --quiet test", "guess"),
    ("gradlew", "test", "./gradlew --offline test", "guess"),
    (".rspec", "test", "bundle exec rspec", "guess"),
    (".golangci.yml", "lint", "golangci-lint run", "guess"),
    ("clippy.toml", "lint", "cargo clippy --offline -- -D warnings", "guess"),
    (".rubocop.yml", "lint", "bundle exec rubocop", "guess"),
)


def _python_tests(tree: Tree) -> Iterator[Command]:
    tests = [name for name in tree.own if _PYTHON_TEST.search(name)]
    if not tests:
        return
    said = _says_pytest(tree)
    if not said:
        said = next((name for name in tests[:_LOOKED_INTO] if "import pytest" in tree.text(name)), "")
    if said:
        yield Command("test", "python3 -m pytest -q", shown(said), "sure")
    elif any(name.startswith("tests/") for name in tests):
        yield Command("test", "python3 -m unittest discover -s tests -t .", "tests/", "likely")
    else:
        yield Command("test", "python3 -m unittest discover", shown(tests[0]), "likely")


def _says_pytest(tree: Tree) -> str:
    """The file that says that tests are pytest's; empty when none does."""
    if "pytest" in table(tree.toml("pyproject.toml").get("tool")):
        return "pyproject.toml"
    if "pytest.ini" in tree.present:
        return "pytest.ini"
    for name in ("setup.cfg", "tox.ini"):
        if re.search(r"^\[(tool:)?pytest\]", tree.text(name), re.MULTILINE):
            return name
    return next((name for name in tree.own if PurePosixPath(name).name == "conftest.py"), "")


_PYTHON_TOOLS: tuple[tuple[str, tuple[str, ...], Purpose, str], ...] = (
    ("ruff", ("ruff.toml", ".ruff.toml"), "lint", "ruff check ."),
    ("flake8", (".flake8",), "lint", "flake8"),
    ("mypy", ("mypy.ini", ".mypy.ini"), "types", "mypy"),
    ("pyright", ("pyrightconfig.json",), "types", "pyright"),
)


def _python_checks(tree: Tree) -> Iterator[Command]:
    tools = table(tree.toml("pyproject.toml").get("tool"))
    for tool, files, purpose, command in _PYTHON_TOOLS:
        found = [name for name in files if name in tree.present]
        if tool in tools or found:
            yield Command(purpose, command, "pyproject.toml" if tool in tools else found[0], "sure")


_HINTS = (
    ("tox.ini", r"", "tox"),
    ("noxfile.py", r"", "nox"),
    ("justfile", r"^test\b", "just test"),
    ("CMakeLists.txt", r"\benable_testing\b", "ctest --test-dir build"),
)


def _guesses(tree: Tree) -> Iterator[Command]:
    """What may well test the project but may need a network, a build, or more than one interpreter."""
    for name, pattern, command in _HINTS:
        if name in tree.present and re.search(pattern, tree.text(name), re.MULTILINE):
            yield Command("test", command, name, "guess")
    if any("/" not in name and name.endswith(".sln") for name in tree.own):
        yield Command("test", "dotnet test", "*.sln", "guess")
    for workflow in [name for name in tree.own if name.startswith(".github/workflows/")][:10]:
        for line in re.findall(
            r"^[ \t]*(?:-[ \t]+)?run:[ \t]*(\S[^\n]{0,100})$", tree.text(workflow), re.MULTILINE
        ):
            if re.search(r"\b(pytest|unittest|tox|nox|npm test|go test|cargo test|rspec|phpunit)\b", line):
                yield Command("test", plain(line, 100), shown(workflow), "guess")
