"""Simple commands as data, and the redirections and here-documents that belong to them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sf.policy._shell_words import Scanner, Word

_REDIRECT = re.compile(
    r"(?:\d+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<>|<&|>>|>\||>&|<(?!\()|>(?!\())|(&>>|&>)", re.ASCII
)


@dataclass(frozen=True)
class Redirect:
    """One redirection; for a here-document `target` is its delimiter and `body` its text."""

    operator: str
    target: Word
    body: Word | None = None


@dataclass(frozen=True)
class Simple:
    """A simple command and where it stands: what is piped into it, in which functions, in the background."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    assignments: tuple[Word, ...] = ()
    upstream: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    piped: bool = False
    background: bool = False


@dataclass
class Draft:
    """A simple command while it is being read."""

    upstream: tuple[str, ...]
    functions: tuple[str, ...]
    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    assignments: list[Word] = field(default_factory=list)
    piped: bool = False
    background: bool = False

    def frozen(self) -> Simple:
        """The finished command."""
        return Simple(
            tuple(self.words),
            tuple(self.redirects),
            tuple(self.assignments),
            self.upstream,
            self.functions,
            self.piped,
            self.background,
        )


@dataclass
class Here:
    """A here-document whose text begins after the next newline."""

    draft: Draft
    index: int
    delimiter: Word
    strip: bool


class Redirector(Scanner):
    """Reads redirections; the texts of here-documents wait for the next newline."""

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self.found: list[Draft] = []
        self.heres: list[Here] = []
        self.functions: tuple[str, ...] = ()

    def redirect(self, draft: Draft) -> bool:
        """Read one redirection into the draft if one is next."""
        match = _REDIRECT.match(self.text, self.at)
        if match is None:
            return False
        operator = match.group(1) or match.group(2)
        self.at = match.end()
        self.blanks()
        target = self.word()
        draft.redirects.append(Redirect(operator, target, target if operator == "<<<" else None))
        if operator in ("<<", "<<-"):
            self.heres.append(Here(draft, len(draft.redirects) - 1, target, operator == "<<-"))
        return True

    def here_document(self, here: Here) -> None:
        """Read the text of a here-document, whose first line is next."""
        lines: list[str] = []
        while True:
            if self.at >= len(self.text):
                raise self.fail(f"the here-document {here.delimiter.text!r} does not end")
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            self.at = min(end + 1, len(self.text))
            if here.strip:
                line = line.lstrip("\t")
            if line == here.delimiter.text:
                break
            lines.append(line + "\n")
        body = "".join(lines)
        literal = here.delimiter.raw != here.delimiter.text or self._expansions_in(body)
        redirect = here.draft.redirects[here.index]
        content = Word(body, body, literal)
        here.draft.redirects[here.index] = Redirect(redirect.operator, redirect.target, content)

    def _expansions_in(self, body: str) -> bool:
        """Read the substitutions of an unquoted here-document; say whether all of it is literal."""
        self.deeper()
        inner = type(self)(body, self.depth)
        inner.functions = self.functions
        literal = True
        while inner.at < len(body):
            literal = inner.quoted_piece()[1] and literal
        self.found += inner.found
        self.depth -= 1
        return literal
