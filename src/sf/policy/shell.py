"""Judge command lines by the shell's grammar, never by their beginning.

This denylist keeps honest mistakes and the plainest mischief out; what a program does once it runs is the
sandbox's concern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sf.policy import _shell_rules as rules
from sf.policy._shell_grammar import commands
from sf.policy._shell_redirects import Redirect, Simple
from sf.policy._shell_words import Unparsable, Word

__all__ = ["Redirect", "Simple", "Unparsable", "Verdict", "Word", "commands", "judge"]

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "rbash"})
_INTERPRETERS = re.compile(r"(python|pypy|perl|ruby|node|deno|bun|php|lua)[\d.]*")
_FETCHERS = frozenset({"curl", "wget", "fetch", "aria2c", "http", "https", "nc", "ncat", "socat", "ssh"})
_SHELL_VALUES = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_TAKES_VALUE: dict[str, frozenset[str]] = {
    "env": frozenset({"-u", "--unset", "-C", "--chdir"}),
    "exec": frozenset({"-a"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n", "--class", "--classdata"}),
    "time": frozenset({"-f", "-o", "--format", "--output"}),
    "timeout": frozenset({"-k", "-s", "--kill-after", "--signal"}),
    "stdbuf": frozenset({"-i", "-o", "-e", "--input", "--output", "--error"}),
    "strace": frozenset({"-o", "-e", "-s", "-p", "-P", "-u", "-E"}),
    "taskset": frozenset(),
    "flock": frozenset({"-w", "-E", "--timeout", "--conflict-exit-code"}),
    "xargs": frozenset({"-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "--arg-file", "--delimiter"})
    | {"--max-args", "--max-procs", "--max-lines", "--max-chars", "--replace"},
    **dict.fromkeys(
        ("command", "builtin", "busybox", "toybox", "chronic", "unbuffer", "ltrace"), frozenset()
    ),
}
_OPERANDS_BEFORE = {"timeout": 1, "taskset": 1, "flock": 1}
_ENV_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_MOST_NESTING = 8


@dataclass(frozen=True)
class Verdict:
    """Whether a command line may run; if not, a reason on which its author can act."""

    allowed: bool
    reason: str = ""


class _Refused(Exception):
    """Leaves the judging at the first reason against."""


def judge(text: str) -> Verdict:
    """Apply the denylist that always holds to every command in the text, wherever it stands."""
    try:
        _judge_text(text, 0)
    except Unparsable as error:
        return Verdict(False, f"the command cannot be parsed: {error}")
    except _Refused as refused:
        return Verdict(False, str(refused))
    return Verdict(True)


def _judge_text(text: str, nesting: int) -> None:
    if nesting > _MOST_NESTING:
        raise _Refused("commands inside commands, too deeply nested to judge")
    for command in commands(text):
        for redirect in command.redirects:
            if redirect.operator not in ("<", "<<", "<<-", "<<<", "<&"):
                _refuse(redirect.target.text, rules.device_refusal(redirect.target.text))
        if command.words:
            _fork_bomb(command)
            _judge_words(command.words, command, nesting)


def _refuse(what: str, reason: str) -> None:
    if reason:
        raise _Refused(f"{what}: {reason}")


def _fork_bomb(command: Simple) -> None:
    name = command.words[0].text
    if name in command.functions and (command.piped or command.background):
        raise _Refused(f"{name}: a function that starts itself again and again")


def _judge_words(words: Sequence[Word], command: Simple, nesting: int) -> None:
    """Judge the program that these words run, through every wrapper in front of it."""
    if not words:
        return
    first, arguments = words[0], words[1:]
    if not first.literal or (first.pattern and first.text != "["):
        raise _Refused(
            f"{first.raw}: the name of a command must be literal; write the program's name or path"
        )
    name = first.text.rpartition("/")[2]
    _refuse(name, rules.refusal(name, arguments))
    if name in _SHELLS:
        _judge_shell(name, arguments, command, nesting)
    elif name in ("eval", "trap", "alias", "source", "."):
        _judge_builtin(name, arguments, command, nesting)
    elif _INTERPRETERS.fullmatch(name):
        _judge_interpreter(name, arguments, command)
    elif name in _TAKES_VALUE:
        _judge_wrapper(name, arguments, command, nesting)
    elif name == "find":
        for inner in _find_commands(arguments):
            _judge_words(inner, command, nesting)


def _judge_wrapper(name: str, arguments: Sequence[Word], command: Simple, nesting: int) -> None:
    rest = list(arguments)
    while rest and rest[0].text.startswith("-") and len(rest[0].text) > 1:
        option = rest.pop(0).text
        if option == "--":
            break
        if name == "command" and option in ("-v", "-V"):
            return
        if (name == "env" and option.startswith(("-S", "--split", "-vS", "-iS"))) or (
            name == "flock" and option in ("-c", "--command")
        ):
            raise _Refused(f"{name} {option}: write the command as separate words")
        if option in _TAKES_VALUE[name] and rest:
            rest.pop(0)
    rest = rest[_OPERANDS_BEFORE.get(name, 0) :]
    while name == "env" and rest and (_ENV_ASSIGNMENT.match(rest[0].raw) or rest[0].text == "-"):
        rest.pop(0)
    _judge_words(rest, command, nesting)


def _judge_shell(name: str, arguments: Sequence[Word], command: Simple, nesting: int) -> None:
    rest = list(arguments)
    takes_text = False
    from_stdin = False
    while rest and rest[0].text[:1] in ("-", "+") and rest[0].literal:
        option = rest.pop(0).text
        if option in ("-", "--"):
            break
        if option in _SHELL_VALUES and rest:
            rest.pop(0)
        elif not option.startswith("--"):
            takes_text = takes_text or "c" in option
            from_stdin = from_stdin or "s" in option
    if takes_text:
        if rest:
            _literal_text(f"{name} -c", rest[:1], nesting)
        return
    if rest and not from_stdin and rest[0].text not in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        if "<(" in rest[0].raw:
            raise _Refused(f"{name} {rest[0].raw}: write the script to a file, read it, then run it")
        return
    _stdin_script(name, command, nesting)


def _stdin_script(name: str, command: Simple, nesting: int) -> None:
    bodies = [redirect.body for redirect in command.redirects if redirect.body is not None]
    for body in bodies:
        _literal_text(f"{name} <<", [body], nesting)
    for redirect in command.redirects:
        if redirect.operator == "<" and "<(" in redirect.target.raw:
            raise _Refused(
                f"{name} < {redirect.target.raw}: write the script to a file, read it, then run it"
            )
    if command.upstream and not bodies:
        raise _Refused(f"{name}: a pipe into a shell runs what nobody has read; write it to a file first")


def _judge_builtin(name: str, arguments: Sequence[Word], command: Simple, nesting: int) -> None:
    if name == "eval":
        _literal_text(name, arguments, nesting)
    elif name == "trap":
        actions = [word for word in arguments if not word.text.startswith("-")][:1]
        if len(arguments) > 1 and actions:
            _literal_text(name, actions, nesting)
    elif name == "alias":
        for word in arguments:
            _literal_text(name, [Word(word.text.partition("=")[2], word.raw, word.literal)], nesting)
    elif arguments and ("<(" in arguments[0].raw or arguments[0].text.startswith(("/dev/", "/proc/"))):
        raise _Refused(f"{name} {arguments[0].raw}: write the script to a file, read it, then run it")


def _judge_interpreter(name: str, arguments: Sequence[Word], command: Simple) -> None:
    runs_stdin = not arguments or arguments[0].text in ("-", "/dev/stdin")
    fetched = _FETCHERS & {each.rpartition("/")[2] for each in command.upstream}
    if runs_stdin and fetched and not any(redirect.body for redirect in command.redirects):
        raise _Refused(f"{name}: it runs what was just downloaded; save it, read it, then run it")


def _literal_text(what: str, words: Sequence[Word], nesting: int) -> None:
    if not all(word.literal for word in words):
        raise _Refused(
            f"{what}: its text is not literal; put it in single quotes or run the command directly"
        )
    _judge_text(" ".join(word.text for word in words), nesting + 1)


def _find_commands(arguments: Sequence[Word]) -> Iterator[list[Word]]:
    """The commands that `find` is told to execute."""
    inner: list[Word] | None = None
    for word in arguments:
        if inner is None:
            inner = [] if word.text in ("-exec", "-execdir", "-ok", "-okdir") else None
        elif word.text in (";", "+"):
            yield inner
            inner = None
        else:
            inner.append(word)
    if inner:
        yield inner
