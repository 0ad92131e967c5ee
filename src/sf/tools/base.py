"""The shape of a tool, of its answer, and of the place it works in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from sf.domain.dialogue import ToolSpec
from sf.domain.excerpt import head_and_tail

Needs = Literal["read", "write", "exec", "submit"]
A = TypeVar("A", bound=msgspec.Struct)
_TEXT_LIMIT = 30_000


class ContentItem(msgspec.Struct, frozen=True):
    """One piece of a response."""

    text: str
    type: str = "inputText"


class ToolResponse(msgspec.Struct, frozen=True, rename={"content_items": "contentItems"}):
    """What every call is answered with, successful or not."""

    success: bool
    output: str
    content_items: tuple[ContentItem, ...] = ()

    def encode(self) -> str:
        """As the model sees it."""
        return msgspec.json.encode(self).decode()


class Answer(msgspec.Struct, frozen=True):
    """A response, and the submission that ends the run when the call was an accepted one."""

    response: ToolResponse
    submission: Any = None


class Ran(msgspec.Struct, frozen=True):
    """A command's end, as a tool needs it."""

    exit_code: int | None
    output: str
    timed_out: bool = False


class Site(Protocol):
    """Where a tool works: the worktree, what else may be read, and how commands are run."""

    @property
    def root(self) -> Path:
        """The worktree."""
        ...

    @property
    def reading(self) -> Sequence[Path]:
        """What else may be read."""
        ...

    async def command(self, command: str | Sequence[str], timeout: float) -> Ran:
        """Run a command in the sandbox."""
        ...

    async def diff(self) -> str:
        """What the unit has changed so far."""
        ...

    async def recall(self, query: str) -> str:
        """What is known from earlier work; empty when nothing is."""
        ...

    async def turn_to(self, name: str) -> None:
        """The work turns to something else."""
        ...


class Tool(ABC, Generic[A]):
    """One tool. `parameters` is the struct its arguments are checked against."""

    name: str
    description: str
    needs: Needs
    approval: str
    """The auto_approve key under which an operator may list it."""
    parameters: type[A]

    @abstractmethod
    async def run(self, site: Site, arguments: A) -> Answer:
        """Do it. A raised SfError or OSError becomes a failure response."""

    def paths(self, arguments: A) -> tuple[str, ...]:
        """The paths that the call would read or write."""
        return ()

    def shell(self, arguments: A) -> str | None:
        """The shell text that the call would run."""
        return None

    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, schema_of(self.parameters))


def ok(summary: str, text: str = "") -> Answer:
    """A success: a one-line summary, and the text itself."""
    items = (ContentItem(head_and_tail(text, _TEXT_LIMIT, "... [output truncated] ...")),) if text else ()
    return Answer(ToolResponse(True, summary, items))


def failure(reason: str, *, available: Sequence[str] = (), text: str = "") -> Answer:
    """A failure the agent can act on."""
    items = [ContentItem(head_and_tail(text, _TEXT_LIMIT, "... [output truncated] ..."))] if text else []
    if available:
        items.append(ContentItem("available tools: " + ", ".join(available)))
    return Answer(ToolResponse(False, reason, tuple(items)))


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """A struct as a JSON schema without the noise that models do not need."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    flat = components.pop(kind.__name__) if "$ref" in schema else schema
    cleaned = _clean({key: value for key, value in flat.items() if key != "description"})
    if components:
        cleaned["$defs"] = {name: _clean(inner) for name, inner in components.items()}
    return cleaned


def _clean(node: dict[str, Any]) -> dict[str, Any]:
    """A schema without titles and defaults; names of properties are not keywords and stay."""
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            result[key] = {name: _clean(inner) for name, inner in value.items()}
        elif key not in ("title", "default"):
            result[key] = _clean(value) if isinstance(value, dict) else value
    return result
