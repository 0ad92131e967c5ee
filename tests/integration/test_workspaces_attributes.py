"""What a repository says of its paths, in whichever file: merges, line endings and landings follow it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Awaitable
from pathlib import Path

import pytest

from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository
from sf.workspaces.worktree import Worktree
from tests.integration.test_workspaces_opening import (
    ENVIRONMENT,
    Project,
    make_user_repository,
    user_git,
    write,
)

LINES = [f"line {number}\n" for number in range(30)]
LOCK = "deep/dep.lock"


def both_sides(together: bool) -> tuple[str, str]:
    """Two changes of one file: at one place, or far enough from each other to be merged by lines."""
    ours = [*LINES, "ours\n"] if together else ["ours\n", *LINES]
    return "".join(ours), "".join([*LINES, "theirs\n"])


async def diverged(base: Path, attributes: dict[str, str], together: bool) -> tuple[Project, str, str]:
    """A project whose user and whose sf have changed the same file, and both commits."""
    root = make_user_repository(base / "project")
    write(root, {**attributes, LOCK: "".join(LINES)})
    user_git(root, "add", "-A")
    user_git(root, "commit", "-q", "-m", "lock")
    project = await Project.make(base, root)
    ours, theirs = both_sides(together)
    made = await project.next_commit({LOCK: theirs})
    write(root, {LOCK: ours})
    user_git(root, "commit", "-q", "-a", "-m", "user")
    head = await project.tip()
    await project.owned.fetch(head)
    return project, head, made


def merged_by_git(project: Project, commit: str) -> bool:
    """Whether the user's own git would merge a commit of sf's."""
    user_git(project.root, "fetch", "-q", str(project.owned.git_dir), f"{commit}:refs/sf-theirs")
    return "CONFLICT" not in user_git(project.root, "merge", "--no-edit", "refs/sf-theirs", check=False)


@pytest.mark.parametrize("place", [".gitattributes", "deep/.gitattributes"])
@pytest.mark.parametrize(
    ("attribute", "together", "clean"),
    [
        ("binary", False, False),
        ("-merge", False, False),
        ("merge=binary", False, False),
        ("merge=union", True, True),
        ("text", False, True),
        ("text", True, False),
    ],
)
async def test_a_merge_follows_the_attributes_as_the_users_git_does(
    tmp_path: Path, place: str, attribute: str, together: bool, clean: bool
) -> None:
    project, head, made = await diverged(tmp_path, {place: f"*.lock {attribute}\n"}, together)
    user_git(project.owned.git_dir, "update-ref", "refs/heads/theirs", made)
    result = await project.owned.merge_trees(head, made)
    assert (result.tree is not None) == clean
    assert clean == merged_by_git(project, "refs/heads/theirs")
    assert list((project.owned.git_dir / "attributes").iterdir()) == []


async def test_attributes_that_a_kill_left_lying_about_are_cleared(tmp_path: Path) -> None:
    project = await Project.make(tmp_path)
    write(project.owned.git_dir / "attributes" / "ab", {"deep/.gitattributes": "* binary\n"})
    project.owned.clear_locks()
    assert list((project.owned.git_dir / "attributes").iterdir()) == []


@pytest.mark.parametrize("place", ["info", "everywhere", "named"])
async def test_line_endings_that_attributes_ask_for_are_no_change(tmp_path: Path, place: str) -> None:
    root, home = make_user_repository(tmp_path / "project"), tmp_path / "home"
    environ = {**ENVIRONMENT, "HOME": str(home)}
    environ.pop("GIT_CONFIG_GLOBAL")
    folders = {"info": root / ".git/info/attributes", "everywhere": home / ".config/git/attributes"}
    write(tmp_path, {str(folders.get(place, home / "mine")): "*.bat text eol=crlf\n"})
    if place == "named":
        write(home, {".gitconfig": "[core]\n\tattributesFile = ~/mine\n"})

    def git(*args: str) -> str:
        return subprocess.run(
            ["git", *args], cwd=root, env=environ, capture_output=True, text=True, check=True
        ).stdout

    (root / "run.bat").write_bytes(b"a\r\nb\r\n")
    git("add", "-A")
    git("commit", "-q", "-m", "bat")
    os.utime(root / "run.bat", (1, 1))
    user = await UserRepository.open(root, tmp_path / "state", Git(), environ=environ)
    owned = await OwnedRepository.open(tmp_path / "owned.git", user, Git(), environ=environ)
    assert await user.dirty() == []
    tip = (await user.head()).commit
    assert tip is not None
    await owned.fetch(tip)
    worktree, _ = await Worktree.ensure(owned, tmp_path / "trees" / "s", "sf/s", tip)
    assert (worktree.folder / "run.bat").read_bytes() == b"a\r\nb\r\n"
    (worktree.folder / "new.bat").write_bytes(b"x\r\ny\r\n")
    commit = await worktree.commit("work")
    assert commit is not None
    assert await owned.show_file(commit, "new.bat", 100) == b"x\ny\n"
    await user.land("main", tip, commit, owned)
    os.utime(root / "new.bat", (1, 1))
    assert git("status", "--porcelain") == "" and await user.dirty() == []


async def watched(journal: Path, landing: Awaitable[object]) -> bytes:
    """Let a landing come to its end; the last that its journal said."""
    task, seen = asyncio.ensure_future(landing), b""
    while not task.done():
        with contextlib.suppress(FileNotFoundError):
            seen = journal.read_bytes()
        await asyncio.sleep(0.001)
    await task
    return seen


async def test_a_landing_is_undone_with_the_settings_that_it_was_begun_with(tmp_path: Path) -> None:
    """Whoever starts next may have another HOME: what sf wrote is no edit of the user's for that."""
    project = await Project.make(tmp_path)
    root, state, old = project.root, tmp_path / "state", await project.tip()
    new = await project.next_commit({"README.md": "landed\n", "added.txt": "one\ntwo\n"})
    write(tmp_path / "home", {".gitconfig": "[core]\n\tautocrlf = true\n"})
    environ = {"HOME": str(tmp_path / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    user = await UserRepository.open(root, state, Git(), environ=environ)
    said = await watched(state / "landing.json", user.land("main", old, new, project.owned))
    assert (root / "added.txt").read_bytes() == b"one\r\ntwo\r\n"
    # As a kill leaves it when all files are written and the branch has not moved.
    (state / "landing").mkdir(exist_ok=True)
    shutil.copyfile(root / ".git/index", state / "landing/index")
    user_git(root, "read-tree", old)
    user_git(root, "update-ref", "refs/heads/main", old)
    (state / "landing.json").write_text(json.dumps({**json.loads(said), "step": "moving"}))
    assert "undone" in (await project.user.recover_landing() or "")
    assert user_git(root, "-c", "core.autocrlf=true", "status", "--porcelain") == ""
    assert not (root / "added.txt").exists()


async def test_what_guarded_a_branch_of_a_killed_command_is_removed_in_time(tmp_path: Path) -> None:
    project = await Project.make(tmp_path)
    pack = project.root / ".git/objects/pack"
    write(pack, {"pack-a.keep": "sf branch\n", "pack-b.keep": "sf branch\n", "pack-c.keep": "the user's\n"})
    for name in ("pack-a.keep", "pack-c.keep"):
        os.utime(pack / name, (1, 1))
    await project.user.recover_landing()
    assert sorted(path.name for path in pack.glob("*.keep")) == ["pack-b.keep", "pack-c.keep"]
