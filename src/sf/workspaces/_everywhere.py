"""What the user has configured for all repositories: the files outside of them, found as git finds them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from sf.errors import GitFailed
from sf.workspaces.git import Git

_FALSE = ("", "0", "false", "no", "off")


async def values(
    git: Git, facade: Path, wanted: Collection[str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return those of the `wanted` keys, in lower case, that are set; files that are included count."""
    found: dict[str, str] = {}
    for path in _configurations(environ):
        found |= await _read(git, facade, path, wanted, environ.get("HOME", ""))
    return found


async def file(
    git: Git, facade: Path, key: str, name: str, root: Path, named: str | None, environ: Mapping[str, str]
) -> Path:
    """Return the file that a repository's configuration has `named` for a key, or else the user's.

    Where that names none either, it is `name` in the folder of git's own below the user's settings.
    """
    if named is None:
        named = (await values(git, facade, (key,), environ)).get(key)
    if named is None:
        return _folder(environ) / name
    home = environ.get("HOME", "")
    return root / (Path(home) / named[2:] if named.startswith("~/") and home else Path(named))


def _folder(environ: Mapping[str, str]) -> Path:
    """The folder of git's own below the user's settings; without a home, one that does not exist."""
    home = Path(environ.get("HOME") or os.devnull)
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"


def parse(listed: list[str]) -> dict[str, str]:
    """The entries of `git config -z --list`; of a key that is set twice, the later value."""
    entries = (entry.partition("\n") for entry in listed)
    return {key: value if newline else "true" for key, newline, value in entries}


def _configurations(environ: Mapping[str, str]) -> list[Path]:
    """The configuration files outside the repository, the one that decides last."""
    found: list[Path] = []
    if environ.get("GIT_CONFIG_NOSYSTEM", "").lower() in _FALSE:
        found.append(Path(environ.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig")))
    if "GIT_CONFIG_GLOBAL" in environ:
        return [*found, Path(environ["GIT_CONFIG_GLOBAL"])]
    home = environ.get("HOME", "")
    return [*found, _folder(environ) / "config", *([Path(home) / ".gitconfig"] if home else [])]


async def _read(git: Git, facade: Path, path: Path, wanted: Collection[str], home: str) -> dict[str, str]:
    try:
        text = path.read_bytes().lower() if path.is_file() else b""
        # Most set none of them: a process for each opening would be for nothing.
        names = [*(key.rpartition(".")[2].encode() for key in wanted), b"include"]
        if not any(name in text for name in names):
            return {}
        listed = await git.run(
            *("config", "--file", str(path), "--includes", "-z", "--list"),
            git_dir=facade,
            timeout=10.0,
            home=home,
        )
    except (OSError, GitFailed):
        return {}
    return {key: value for key, value in parse(listed.names()).items() if key in wanted}
