"""Where gates are taken from: the checkout, or the branch that work lands on."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from sf.errors import InvalidConfig
from sf.harness.desk import Desk
from sf.harness.hooks import script_path, unrunnable
from sf.harness.workshop import branch_gone
from sf.review import links
from sf.workspaces.extract import as_run, entries, extract, lie_in
from sf.workspaces.refusals import CheckoutBusy

_LOOKS, _LOOK_AGAIN = 600, 0.1
"""How often, and how many seconds apart, a git that is at work in the checkout is waited for: it may be
bringing another branch's gates."""
_HEAD_FOLLOWS = 0.5
"""Seconds within which a git that has written the files of another branch has written HEAD too."""
_TRIES = 10
"""How often gates are looked for that a git comes in between."""

Mark = tuple[int, int, int]


def in_checkout(root: Path, scripts: Sequence[str]) -> dict[str, Path]:
    """Where gates lie in the user's checkout."""
    return {script: script_path(root, script) for script in scripts}


async def located(desk: Desk, branch: str, scripts: Sequence[str]) -> dict[str, Path]:
    """Where gates are run from for work on a branch: as it has them, when the checkout has another one out.

    The gates of an older branch would let pass what they do not know. Raises InvalidConfig for gates that
    could not be run, unless they went with a branch that was out when they were looked for, and BranchGone.
    """
    for _ in range(_TRIES):
        begun = _written_by_git(desk)
        places = await _where(desk, branch, scripts)
        found = problems(places)
        if not found:
            break
        await asyncio.sleep(_HEAD_FOLLOWS)
        if _written_by_git(desk) == begun:
            break
    _refuse(found)
    return places


async def _where(desk: Desk, branch: str, scripts: Sequence[str]) -> dict[str, Path]:
    """Where gates are run from, whether or not they can be; a git at work in the checkout is waited for."""
    user = desk.workshop.user
    if scripts:
        await _quiet(desk)
    places = in_checkout(desk.project.root, scripts)
    if scripts and (user.branch_out() != branch or user.is_at_work()):
        places |= await _committed(desk, branch, scripts)
    return places


async def _quiet(desk: Desk) -> None:
    """Wait while a git is at work in the checkout, but not for ever."""
    for _ in range(_LOOKS):
        if not desk.workshop.user.is_at_work():
            break
        await asyncio.sleep(_LOOK_AGAIN)


async def _committed(desk: Desk, branch: str, scripts: Sequence[str]) -> dict[str, Path]:
    """Those of the gates that a branch has otherwise than the checkout, laid out with their neighbours."""
    owned, root = desk.workshop.owned, desk.project.root
    inside = [script for script in scripts if _is_inside(script)]
    if not inside:
        return {}
    commit = await desk.workshop.user.branch_commit(branch)
    if commit is None:
        raise branch_gone(branch)
    await owned.fetch(commit)
    candidates = [str(Path(*place, script)) for script in inside for place in ((".sf",), ())]
    known = {entry.path for entry in await entries(owned, commit, candidates)}
    chosen = {script: path for script in inside if (path := _chosen(root, script, known))}
    places, found = {}, []
    for script, path in chosen.items():
        gate = await links.followed(owned, commit, path)
        folder = await _laid_out(desk, commit, gate)
        if folder is None:
            continue
        places[script] = folder / path
        if gate.last is None:
            found.append(f"gate {script}: on {branch} it {gate.trouble}")
        elif not os.access(folder / path, os.X_OK):
            cure = f"git update-index --chmod=+x {shlex.quote(gate.last.path)}, and commit"
            found.append(f"gate {script}: has no run bit on {branch} ({cure} it there)")
    _refuse(found)
    return places


async def _laid_out(desk: Desk, commit: str, gate: links.Followed) -> Path | None:
    """Lay out a gate of a commit with its neighbours; None when the checkout has exactly these."""
    owned, user, root = desk.workshop.owned, desk.workshop.user, desk.project.root
    near = tuple(dict.fromkeys(_neighbourhood(path) for path in gate.paths))
    listed = {entry.path: entry for entry in await entries(owned, commit, near)}.values()
    main = gate.last.path if gate.last else ""
    beside = as_run(root, list(listed), main, has_run_bits=user.has_run_bits)
    tracked = await user.tracked_files()
    if lie_in(root, beside, _among(tracked, near)):
        return None
    named = hashlib.sha256(msgspec.json.encode(beside)).hexdigest()[:32]
    folder = desk.project.committed_gates / named
    await extract(owned, beside, folder)
    return folder


def _chosen(root: Path, script: str, known: set[str]) -> str:
    """Which of a branch's files a gate is; empty for one that is not committed there.

    In the order of `script_path`, for the same reason: one of the operator's that no branch has comes before
    what an agent can write.
    """
    own, plain = str(Path(".sf", script)), str(Path(script))
    if own in known:
        return own
    return plain if plain in known and not (root / own).exists() else ""


def _neighbourhood(path: str) -> str:
    """What is laid out with a gate: its folder, which at the top would be everything."""
    return str(Path(path).parent) if "/" in path else path


def _among(tracked: Sequence[str], near: Sequence[str]) -> list[str]:
    """Those of the tracked files that are, or lie below, one of some paths."""
    folders = tuple(f"{each}/" for each in near)
    return [name for name in tracked if name in near or name.startswith(folders)]


def _is_inside(script: str) -> bool:
    return not Path(script).is_absolute() and ".." not in Path(script).parts


def problems(places: Mapping[str, Path]) -> list[str]:
    """What is wrong with configured gates: missing, without the run bit, or nothing that could run them."""
    found = []
    for script, path in places.items():
        if not path.is_file():
            found.append(f"gate {script}: there is no such file ({path})")
        elif not os.access(path, os.X_OK):
            found.append(f"gate {script}: has no run bit (chmod +x {path})")
        elif trouble := unrunnable(path):
            found.append(f"gate {script}: {trouble}")
    return found


def require_runnable(places: Mapping[str, Path]) -> None:
    """Raise InvalidConfig when a gate could not be run."""
    _refuse(problems(places))


def _refuse(found: Sequence[str]) -> None:
    if found:
        raise InvalidConfig(f"{len(found)} gate(s) cannot be run", problems=tuple(found))


class Seen(msgspec.Struct, frozen=True):
    """A gate that is about to run: so far as git may change it in the checkout, and which branch is out."""

    gate: Path
    near: tuple[str, ...]
    marks: dict[Path, Mark]
    head: Mark


async def seen(desk: Desk, branch: str, script: str) -> Seen:
    """Look for a gate, and at it, before it is run; again when a git was at work in the checkout meanwhile.

    What was looked at may be another branch's then. Raises as `located` does, and CheckoutBusy.
    """
    for _ in range(_TRIES):
        begun = _written_by_git(desk)
        gate = (await located(desk, branch, [script]))[script]
        near = _in_checkout_near(desk.project.root, gate)
        found = Seen(gate, near, await _marks(desk, near), head=begun[0])
        if not near or _written_by_git(desk) == begun:
            return found
    raise CheckoutBusy(f"git was at work in the checkout {_TRIES} times while {script} was looked for")


async def is_one_branchs(desk: Desk, before: Seen) -> bool:
    """Whether what was run was one branch's from its start to its end.

    Files that somebody edits or adds, or a landing brings, on the branch that is out are that branch's.
    """
    return await _marks(desk, before.near) == before.marks or await _is_still_out(desk, before.head)


async def _is_still_out(desk: Desk, head: Mark) -> bool:
    """Whether no branch has been checked out since HEAD was marked."""
    await asyncio.sleep(_HEAD_FOLLOWS)
    user = desk.workshop.user
    return _mark(user.head_file) == head and not user.is_at_work()


def _in_checkout_near(root: Path, gate: Path) -> tuple[str, ...]:
    """The neighbourhoods in the checkout of a gate and what it leads to; none of one that was laid out."""
    if not gate.is_relative_to(root):
        return ()
    steps = [path for path in links.steps(gate) if path.is_relative_to(root)]
    return tuple(_neighbourhood(str(path.relative_to(root))) for path in steps)


async def _marks(desk: Desk, near: Sequence[str]) -> dict[Path, Mark]:
    """The marks of all that git has in some neighbourhoods, and of their folders, where it may add to them.

    Not of `.sf` itself, into which sf writes all the time.
    """
    if not near:
        return {}
    files = _among(await desk.workshop.user.tracked_files(), near)
    folders = _among([str(folder) for name in files for folder in Path(name).parents], near)
    root = desk.project.root
    return {root / name: _mark(root / name) for name in {*near, *files, *folders} - {".sf"}}


def _written_by_git(desk: Desk) -> tuple[Mark, ...]:
    """The marks of what git writes when it checks out a branch, that of HEAD first."""
    user = desk.workshop.user
    return tuple(_mark(path) for path in (user.head_file, *user.index_files))


def _mark(path: Path) -> Mark:
    """What is another once a file, or what a folder lists, was written anew; nothing if it is not there."""
    try:
        found = path.lstat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size
