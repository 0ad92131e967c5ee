"""Playbooks: what a scripted model says and does, per phase and unit, with faults on demand.

docs/scripted-model.md describes the format.
"""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sf.errors import InvalidPlaybook

Fault = Literal["stall", "drop", "server_error", "rate_limit", "empty", "malformed", "unavailable"]


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tool call of a scripted turn."""

    tool: str
    arguments: dict[str, Any] = {}


class ScriptedTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"calls": "call"}):
    """One reply: words, calls, or a fault in their place."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    fault: Fault | None = None
    seconds: float = 0.0
    """For `stall`: how long; for `rate_limit`: the retry-after."""


class Scene(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"turns": "turn"}):
    """What happens in one conversation: which phase, which unit titles, which visits of that phase."""

    phase: str
    turns: tuple[ScriptedTurn, ...]
    unit: str = "*"
    visits: tuple[int, ...] = ()


class ScriptedPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens: what the playbook's turns pretend to cost."""

    input: Annotated[float, Meta(ge=0, le=1e9)]
    output: Annotated[float, Meta(ge=0, le=1e9)]


class Playbook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"scenes": "scene"}):
    """A whole script."""

    scenes: tuple[Scene, ...]
    name: str = ""
    latency_ms: int = 0
    price: ScriptedPrice | None = None

    def find(self, phase: str, title: str, visit: int) -> Scene | None:
        """The first scene that fits."""
        for scene in self.scenes:
            fits = fnmatch.fnmatchcase(phase, scene.phase) and fnmatch.fnmatchcase(title, scene.unit)
            if fits and (not scene.visits or visit in scene.visits):
                return scene
        return None


def parse(text: str, source: str) -> Playbook:
    """Read a playbook. Raises InvalidPlaybook."""
    try:
        return msgspec.convert(tomllib.loads(text), Playbook)
    except tomllib.TOMLDecodeError as error:
        raise InvalidPlaybook(f"{source}: not valid TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise InvalidPlaybook(f"{source}: {error}") from None


def load(path: Path) -> Playbook:
    """Read a playbook file."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InvalidPlaybook(f"cannot read {path}: {error.strerror}") from None
