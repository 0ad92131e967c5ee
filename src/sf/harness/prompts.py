"""Prompts: one file per phase, rendered strictly: an unknown variable in a template stops the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import msgspec

from sf.errors import InvalidPrompt, PromptFailed

_FOLDER = Path(__file__).parent / "prompts"
_DIVIDER = "=====\n"

VARIABLES = frozenset(
    {
        "unit_id",
        "unit_type",
        "phase",
        "attempt",
        "session_id",
        "issue",
        "last_error",
        "context",
        "attempts",
        "research",
        "plan",
        "gates",
        "allowed_areas",
        "forbidden_areas",
        "folder",
        "diff",
        "summary",
        "chunk",
        "findings",
        "reason",
        "replans_left",
        "chapters",
    }
)
"""What every phase's template is given; names outside this set are errors."""

_OTHER: dict[str, frozenset[str]] = {
    "continuation.md": frozenset({"missing"}),
    "pivot.md": frozenset({"turns"}),
    "compaction.md": frozenset({"prompt", "chapter", "diff", "known"}),
    "_known.md": frozenset({"memories", "mistakes"}),
}


class Prompt(msgspec.Struct, frozen=True):
    """A rendered phase: the standing instructions, the task itself, and what memory adds to it."""

    instructions: str
    task: str
    known: str = ""

    @property
    def opening(self) -> str:
        """The first message."""
        return f"{self.task}\n\n{self.known}" if self.known else self.task


class Prompts:
    """The templates of one folder, all checked when it is opened."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(folder),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
        )
        for name in self._environment.list_templates(filter_func=lambda name: name.endswith(".md")):
            self._check(name)

    def _check(self, name: str) -> None:
        loader = self._environment.loader
        assert loader is not None
        source = loader.get_source(self._environment, name)[0]
        try:
            used = jinja2.meta.find_undeclared_variables(self._environment.parse(source))
        except jinja2.TemplateSyntaxError as error:
            raise InvalidPrompt(f"prompt {name}: line {error.lineno}: {error.message}") from None
        unknown = sorted(used - _OTHER.get(name, VARIABLES))
        if unknown:
            raise InvalidPrompt(f"prompt {name} names unknown variable(s): {', '.join(unknown)}")

    def phase(self, name: str, variables: dict[str, Any]) -> Prompt:
        """Render a phase's file. Every variable must be given."""
        text = self._render(f"{name}.md", {**dict.fromkeys(VARIABLES), **variables})
        instructions, divider, task = text.partition(_DIVIDER)
        if not divider:
            raise PromptFailed(f"prompt {name} has no line of equal signs")
        return Prompt(instructions.strip(), task.strip())

    def continuation(self, missing: str) -> str:
        """The short guidance of a later turn; it never repeats the task."""
        return self._render("continuation.md", {"missing": missing}).strip()

    def pivot(self, turns: int) -> str:
        """What an agent is told whose turns change nothing."""
        return self._render("pivot.md", {"turns": turns}).strip()

    def known(self, variables: dict[str, Any]) -> str:
        """What is told from memory; empty when there is nothing."""
        return self._render("_known.md", variables).strip()

    def compaction(self, *, prompt: str, chapter: str, diff: str, known: str = "") -> str:
        """The first message of a fresh window; `known` is what was recalled for it."""
        given = {"prompt": prompt, "chapter": chapter, "diff": diff, "known": known}
        return self._render("compaction.md", given).strip()

    def _render(self, name: str, variables: dict[str, Any]) -> str:
        try:
            return self._environment.get_template(name).render(variables)
        except jinja2.TemplateError as error:
            raise PromptFailed(f"prompt {name}: {error}") from error
