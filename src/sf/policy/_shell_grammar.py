"""The grammar of the POSIX shell and the parts of bash that scripts use: text in, simple commands out."""

from __future__ import annotations

import re

from sf.policy._shell_redirects import Draft, Redirector, Simple
from sf.policy._shell_words import Unparsable

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=", re.ASCII)
_CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_MOST_TEXT = 1_000_000


def commands(text: str) -> list[Simple]:
    """Every simple command in the text, those inside substitutions included; Unparsable if it is no shell."""
    if len(text) > _MOST_TEXT:
        raise Unparsable("the text is too long")
    parser = _Parser(text)
    parser.program()
    return [draft.frozen() for draft in parser.found]


class _Parser(Redirector):
    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self._upstream: tuple[str, ...] = ()

    def program(self) -> None:
        self._list()
        if self.at < len(self.text):
            raise self.fail(f"unexpected {self.keyword() or self.peek()!r}")
        if self.heres:
            raise self.fail("a here-document without its text")

    # --- substitutions ---

    def substitution(self) -> None:
        """Read the commands of a substitution; the outer command's pipe does not lead into them."""
        outer, self.heres = self.heres, []
        upstream, self._upstream = self._upstream, ()
        self._list()
        self._expect(")")
        if self.heres:
            raise self.fail("a here-document that does not end inside its substitution")
        self.heres, self._upstream = outer, upstream

    def nested(self, text: str) -> None:
        """Read commands given as a text of their own."""
        self.deeper()
        inner = _Parser(text, self.depth)
        inner.functions = self.functions
        inner.program()
        self.found += inner.found
        self.depth -= 1

    # --- lists and pipelines ---

    def _newlines(self) -> bool:
        """Skip blanks and newlines, reading the here-documents that wait for one; say if any was there."""
        seen = False
        while True:
            self.blanks()
            if not self.accept("\n"):
                return seen
            seen = True
            waiting, self.heres = self.heres, []
            for here in waiting:
                self.here_document(here)

    def _closing(self) -> bool:
        return (
            not self.peek()
            or self.peek() == ")"
            or self.peek(2) == ";;"
            or self.peek(2) == ";&"
            or self.keyword() in _CLOSERS
        )

    def _list(self) -> None:
        """Read commands up to a closing keyword, a closing parenthesis, the end of a case, or the end."""
        self.deeper()
        self._newlines()
        while not self._closing():
            start = len(self.found)
            self._and_or()
            self.blanks()
            if self.peek(2) not in ("&&", ";;", ";&") and self.accept("&"):
                for draft in self.found[start:]:
                    draft.background = True
            elif self.peek(2) not in (";;", ";&") and self.accept(";"):
                pass
            elif self.peek() != "\n" and not self._closing():
                raise self.fail(f"unexpected {self.peek()!r}")
            self._newlines()
        self.depth -= 1

    def _body(self) -> None:
        """A list that must hold at least one command."""
        start = self.at
        self._newlines()
        if self._closing():
            self.at = max(start, self.at)
            raise self.fail("a command was expected")
        self._list()

    def _and_or(self) -> None:
        self._pipeline()
        self.blanks()
        while self.accept("&&") or self.accept("||"):
            self._newlines()
            self._pipeline()
            self.blanks()

    def _pipeline(self) -> None:
        self._prefixes()
        outer, start = self._upstream, len(self.found)
        self._command()
        self.blanks()
        while self.peek(2) != "||" and (self.accept("|&") or self.accept("|")):
            fed_by = [draft.words[0].text for draft in self.found[start:] if draft.words]
            for draft in self.found[start:]:
                draft.piped = True
            # Never empty, so that a pipe is seen even if only a bare assignment feeds it.
            self._upstream = (*outer, *fed_by) or ("",)
            self._newlines()
            before = len(self.found)
            self._command()
            for draft in self.found[before:]:
                draft.piped = True
            self.blanks()
        self._upstream = outer

    def _prefixes(self) -> None:
        self.blanks()
        while True:
            here, keyword = self.at, self.keyword()
            if keyword not in ("!", "time"):
                return
            self.at += len(keyword)
            self.blanks()
            if keyword == "time" and self.keyword() == "-p":
                self.at += 2
                self.blanks()
            if keyword == "time" and (self.peek() == "-" or self.peek() in ";&|\n"):
                # The program of that name, not the keyword.
                self.at = here
                return

    # --- commands ---

    def _command(self) -> None:
        self.blanks()
        keyword = self.keyword()
        if self.peek(2) == "((" and self.arithmetic(2):
            self._trailing_redirects()
        elif self.accept("("):
            self._body()
            self._expect(")")
            self._trailing_redirects()
        elif keyword in ("coproc", "in"):
            raise self.fail(f"{keyword!r} is not read here")
        elif not self._compound(keyword):
            self._simple()

    def _compound(self, keyword: str) -> bool:
        readers = {
            "{": self._group, "if": self._if, "while": self._loop, "until": self._loop, "for": self._for,
            "select": self._for, "case": self._case, "[[": self._test, "function": self._function,
        }  # fmt: skip
        if keyword not in readers:
            if keyword in _CLOSERS:
                raise self.fail(f"unexpected {keyword!r}")
            return False
        self.at += len(keyword)
        readers[keyword]()
        self._trailing_redirects()
        return True

    def _expect(self, token: str) -> None:
        self.blanks()
        if token == ")":
            if not self.accept(")"):
                raise self.fail("a closing parenthesis was expected")
            return
        if self.keyword() != token:
            raise self.fail(f"{token!r} was expected before {self.keyword() or self.peek() or 'the end'!r}")
        self.at += len(token)

    def _group(self) -> None:
        self._body()
        self._expect("}")

    def _if(self) -> None:
        self._body()
        self._expect("then")
        self._body()
        while self.keyword() == "elif":
            self.at += len("elif")
            self._body()
            self._expect("then")
            self._body()
        if self.keyword() == "else":
            self.at += len("else")
            self._body()
        self._expect("fi")

    def _loop(self) -> None:
        self._body()
        self._do()

    def _do(self) -> None:
        self._expect("do")
        self._body()
        self._expect("done")

    def _for(self) -> None:
        self.blanks()
        if self.peek(2) == "((":
            if not self.arithmetic(2):
                raise self.fail("an arithmetic for was expected")
        else:
            self.word()
            self._newlines()
            if self.keyword() == "in":
                self.at += 2
                self._words_to_end_of_line()
        self.blanks()
        self.accept(";")
        self._newlines()
        if self.keyword() == "{":
            raise self.fail("a loop with braces is not read: use do and done")
        self._do()

    def _words_to_end_of_line(self) -> None:
        self.blanks()
        while self.peek() and self.peek() not in ";\n":
            self.word()
            self.blanks()

    def _case(self) -> None:
        self.deeper()
        self.blanks()
        self.word()
        self._newlines()
        self._expect("in")
        self._newlines()
        while self.keyword() != "esac":
            self.accept("(")
            self.blanks()
            self.word()
            self.blanks()
            while self.accept("|"):
                self.blanks()
                self.word()
                self.blanks()
            self._expect(")")
            self._list()
            if not (self.accept(";;&") or self.accept(";;") or self.accept(";&")):
                break
            self._newlines()
        self._expect("esac")
        self.depth -= 1

    def _test(self) -> None:
        while True:
            self._newlines()
            if self.keyword() == "]]":
                self.at += 2
                return
            if not self.peek():
                raise self.fail("unterminated [[")
            if self.peek() in ";&|()<>" and self.peek(2) not in ("<(", ">("):
                if self.peek() == ";":
                    raise self.fail("unterminated [[")
                self.at += 1
            else:
                self.word()

    def _function(self) -> None:
        self.blanks()
        name = self.word()
        self.blanks()
        if self.accept("("):
            self._expect(")")
        self._function_body(name.text)

    def _function_body(self, name: str) -> None:
        self._newlines()
        outer, self.functions = self.functions, (*self.functions, name)
        upstream, self._upstream = self._upstream, ()
        self._command()
        self.functions, self._upstream = outer, upstream

    # --- simple commands and redirections ---

    def _draft(self) -> Draft:
        return Draft(self._upstream, self.functions)

    def _simple(self) -> None:
        draft = self._draft()
        start = self.at
        while True:
            self.blanks()
            if self.redirect(draft):
                continue
            char = self.peek()
            if char == "(" and len(draft.words) == 1 and not draft.assignments and not draft.redirects:
                self.at += 1
                self._expect(")")
                self._function_body(draft.words[0].text)
                return
            if not char or (char in "\n;&|()<>" and self.peek(2) not in ("<(", ">(")):
                break
            word = self.word()
            assigns = not draft.words and _ASSIGNMENT.match(word.raw) is not None
            (draft.assignments if assigns else draft.words).append(word)
        if self.at == start or not (draft.words or draft.redirects or draft.assignments):
            raise self.fail(f"a command was expected before {self.peek() or 'the end'!r}")
        self.found.append(draft)

    def _trailing_redirects(self) -> None:
        draft = self._draft()
        self.blanks()
        while self.redirect(draft):
            self.blanks()
        if draft.redirects:
            self.found.append(draft)
