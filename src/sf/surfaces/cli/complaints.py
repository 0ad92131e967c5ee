"""What is not for the person who ran a command, in files of `~/.sf/log/`: they get one line on stderr."""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import TextIO

from sf.paths import sf_home

_CRASHES = "crash.log"
_COMPLAINTS = "complaints.log"


def keep_crash() -> str:
    """Write the traceback of the present error down; where it is, in words."""
    return _keep(_CRASHES, traceback.format_exc())


def divert() -> None:
    """Let the interpreter write down what it would print: half-made objects that it could not take apart.

    An event loop that got no descriptor prints a traceback of its own, although the error is told already.
    """
    sys.unraisablehook = _unraisable
    if not sys.warnoptions:
        warnings.showwarning = _warned


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    lines = traceback.format_exception(found.exc_type, found.exc_value, found.exc_traceback)
    _keep(_COMPLAINTS, f"{found.err_msg or 'ignored in'} {found.object!r}\n{''.join(lines)}")


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _keep(_COMPLAINTS, warnings.formatwarning(message, category, filename, lineno, line))


def _keep(name: str, text: str) -> str:
    path = sf_home() / "log" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError:
        return f"the traceback could not be written: {path.parent}"
    return f"the traceback is in {path}"
