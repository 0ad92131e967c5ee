"""What the user has git ignore in all repositories: their own ignore file, found as git finds it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from sf.errors import GitFailed
from sf.workspaces.git import Git

_MOST = 1 << 20
_MARK = b"\xef\xbb\xbf"
_FALSE = ("", "0", "false", "no", "off")


async def patterns(
    git: Git, facade: Path, root: Path, named: str | None, environ: Mapping[str, str]
) -> bytes:
    """Return the patterns of the file that the repository's configuration has `named`, or the user's own."""
    home = environ.get("HOME", "")
    for config in () if named is not None else _configurations(environ):
        named = await _named_in(git, facade, config, home)
        if named is not None:
            break
    path = _settings(environ) / "ignore" if named is None else root / _expanded(named, home)
    # As for git: one that cannot be read ignores nothing.
    with contextlib.suppress(OSError):
        return read(path)
    return b""


def read(path: Path) -> bytes:
    """Return the lines of an ignore file, at most a MiB of them; empty when there is none. Raises OSError."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            text = file.read(_MOST + 1).removeprefix(_MARK)
    except FileNotFoundError:
        return b""
    if len(text) > _MOST:
        text = text[: text.rfind(b"\n") + 1]
    return text if not text or text.endswith(b"\n") else text + b"\n"


def _configurations(environ: Mapping[str, str]) -> list[Path]:
    """The configuration files outside the repository, the one that decides first."""
    if "GIT_CONFIG_GLOBAL" in environ:
        found = [Path(environ["GIT_CONFIG_GLOBAL"])]
    else:
        home = environ.get("HOME", "")
        found = [*([Path(home) / ".gitconfig"] if home else []), _settings(environ) / "config"]
    if environ.get("GIT_CONFIG_NOSYSTEM", "").lower() in _FALSE:
        found.append(Path(environ.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig")))
    return found


def _settings(environ: Mapping[str, str]) -> Path:
    """The folder of git's own below the user's settings; without a home, one that does not exist."""
    home = Path(environ.get("HOME") or os.devnull)
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"


async def _named_in(git: Git, facade: Path, config: Path, home: str) -> str | None:
    """The ignore file that a configuration names, files that it includes counted; None for none."""
    try:
        text = read(config).lower()
        # Most name none: a process for each opening would be for nothing.
        if b"excludesfile" not in text and b"include" not in text:
            return None
        output = await git.run(
            *("config", "--file", str(config), "--includes", "-z", "--get", "core.excludesFile"),
            git_dir=facade,
            ok=(0, 1),
            timeout=10.0,
            home=home,
        )
    except (OSError, GitFailed):
        return None
    return os.fsdecode(output.stdout.removesuffix(b"\0")) if output.code == 0 else None


def _expanded(path: str, home: str) -> Path:
    return Path(home) / path[2:] if path.startswith("~/") and home else Path(path)
