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

from sf.errors import GitFailed
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


async def at_home(
    base: Path, root: Path, attributes: str
) -> tuple[UserRepository, OwnedRepository, str, Worktree]:
    """A repository of somebody who has attributes for all repositories, with a worktree at its tip."""
    write(base / "home", {".config/git/attributes": attributes})
    environ = {"HOME": str(base / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    user = await UserRepository.open(root, base / "state", Git(), environ=environ)
    owned = await OwnedRepository.open(base / "owned.git", user, Git(), environ=environ)
    tip = (await user.head()).commit
    assert tip is not None
    await owned.fetch(tip)
    worktree, _ = await Worktree.ensure(owned, base / "trees" / "s", "sf/s", tip)
    return user, owned, tip, worktree


async def test_a_difference_is_shown_whatever_attributes_say(tmp_path: Path) -> None:
    """One line beside the tree, and reviewers and the search for markers saw nothing."""
    root = make_user_repository(tmp_path / "project")
    write(root, {".git/info/attributes": "*.py -diff\n", ".gitattributes": "*.py -diff\n"})
    user_git(root, "add", "-A")
    user_git(root, "commit", "-q", "-m", "attributes")
    user, owned, base, worktree = await at_home(tmp_path, root, "*.py binary\n")
    write(worktree.folder, {"a.py": "print()\n"})
    for seen in (owned, OwnedRepository.as_it_is(owned.git_dir, user, Git())):
        assert "+print()" in await seen.diff(base, await worktree.snapshot())
        [change] = await seen.diff_stat(base, await worktree.snapshot())
        assert (change.path, change.added) == ("a.py", 1)


@pytest.mark.parametrize("size", [3, 8, 32])
async def test_the_markers_of_a_merge_are_those_that_are_looked_for(tmp_path: Path, size: int) -> None:
    attributes = {".gitattributes": f"*.lock conflict-marker-size={size}\n"}
    project, head, made = await diverged(tmp_path, attributes, together=True)
    result = await project.owned.merge_trees(head, made)
    assert result.laid_out is not None and result.beside == ()
    changes = await project.owned.diff_stat(head, result.laid_out)
    assert await project.owned.have_markers(changes, result.label)
    assert not await project.owned.have_markers(changes, "another")


def tree_of(project: Project, *entries: str) -> str:
    """A tree of the user's of these entries, each `mode type object<TAB>path`."""
    command = ["git", "-C", str(project.root), "mktree"]
    made = subprocess.run(command, input="\n".join(entries), capture_output=True, text=True, check=True)
    return made.stdout.strip()


@pytest.mark.parametrize(("number", "size"), [(20_000, 1), (200, 1 << 20)])
async def test_more_attributes_than_can_be_followed_are_refused(
    tmp_path: Path, number: int, size: int
) -> None:
    """Thousands of files that are one object stopped everything for as long as it took to write them."""
    project = await Project.make(tmp_path)
    content = ("#" * 1000 + "\n") * (size // 1000) or "#\n"
    (project.root / "attributes").write_text(content)
    blob = user_git(project.root, "hash-object", "-w", "attributes").strip()
    leaf = tree_of(project, f"100644 blob {blob}\t.gitattributes")
    tree = tree_of(project, *(f"040000 tree {leaf}\tf{index}" for index in range(number)))
    bomb = user_git(project.root, "commit-tree", "-m", "bomb", "-p", "HEAD", tree).strip()
    made = await project.next_commit({"a.txt": "a\n"})
    await project.owned.fetch(bomb)
    with pytest.raises(GitFailed, match="more attributes files than a merge can follow"):
        await project.owned.merge_trees(bomb, made)


async def test_attributes_that_cannot_be_read_say_nothing(tmp_path: Path) -> None:
    root = make_user_repository(tmp_path / "project")
    for named in ("x" * 300, str(root / "README.md" / "below"), "/proc/1/root/nothing"):
        user_git(root, "config", "core.attributesFile", named)
        user = await UserRepository.open(root, tmp_path / "state", Git(), environ=ENVIRONMENT)
        assert user.attributes is None


async def test_a_landing_takes_settings_that_are_not_utf8(tmp_path: Path) -> None:
    project = await Project.make(tmp_path)
    home = tmp_path / os.fsdecode(b"h\xe9me")
    write(home, {".config/git/attributes": "*.txt eol=crlf\n"})
    environ = {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    user = await UserRepository.open(project.root, tmp_path / "state", Git(), environ=environ)
    old, new = await project.tip(), await project.next_commit({"added.txt": "one\n"})
    await user.land("main", old, new, project.owned)
    assert (project.root / "added.txt").read_bytes() == b"one\r\n"


async def test_the_agents_git_knows_what_holds_everywhere(tmp_path: Path) -> None:
    root = make_user_repository(tmp_path / "project")
    write(root, {"lines.txt": "one\n"})
    user_git(root, "add", "-A")
    user_git(root, "commit", "-q", "-m", "lines")
    _, _, _, worktree = await at_home(tmp_path, root, "*.txt eol=crlf\n")
    (worktree.folder / "lines.txt").touch()
    assert (worktree.folder / "lines.txt").read_bytes() == b"one\r\n"
    assert user_git(worktree.folder, "status", "--porcelain") == ""
