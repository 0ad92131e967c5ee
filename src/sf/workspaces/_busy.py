"""Why a checkout refuses a landing, each cause with what would clear it away."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

from sf.errors import GitFailed
from sf.workspaces._layout import Layout, read_small
from sf.workspaces._user_checkout import copy_index
from sf.workspaces.changes import between
from sf.workspaces.git import Git
from sf.workspaces.refusals import CheckoutBusy

_NAMES = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "sequencer": "a series of picks or reverts",
}


def elsewhere(layout: Layout, branch: str, users: list[Path]) -> CheckoutBusy:
    """The refusal for a branch that worktrees, given by their git directories, have out or are rebasing."""
    folder = users[0]
    place = _place(layout, folder)
    # Without paths: what would have to go is no file but what the worktree has out.
    if not place.exists():
        # Locked is what lies on a disk that comes and goes.
        locked = (folder / "locked").exists()
        return CheckoutBusy(
            f"branch {branch} is checked out in a worktree whose folder is gone, {place}",
            hint="bring it back and switch it to another branch" if locked else "git worktree prune",
        )
    if read_small(folder / "HEAD") != f"ref: refs/heads/{branch}":
        return CheckoutBusy(
            f"branch {branch} is being rebased in {place}", hint="finish that rebase or abort it"
        )
    return CheckoutBusy(
        f"branch {branch} is checked out in {place}", hint="commit there and switch to another branch"
    )


def _place(layout: Layout, folder: Path) -> Path:
    """Where the worktree of a git directory is."""
    if folder == layout.git_dir:
        return layout.root
    link = read_small(folder / "gitdir")
    return (folder / link).parent if link else folder.parent


def midway(layout: Layout, marks: list[str]) -> CheckoutBusy:
    """The refusal for a merge, rebase, pick or revert that the user has not finished."""
    return CheckoutBusy(
        f"the checkout is in the middle of {_NAMES[marks[0]]}",
        paths=tuple(str(layout.git_dir / mark) for mark in marks),
        hint="finish it or abort it (git status tells how)",
    )


def ref_locked(layout: Layout, branch: str, error: GitFailed) -> CheckoutBusy:
    """The refusal for a branch that cannot be moved, as a rule since another git has locked it."""
    lock = layout.common / "refs" / "heads" / f"{branch}.lock"
    if not lock.exists():
        return CheckoutBusy(f"branch {branch} could not be moved: {error.message}")
    return CheckoutBusy(
        f"another git process holds {lock}",
        paths=(str(lock),),
        hint="wait for it, or remove the file if no git runs",
    )


async def unmoved(
    git: Git, layout: Layout, facade: Path, index: Path, old: str, new: str, error: GitFailed
) -> CheckoutBusy:
    """The refusal for files that git would not move: those it was told to overlook, else its own words."""
    found: dict[str, list[str]] = {}
    # Without room on the disk, say, the explanation fails as the move did; git's own words remain.
    with contextlib.suppress(GitFailed, OSError):
        touched = {change.path for change in await between(git, facade, old, new)}
        hidden = await _overlooked(git, layout, facade, index)
        found = {bit: sorted(paths & touched)[:5] for bit, paths in hidden.items() if paths & touched}
    if not found:
        return CheckoutBusy(f"the checkout could not be moved: {error.message}")
    named = ", ".join(f"{path} ({bit})" for bit, paths in found.items() for path in paths)
    ways = [f"git update-index --no-{bit} {shlex.join(paths)}" for bit, paths in found.items()]
    # Without paths: they are tracked, and no comparison shows when they have stopped being changed.
    return CheckoutBusy(
        f"the checkout has changes that git was told to overlook: {named}",
        hint=f"{', '.join(ways)}, commit or stash them",
    )


async def _overlooked(git: Git, layout: Layout, facade: Path, index: Path) -> dict[str, set[str]]:
    """The changed paths that `git status` does not show, by the bit in the index that hides them."""
    listed = await git.run("ls-files", "-v", "-z", git_dir=facade, work_tree=layout.root, index=index)
    marked = [(entry[0], entry[2:]) for entry in listed.names()]
    hidden = {
        "skip-worktree": {path for tag, path in marked if tag in "Ss"},
        "assume-unchanged": {path for tag, path in marked if tag.islower()},
    }
    if not any(hidden.values()):
        return hidden
    plain = index.with_name("plain")
    copy_index(index, plain)
    for bit, paths in hidden.items():
        await git.run(
            *("update-index", f"--no-{bit}", "-z", "--stdin"),
            git_dir=facade,
            work_tree=layout.root,
            index=plain,
            stdin=b"".join(os.fsencode(path) + b"\0" for path in paths),
        )
    flags = ("-z", "--name-only", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-renames")
    # Not refreshed first: git moves no file whose times alone differ either, if it may not look into it.
    changed = await git.run("diff-files", *flags, "--", git_dir=facade, work_tree=layout.root, index=plain)
    return {bit: paths.intersection(changed.names()) for bit, paths in hidden.items()}
