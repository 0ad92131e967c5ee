"""Where the user's repository keeps its parts, found by reading files; no git process decides here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from sf.errors import BadUsage, NotARepository, UnsupportedRepository
from sf.workspaces import _everywhere
from sf.workspaces.git import Git

_KNOWN_EXTENSIONS = {
    "noop",
    "preciousobjects",
    "worktreeconfig",
    "objectformat",
    "refstorage",
    "partialclone",
}
# Only these shape how file content and names compare; each has a closed set of values, none names a command.
_COPIED = {
    "core.filemode": ("true", "false"),
    "core.symlinks": ("true", "false"),
    "core.ignorecase": ("true", "false"),
    "core.precomposeunicode": ("true", "false"),
    "core.autocrlf": ("true", "false", "input"),
    "core.eol": ("lf", "crlf", "native"),
    "core.logallrefupdates": ("true", "false", "always"),
}
_SHA1 = re.compile(r"[0-9a-f]{40}")
_SPELLINGS = dict.fromkeys(("yes", "on", "1"), "true") | dict.fromkeys(("", "no", "off", "0"), "false")


class Layout(msgspec.Struct, frozen=True):
    """The top level of a checkout, its git directory, and the directory it shares with other worktrees."""

    root: Path
    git_dir: Path
    common: Path

    @property
    def index(self) -> Path:
        """The index of this checkout."""
        return self.git_dir / "index"

    @property
    def linked(self) -> bool:
        """Whether the checkout is a linked worktree of another repository."""
        return self.git_dir != self.common

    def heads(self) -> dict[Path, str]:
        """The HEAD text of every worktree of the repository, by its git directory."""
        directories = [self.common, *sorted((self.common / "worktrees").glob("*"))]
        return {folder: text for folder in directories if (text := read_small(folder / "HEAD"))}


def read_small(path: Path) -> str:
    """Return a small regular file as stripped text; empty when there is none. Raises OSError.

    One that cannot be read is not one that says nothing: a lock of sf's own would stay for ever.
    """
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return os.fsdecode(file.read(1 << 16)).strip()
    except FileNotFoundError:
        return ""


def locate(root: Path) -> Layout:
    """Find the repository whose top level is `root`; raise what tells the user otherwise."""
    root = root.resolve()
    marker = root / ".git"
    if not marker.exists():
        if all((root / name).exists() for name in ("HEAD", "objects", "refs")):
            raise UnsupportedRepository(f"{root} is a bare repository", hint="use a checkout of it")
        above = next((folder for folder in root.parents if (folder / ".git").exists()), None)
        if above is not None:
            raise BadUsage(f"{root} is inside a repository, not its top level", hint=f"use {above}")
        raise NotARepository(f"{root} is not a git repository", hint="run git init there first")
    git_dir = marker if marker.is_dir() else _linked_dir(root, marker)
    git_dir = git_dir.resolve()
    if not (git_dir / "HEAD").exists():
        raise NotARepository(f"{marker} is not a git directory")
    shared = read_small(git_dir / "commondir")
    common = (git_dir / shared).resolve() if shared else git_dir
    if not (common / "objects").is_dir():
        raise NotARepository(f"{common} has no object store")
    return Layout(root, git_dir, common)


def _linked_dir(root: Path, marker: Path) -> Path:
    text = read_small(marker)
    if not text.startswith("gitdir:"):
        raise NotARepository(f"{marker} does not name a git directory")
    return root / text.removeprefix("gitdir:").strip()


class Settings(msgspec.Struct, frozen=True):
    """What the façade copies of the user's configuration, and the files that the repository's own names."""

    copied: dict[str, str]
    excludes: str | None
    attributes: str | None


async def settings(git: Git, layout: Layout, facade: Path, environ: Mapping[str, str]) -> Settings:
    """Return what the repository's configuration says, or else the user's; refuse unproven formats.

    Raises UnsupportedRepository.
    """
    found = await _read_config(git, layout.common / "config", facade)
    if found.get("extensions.worktreeconfig", "").lower() in ("true", "1", "yes", "on"):
        found |= await _read_config(git, layout.git_dir / "config.worktree", facade)
    _refuse_unproven(layout, found)
    everywhere = await _everywhere.values(git, facade, _COPIED, environ)
    copied = _lawful(everywhere) | _lawful(found)
    return Settings(copied, found.get("core.excludesfile"), found.get("core.attributesfile"))


def _lawful(found: dict[str, str]) -> dict[str, str]:
    """Those of the values that are copied, each in the one way to write it."""
    written = {key: _SPELLINGS.get(value.lower(), value.lower()) for key, value in found.items()}
    return {key: value for key, value in written.items() if value in _COPIED.get(key, ())}


async def origin(git: Git, layout: Layout, facade: Path) -> str:
    """Return the address of the remote `origin`, empty when there is none."""
    return (await _read_config(git, layout.common / "config", facade)).get("remote.origin.url", "")


async def _read_config(git: Git, path: Path, facade: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    output = await git.run("config", "--file", str(path), "--no-includes", "-z", "--list", git_dir=facade)
    return _everywhere.parse(output.names())


def _refuse_unproven(layout: Layout, found: dict[str, str]) -> None:
    extensions = [key.removeprefix("extensions.") for key in found if key.startswith("extensions.")]
    unproven = {
        "an unknown repository format": found.get("core.repositoryformatversion", "0") not in ("0", "1"),
        "object ids that are not SHA-1": found.get("extensions.objectformat", "sha1").lower() != "sha1",
        "refs stored as reftable": found.get("extensions.refstorage", "files").lower() != "files"
        or (layout.common / "reftable").exists(),
        "a partial clone": "partialclone" in extensions or any(_is_promisor(key, found) for key in found),
        "a bare repository": _is_on("core.bare", found) and not layout.linked,
        "a sparse checkout": _is_on("core.sparsecheckout", found),
        "a split index (git update-index --no-split-index)": _is_on("core.splitindex", found)
        or _is_split(layout),
        "a checkout in another place (core.worktree)": _is_elsewhere(layout, found.get("core.worktree")),
        "an unknown extension": not _KNOWN_EXTENSIONS.issuperset(extensions),
    }
    problems = [problem for problem, is_there in unproven.items() if is_there]
    if problems:
        raise UnsupportedRepository(
            f"{layout.root} has {', '.join(problems)}; sf has not been proven on that"
        )


def _is_on(key: str, found: dict[str, str]) -> bool:
    return found.get(key, "").lower() in ("true", "1", "yes", "on")


def _is_split(layout: Layout) -> bool:
    """Whether the index is a part of a shared one beside it, whose name it bears: without any setting too."""
    shared = [path.name.removeprefix("sharedindex.") for path in layout.git_dir.glob("sharedindex.*")]
    names = [bytes.fromhex(name) for name in shared if _SHA1.fullmatch(name)]
    index = layout.index.read_bytes() if names and layout.index.exists() else b""
    return any(name in index for name in names)


def _is_promisor(key: str, found: dict[str, str]) -> bool:
    return key.startswith("remote.") and key.endswith(".promisor") and _is_on(key, found)


def _is_elsewhere(layout: Layout, tree: str | None) -> bool:
    return tree is not None and not layout.linked and (layout.git_dir / tree).resolve() != layout.root
