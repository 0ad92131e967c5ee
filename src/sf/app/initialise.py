"""`sf init`: look at the repository, write .sf/, keep its state out of git. A second run changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sf import files
from sf.app import ignored, templates
from sf.app.stores import place_of
from sf.app.trust import require_own_folder
from sf.paths import Project, identify, project_at
from sf.store.connection import transact
from sf.store.place import Place
from sf.survey.dependencies import dependencies_of
from sf.survey.stack import Stack, stack_of
from sf.survey.tree import Tree
from sf.workspaces.git import Git
from sf.workspaces.repository import UserRepository

if TYPE_CHECKING:
    from sf.app.memories import Remembered
    from sf.survey.findings import Findings

_GATE = """\
#!/bin/sh
# A gate: exit 0 passes, 1 fails, 2 blocks, 3 says that it does not apply. It runs in the worktree.
set -e
{command}
"""

_UNITTEST_GATE = """\
#!/bin/sh
# A gate: exit 0 passes, 1 fails, 2 blocks, 3 says that it does not apply. It runs in the worktree.
log=$({command} 2>&1)
code=$?
printf '%s\\n' "$log"
[ "$code" -eq 0 ] || exit 1
# A run without tests proves nothing.
case "$log" in *"Ran 0 tests"*) echo "no tests were found"; exit 1 ;; esac
"""


_HOOKS = """
# Gates run in a fresh worktree: what git ignores is not there, such as what {needs} has installed.
# [harness.hooks]
# after_create = "npm ci"             # or whatever installs it
"""


class Initialised(msgspec.Struct, frozen=True):
    """What `sf init` found and wrote."""

    root: Path
    stack: Stack
    written: tuple[str, ...]
    needs: str = ""
    """A manifest of what must be installed before its gates can pass, when they were just written."""
    unwired: str = ""
    """Commands recognised since the configuration was written, which no gate runs."""
    survey: Findings | None = None
    """What the deep scan found, where it was made."""
    remembered: Remembered | None = None
    """What of it the memory has taken."""
    earlier: tuple[str, ...] = ()
    """Repositories with the work of an sf project that was in this folder and is gone."""
    trouble: str = ""
    """Why there was no deep scan although one was wanted."""


def initialise(root: Path) -> Initialised:
    """Set a repository up. Files that exist are left as they are."""
    project = project_at(root)
    files = asyncio.run(_opened(project))
    tree = Tree.of(project.root, files)
    stack, needs = stack_of(tree), _needs(tree)
    wanted = _files(stack, needs)
    require_own_folder(project.dot, files)
    unwired = ""
    if project.config.exists():
        needs = ""
        # The configuration is the user's by now: a gate that it does not name would only look like one.
        gates = [name for name in wanted if name.startswith("gates/") and not (project.dot / name).exists()]
        wanted = {name: wanted[name] for name in wanted if name not in gates}
        unwired = ", ".join(command for command in (stack.tests, stack.lint) if command) if gates else ""
    written = [name for name, (content, mode) in wanted.items() if _write(project.dot / name, content, mode)]
    identify(project)
    place = place_of(project)
    _forget_empty(place)
    if isinstance(place, Path) and not place.exists():
        written.append(place.name)
    transact(place, lambda tx: None)
    return Initialised(root, stack, tuple(written), needs, unwired, earlier=tuple(_earlier(project)))


async def _opened(project: Project) -> list[str]:
    """Have git leave sf's state alone, and return what it tracks."""
    user = await UserRepository.open(project.root, project.facade, Git())
    ignored.keep_out(user)
    return await user.tracked_files()


def _earlier(project: Project) -> list[str]:
    """sf's repositories of this folder whose project is gone from it, with whatever was not merged."""
    names = sorted((project.home / "repos").glob("*.folder"))
    found = [name.with_suffix(".git") for name in names if name.read_text().strip() == str(project.root)]
    return [str(path) for path in found if path != project.repository and path.exists()]


def _needs(tree: Tree) -> str:
    """The topmost manifest that names packages; empty when there is none."""
    return next((found.found_in for found in dependencies_of(tree)), "")


def _files(stack: Stack, needs: str) -> dict[str, tuple[str, int]]:
    """What a project gets, in this order: the configuration last, since from then on it is the user's."""
    gates = {}
    if stack.tests:
        form = _UNITTEST_GATE if "unittest" in stack.tests else _GATE
        gates["run-tests"] = form.format(command=stack.tests)
    if stack.lint:
        gates["lint"] = _GATE.format(command=stack.lint)
    return {
        ".gitignore": (ignored.FILE, 0o644),
        **{f"workflows/{name}.toml": (text, 0o644) for name, text in templates.BUILT_IN.items()},
        **{f"gates/{name}.sh": (text, 0o755) for name, text in gates.items()},
        "config.toml": (_config(stack, needs, list(gates)), 0o644),
    }


def _config(stack: Stack, needs: str, gates: list[str]) -> str:
    listed = ", ".join(f'"./.sf/gates/{name}.sh"' for name in gates)
    tests = '"./.sf/gates/run-tests.sh"' if "run-tests" in gates else ""
    languages = ", ".join(stack.languages) or "none recognised"
    missing = (
        ""
        if stack.tests
        else "\n# No test command was recognised. Work without a gate is not merged: write one.\n"
    )
    hooks = _HOOKS.format(needs=needs) if needs else ""
    return f"""\
# sf's configuration for this project; `sf config show` prints everything that is in force.
# Languages: {languages}

[harness]
default_workflow = "feature"
{missing}
[harness.gates]
post_task = [{tests}]
post_slice = [{listed}]
post_milestone = []
{hooks}
# Which models work here. Keys come from ANTHROPIC_API_KEY or OPENAI_API_KEY, or from
# [providers.<name>] api_key = "$(command)" in ~/.sf/config.toml.
[tiers.fast]
models = ["anthropic:claude-haiku-4-5"]
[tiers.standard]
models = ["anthropic:claude-sonnet-4-6"]
[tiers.reasoning]
models = ["anthropic:claude-opus-4-7"]
"""


def _write(path: Path, content: str, mode: int) -> bool:
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    files.put(path, content, mode)
    return True


def _forget_empty(place: Place) -> None:
    """A file of no bytes is what an sf that was killed at this very moment leaves."""
    if isinstance(place, Path) and place.is_file() and place.stat().st_size == 0:
        place.unlink()
