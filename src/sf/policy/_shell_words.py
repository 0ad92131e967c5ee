"""The lexical half of the shell grammar: words, quotes and expansions."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLANKS = " \t"
_META = " \t\n;&|()<>"
_GLOBS = "*?["
_MOST_DEPTH = 40
_ASSIGNED = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=", re.ASCII)
_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}|\{[^}]*\{")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_ESCAPES = {
    **{"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"},
    **{"\\": "\\", "'": "'", '"': '"', "?": "?"},
}
_NUMERIC_ESCAPE = re.compile(r"x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})")
# fmt: off
_RESERVED = frozenset({
    "if", "then", "elif", "else", "fi", "for", "while", "until", "select", "do", "done", "case", "in", "esac",
    "function", "{", "}", "!", "[[", "time", "coproc",
})
# fmt: on


class Unparsable(ValueError):
    """The text is not of the shell grammar that sf reads."""


@dataclass(frozen=True)
class Word:
    """One word: `text` after quote removal with expansions as written, `raw` as typed.

    `literal` means that the shell will see exactly `text`; `pattern` that it may expand to file names.
    """

    text: str
    raw: str
    literal: bool
    pattern: bool = False


class Scanner:
    """Reads words; what to do with the commands inside substitutions is the subclass's part."""

    def __init__(self, text: str, depth: int = 0) -> None:
        if "\0" in text:
            raise Unparsable("the text holds a NUL byte")
        self.text = text
        self.at = 0
        self.depth = depth

    # --- what the grammar adds ---

    def substitution(self) -> None:
        """Read the commands of a substitution up to and with its closing parenthesis."""
        raise NotImplementedError

    def nested(self, text: str) -> None:
        """Read commands given as a text of their own."""
        raise NotImplementedError

    # --- characters ---

    def fail(self, what: str) -> Unparsable:
        """The error, with the line where it was noticed."""
        return Unparsable(f"line {self.text.count(chr(10), 0, self.at) + 1}: {what}")

    def peek(self, count: int = 1) -> str:
        """The next characters without reading them."""
        return self.text[self.at : self.at + count]

    def accept(self, token: str) -> bool:
        """Read the token if it is next."""
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def deeper(self) -> None:
        """Enter one more level of nesting; the caller leaves it by `depth -= 1`."""
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self.fail("nested too deeply")

    def blanks(self) -> None:
        """Skip blanks, line continuations and a comment."""
        while True:
            if self.peek() and self.peek() in _BLANKS:
                self.at += 1
            elif not self.accept("\\\n"):
                break
        if self.peek() == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def keyword(self) -> str:
        """The next unquoted run of characters if it is a whole word, else nothing."""
        end = self.at
        while end < len(self.text) and self.text[end] not in _META + "'\"\\$`":
            end += 1
        if end < len(self.text) and self.text[end] not in _META:
            return ""
        return self.text[self.at : end]

    # --- words ---

    def word(self) -> Word:
        """Read one word; there must be one."""
        start = self.at
        parts: list[str] = []
        literal, pattern, joined = True, False, False
        while self.at < len(self.text):
            char = self.peek()
            if char in "<>" and self.peek(2) in ("<(", ">("):
                if parts or self.at != start:
                    break
                parts.append(self._process_substitution())
                literal = False
            elif char in _META:
                break
            elif self.accept("\\\n"):
                joined = True
            elif char in "$`":
                text, known = self.expansion(quoted=False)
                parts.append(text)
                literal = literal and known
            elif char in "'\"\\":
                text, known = self._quoted(char)
                parts.append(text)
                literal = literal and known
            else:
                pattern = pattern or char in _GLOBS
                parts.append(char)
                self.at += 1
        if self.at == start:
            raise self.fail(f"a word was expected before {self.peek() or 'the end'!r}")
        raw, text = self.text[start : self.at], "".join(parts)
        if joined and text in _RESERVED:
            raise self.fail(f"the keyword {text!r} is broken over two lines")
        if _ASSIGNED.fullmatch(raw) and self.peek() == "(":
            self._array()
            if self.peek() and self.peek() not in _META:
                raise self.fail("a word goes on after the end of an array")
            return Word(text + "()", self.text[start : self.at], False)
        return Word(text, raw, literal and not _has_braces(raw), pattern)

    def _array(self) -> None:
        self.at += 1
        while True:
            self.blanks()
            if self.accept(")"):
                return
            if not self.accept("\n"):
                self.word()

    def _quoted(self, char: str) -> tuple[str, bool]:
        self.at += 1
        if char == "'":
            return self._until_quote(), True
        if char == '"':
            return self.double_quoted()
        if not self.peek():
            raise self.fail("a backslash at the end")
        self.at += 1
        return self.text[self.at - 1], True

    def _until_quote(self) -> str:
        end = self.text.find("'", self.at)
        if end < 0:
            raise self.fail("unterminated single quote")
        inner = self.text[self.at : end]
        self.at = end + 1
        return inner

    def double_quoted(self) -> tuple[str, bool]:
        """Read up to the closing double quote; say whether all of it is literal."""
        parts: list[str] = []
        literal = True
        while True:
            char = self.peek()
            if not char:
                raise self.fail("unterminated double quote")
            if char == '"':
                self.at += 1
                return "".join(parts), literal
            text, known = self.quoted_piece()
            parts.append(text)
            literal = literal and known

    def quoted_piece(self) -> tuple[str, bool]:
        """Read one character, escape or expansion as it stands inside double quotes or a here-document."""
        char = self.peek()
        if char == "\\" and self.peek(2)[1:] and self.peek(2)[1:] in '$`"\\\n':
            self.at += 2
            return self.text[self.at - 1].replace("\n", ""), True
        if char and char in "$`":
            return self.expansion(quoted=True)
        self.at += 1
        return char, True

    # --- expansions ---

    def expansion(self, *, quoted: bool) -> tuple[str, bool]:
        """Read what starts with a dollar or a backtick: its text, and whether that is literal."""
        start = self.at
        if self.accept("`"):
            self._backticks()
        elif self.peek(3) == "$\\\n":
            raise self.fail("a line continuation after a dollar sign")
        elif self.peek(3) == "$((" and self._arithmetic_end(self.at + 3):
            self.arithmetic(3)
        elif self.accept("$("):
            self.substitution()
        elif self.accept("$["):
            raise self.fail("$[ ] is obsolete: use $(( ))")
        elif self.accept("${"):
            self._parameter(quoted)
        elif not quoted and self.accept("$'"):
            return self._ansi_quoted(), True
        elif not quoted and self.accept('$"'):
            return self.double_quoted()
        else:
            self.at += 1
            name = _NAME.match(self.text, self.at)
            if name is None:
                return "$", True
            self.at = name.end()
        return self.text[start : self.at], False

    def _backticks(self) -> None:
        inner: list[str] = []
        while not self.accept("`"):
            char = self.peek()
            if not char:
                raise self.fail("unterminated backtick")
            if char == "\\" and self.peek(2)[1:] and self.peek(2)[1:] in "$`\\":
                self.at += 1
                char = self.peek()
            inner.append(char)
            self.at += 1
        self.nested("".join(inner))

    def _parameter(self, quoted: bool) -> None:
        self.deeper()
        if self.peek() and self.peek() in _BLANKS + "\n|":
            raise self.fail("${ } with commands is not read")
        while not self.accept("}"):
            char = self.peek()
            if not char:
                raise self.fail("unterminated ${")
            if char == '"' or (char == "'" and not quoted):
                self._quoted(char)
            elif char == "\\":
                self.at += 2
            elif not quoted and self.peek(2) in ("<(", ">("):
                self._process_substitution()
            else:
                self.quoted_piece()
        self.depth -= 1

    def _arithmetic_end(self, start: int) -> bool:
        """Say whether the parentheses opened twice before `start` close together, as arithmetic does."""
        depth, at = 2, start
        while at < len(self.text):
            char = self.text[at]
            if char == "\\":
                at += 1
            elif char in "'\"":
                at = self.text.find(char, at + 1)
                if at < 0:
                    return False
            elif char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
                if depth == 1:
                    return self.text.startswith(")", at + 1)
            at += 1
        return False

    def arithmetic(self, opening: int) -> bool:
        """Read an arithmetic expression that starts with `opening` characters; False if it is none."""
        if not self._arithmetic_end(self.at + opening):
            return False
        self.at += opening
        self.deeper()
        level = 2
        while level:
            char = self.peek()
            if not char:
                raise self.fail("unterminated arithmetic")
            if char == "'":
                self._quoted(char)
                continue
            level += (char == "(") - (char == ")")
            self.quoted_piece()
        self.depth -= 1
        return True

    def _process_substitution(self) -> str:
        start = self.at
        self.at += 2
        self.substitution()
        return self.text[start : self.at]

    def _ansi_quoted(self) -> str:
        parts: list[str] = []
        while not self.accept("'"):
            char = self.peek()
            if not char:
                raise self.fail("unterminated $'")
            self.at += 1
            parts.append(self._ansi_escape() if char == "\\" else char)
        return "".join(parts)

    def _ansi_escape(self) -> str:
        number = _NUMERIC_ESCAPE.match(self.text, self.at)
        if number is not None:
            self.at = number.end()
            octal = number.group(4)
            value = int(octal, 8) & 0xFF if octal else int(next(g for g in number.groups() if g), 16)
            if value == 0 or value > 0x10FFFF:
                raise self.fail("a NUL or an unknown character in $''")
            return chr(value)
        char = self.peek()
        if char not in _ESCAPES:
            raise self.fail("an escape in $'' that is not read")
        self.at += 1
        return _ESCAPES[char]


def _has_braces(raw: str) -> bool:
    """Say whether brace expansion may make several words of this one."""
    return "{" in raw and _BRACES.search(raw.replace("${", "")) is not None
