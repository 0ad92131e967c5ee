"""Merges without a checkout."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from sf.domain.utf8 import escaped
from sf.errors import GitFailed
from sf.workspaces import _attributes
from sf.workspaces._index_file import brief
from sf.workspaces._refs import ZERO
from sf.workspaces.changes import GITLINK
from sf.workspaces.git import Git

BESIDE = "sf-conflicts"
"""The folder in which the other side of a conflict lies that no marker can show."""


FILE_MODES = ("100644", "100755")
_AT_ONCE = 1000
"""How many objects one command is given."""


class Version(msgspec.Struct, frozen=True):
    """One side of a conflict: what a commit has at a path."""

    mode: str
    object_id: str


_NOTHING = Version("0", ZERO)


class Contested(msgspec.Struct, frozen=True):
    """A path in conflict, and what each side has there; None where it has nothing."""

    path: str
    ours: Version | None
    theirs: Version | None


class Beside(msgspec.Struct, frozen=True):
    """A conflict without markers: the tree has one side of it, the other lies beside."""

    path: str
    other: str


class MergeResult(msgspec.Struct, frozen=True):
    """A merged tree; or, with `tree` None, what is in conflict and the tree that lays it out."""

    tree: str | None
    conflicts: tuple[Contested, ...] = ()
    detail: str = ""
    laid_out: str | None = None
    label: str = ""
    """What follows `<<<<<<< ` in the markers of this merge."""
    beside: tuple[Beside, ...] = ()

    @property
    def paths(self) -> frozenset[str]:
        """Every path of its conflicts, and of what lies beside."""
        return frozenset(item.path for item in self.conflicts) | {item.other for item in self.beside}


async def merge_trees(git: Git, git_dir: Path, ours: str, theirs: str) -> MergeResult:
    """Merge two commits into a tree, as a checkout of `ours` would."""
    async with _attributes.laid_out(git, git_dir, ours) as attributes:
        output = await git.run(
            *("merge-tree", "--write-tree", "-z", "--messages", ours, theirs),
            git_dir=git_dir,
            work_tree=attributes,
            ok=(0, 1),
            timeout=300.0,
        )
    fields = output.stdout.decode("utf-8", "surrogateescape").split("\0")
    tree = fields.pop(0)
    if len(tree) != 40:
        raise GitFailed(f"git merge-tree gave no tree: {output.stderr.strip()[:200]}")
    if output.code == 0:
        return MergeResult(tree)
    end = fields.index("") if "" in fields else len(fields)
    conflicts = _contested(fields[:end])
    laid_out, beside = await _lay_beside(git, git_dir, tree, conflicts, ours)
    return MergeResult(None, conflicts, _messages(fields[end + 1 :]), laid_out, ours, beside)


def _contested(entries: list[str]) -> tuple[Contested, ...]:
    """The records `mode object stage TAB path`, joined by path."""
    sides: dict[str, dict[str, Version]] = {}
    for entry in entries:
        head, _, path = entry.partition("\t")
        mode, object_id, stage = head.split()
        sides.setdefault(path, {})[stage] = Version(mode, object_id)
    return tuple(Contested(path, found.get("2"), found.get("3")) for path, found in sides.items())


async def _lay_beside(
    git: Git, git_dir: Path, tree: str, conflicts: tuple[Contested, ...], label: str
) -> tuple[str, tuple[Beside, ...]]:
    """Add what markers cannot show, such as binary content or a deletion, to the tree as files."""
    lines: list[bytes] = []
    beside: list[Beside] = []
    for item in conflicts:
        present = await _entry(git, git_dir, tree, item.path)
        if present is not None and await _is_marked(git, git_dir, item, present, label):
            continue
        other = item.ours if item.theirs is not None and present == item.theirs else item.theirs
        name = f"{BESIDE}/{len(beside) + 1}-{escaped(item.path.rsplit('/', 1)[-1])}"
        if other is None or other.mode == GITLINK:
            text = b"nothing: deleted there\n" if other is None else f"commit {other.object_id}\n".encode()
            other = Version("100644", await _blob(git, git_dir, text))
        lines.append(f"{other.mode} {other.object_id}\t{name}".encode("utf-8", "surrogateescape") + b"\0")
        beside.append(Beside(item.path, name))
    if not lines:
        return tree, ()
    return await _with_entries(git, git_dir, tree, b"".join(lines), f"beside-{tree}"), tuple(beside)


async def _entry(git: Git, git_dir: Path, tree: str, path: str) -> Version | None:
    listed = await git.run("ls-tree", "-z", tree, "--", path, git_dir=git_dir)
    if not listed.stdout:
        return None
    mode, _, object_id = listed.stdout.split(b"\t", 1)[0].decode().split()
    return Version(mode, object_id)


async def _is_marked(git: Git, git_dir: Path, item: Contested, present: Version, label: str) -> bool:
    """Whether the tree has markers at a path; git looks, for a blob may be larger than any output."""
    sides = [side.object_id for side in (item.ours, item.theirs) if side is not None]
    if present.mode not in FILE_MODES or present.object_id in sides:
        return False
    return await have_markers(git, git_dir, [present.object_id], label)


async def have_markers(git: Git, git_dir: Path, objects: Sequence[str], label: str) -> bool:
    """Whether any of these files has a marker of the merge with this label.

    It is longer where git merged what it had merged already: a file that each side renamed otherwise.
    """
    for begin in range(0, len(objects), _AT_ONCE):
        found = await git.run(
            *("grep", "--quiet", "--text", "-e", f"^<<<<<<<<* {label}", *objects[begin : begin + _AT_ONCE]),
            git_dir=git_dir,
            ok=(0, 1),
            timeout=300.0,
        )
        if found.code == 0:
            return True
    return False


async def with_paths(git: Git, git_dir: Path, tree: str, paths: Collection[str], source: str) -> str:
    """The tree with these paths as they are in another."""
    found = await _entries(git, git_dir, source)
    taken = ((found.get(path, _NOTHING), path) for path in sorted(paths))
    lines = (f"{version.mode} {version.object_id}\t{path}\0" for version, path in taken)
    stdin = "".join(lines).encode("utf-8", "surrogateescape")
    # Not named by the tree: several units may come to the same one at once.
    return await _with_entries(git, git_dir, tree, stdin, f"paths-{secrets.token_hex(6)}")


async def _entries(git: Git, git_dir: Path, tree: str) -> dict[str, Version]:
    listed = await git.run("ls-tree", "-r", "-z", tree, git_dir=git_dir)
    found: dict[str, Version] = {}
    for entry in listed.names():
        head, _, path = entry.partition("\t")
        mode, _, object_id = head.split()
        found[path] = Version(mode, object_id)
    return found


async def _blob(git: Git, git_dir: Path, content: bytes) -> str:
    return (await git.run("hash-object", "-w", "--stdin", git_dir=git_dir, stdin=content)).text()


async def _with_entries(git: Git, git_dir: Path, tree: str, index_info: bytes, name: str) -> str:
    """The tree with entries added, made through an index of its own."""
    with brief(git_dir / "worktrees" / name) as index:
        await git.run("read-tree", tree, git_dir=git_dir, index=index)
        await git.run("update-index", "-z", "--index-info", git_dir=git_dir, index=index, stdin=index_info)
        return (await git.run("write-tree", git_dir=git_dir, index=index)).text()


def _messages(fields: list[str]) -> str:
    """The readable part of the records `count, path × count, kind, message`."""
    lines: list[str] = []
    position = 0
    while position < len(fields) and fields[position].isdigit():
        position += 1 + int(fields[position]) + 1
        if position < len(fields):
            lines.append(fields[position].strip())
        position += 1
    return "\n".join(line for line in lines if line)
