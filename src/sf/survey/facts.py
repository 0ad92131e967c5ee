"""What one file tells: its language, its length, what it defines and imports, or why it was left out."""

from __future__ import annotations

from typing import Literal

import msgspec

from sf.survey.languages import LeftOut

Kind = Literal["function", "class", "type"]


class Definition(msgspec.Struct, frozen=True, array_like=True):
    """A public name and the line that defines it."""

    name: str
    kind: Kind
    line: int


class Import(msgspec.Struct, frozen=True, array_like=True):
    """What a file takes in, as it is written; `member` is the name taken out of it, where there is one."""

    module: str
    member: str = ""


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """A source file as its syntax tree shows it."""

    definitions: tuple[Definition, ...] = ()
    imports: tuple[Import, ...] = ()
    namespace: str = ""
    main: bool = False
    broken: bool = False
    """The tree has errors: the file is not whole, or uses what the grammar does not know."""


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A file to look into. Its name is bytes, which need not be UTF-8; a shebang tells what no name did."""

    name: bytes
    language: str


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """What was found in a file."""

    language: str
    lines: int = 0
    left_out: LeftOut | None = None
    outline: Outline = Outline()
