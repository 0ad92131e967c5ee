"""Commits carried from one object store to another, checked on arrival."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sf.workspaces.git import Call, Git


async def present(git: Git, git_dir: Path, objects: Iterable[str]) -> list[str]:
    """Return those of `objects` that the store holds."""
    wanted = list(dict.fromkeys(objects))
    if not wanted:
        return []
    stdin = "".join(f"{name}\n" for name in wanted).encode()
    output = await git.run("cat-file", "--batch-check", git_dir=git_dir, stdin=stdin)
    return [line.split()[0] for line in output.text().splitlines() if not line.endswith(" missing")]


async def transfer(
    git: Git, source: Path, target: Path, commit: str, *, known: Iterable[str], keep: str | None = None
) -> Path | None:
    """Copy `commit` without what `known` reaches; with `keep`, return the file that guards the new pack."""
    excluded = await present(git, source, known)
    wanted = "".join([f"{commit}\n", *(f"^{name}\n" for name in excluded)]).encode()
    arrival = ["index-pack", "--strict", "--stdin"]
    if keep is not None:
        arrival.append(f"--keep={keep}")
    _, consumed = await git.pipe(
        Call(("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"), source),
        Call(tuple(arrival), target),
        stdin=wanted,
    )
    kind, _, name = consumed.text().partition("\t")
    return target / "objects" / "pack" / f"pack-{name}.keep" if kind == "keep" else None
