"""Which tools an agent is shown in which phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sf.domain.dialogue import ToolSpec
from sf.domain.phases import WRITING, Phase
from sf.tools.apply_patch import ApplyPatch
from sf.tools.base import Tool
from sf.tools.bash import Bash
from sf.tools.chapter_open import ChapterOpen
from sf.tools.edit_file import EditFile
from sf.tools.git_diff import GitDiff
from sf.tools.grep import Grep
from sf.tools.list_files import ListFiles
from sf.tools.read_file import ReadFile
from sf.tools.recall import Recall
from sf.tools.write_file import WriteFile

READING: tuple[Tool[Any], ...] = (ReadFile(), ListFiles(), Grep(), GitDiff(), Recall())
CHANGING: tuple[Tool[Any], ...] = (WriteFile(), EditFile(), ApplyPatch(), Bash())


class Toolbox:
    """The tools of one run, by name."""

    def __init__(self, tools: Sequence[Tool[Any]]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def get(self, name: str) -> Tool[Any] | None:
        """The tool, or None."""
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """What there is."""
        return tuple(self._tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        """As the model sees them."""
        return tuple(tool.spec() for tool in self._tools.values())


def for_phase(phase: Phase, *submits: Tool[Any]) -> Toolbox:
    """Reading tools always, changing ones in writing phases, and the phase's own submissions."""
    changing = (*CHANGING, ChapterOpen()) if phase in WRITING else ()
    return Toolbox((*READING, *changing, *submits))
