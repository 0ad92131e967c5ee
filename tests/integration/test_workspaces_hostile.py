"""Nothing that a repository or an agent leaves behind executes when sf runs git."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sf.workspaces.worktree import Worktree
from tests.integration.test_workspaces_opening import Project, user_git, write


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    return await Project.make(tmp_path)


@pytest.fixture
async def worktree(project: Project) -> Worktree:
    made, created = await Worktree.ensure(
        project.owned, project.base / "trees" / "s1", "sf/m1-s1", await project.tip()
    )
    assert created
    return made


async def names(project: Project, tree: str) -> set[str]:
    return set(await project.owned.files(tree))


HOSTILE_CONFIG = """[core]
\tfsmonitor = {run}
\thooksPath = {hooks}
\tsshCommand = {run}
\tpager = {run}
[filter "evil"]
\tclean = {run}
\tsmudge = {run}
\tprocess = {run}
\trequired = true
[diff "evil"]
\ttextconv = {run}
\tcommand = {run}
[diff]
\texternal = {run}
[merge "evil"]
\tdriver = {run}
[submodule]
\trecurse = true
[uploadpack]
\tpackObjectsHook = {run}
[gpg]
\tprogram = {run}
[commit]
\tgpgSign = true
"""


def make_hostile(git_dir: Path, marker: Path) -> None:
    """Give a git directory configuration and hooks that write `marker` when anything of them executes."""
    run = marker.with_name("run-evil")
    run.write_text(f'#!/bin/sh\necho "$0 $@" >> {marker}\ncat\n')
    run.chmod(0o755)
    hooks = git_dir / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("reference-transaction", "post-index-change", "post-checkout", "post-merge", "pre-commit"):
        shutil.copy(run, hooks / name)
    with (git_dir / "config").open("a") as config:
        config.write(HOSTILE_CONFIG.format(run=run, hooks=hooks))


ATTRIBUTES = "* filter=evil diff=evil merge=evil\n"


async def test_nothing_in_the_users_repository_executes(project: Project) -> None:
    root = project.root
    write(root, {".gitattributes": ATTRIBUTES})
    user_git(root, "add", "-A")
    user_git(root, "commit", "-q", "-m", "attributes")
    make_hostile(root / ".git", project.marker)
    hostile = await Project.make(project.base, root)
    old = await hostile.tip()
    os.utime(root / "src/a.py", (1, 1))
    assert await hostile.user.dirty() == []
    ours = await hostile.next_commit({"src/a.py": "a = 2\n", "x": "1\n"})
    theirs = await hostile.next_commit({"src/a.py": "a = 3\n"})
    await hostile.owned.merge_trees(ours, theirs)
    await hostile.owned.diff(old, ours)
    await hostile.user.keep_branch("sf/kept", ours, hostile.owned)
    await hostile.user.delete_branch("sf/kept", ours)
    assert (await hostile.user.land("main", old, ours, hostile.owned)).checkout
    assert (root / "src/a.py").read_text() == "a = 2\n"
    assert not project.marker.exists(), project.marker.read_text()


async def test_nothing_in_the_agents_folder_executes(project: Project, worktree: Worktree) -> None:
    folder = worktree.folder
    base = await worktree.head()
    make_hostile(folder / ".git", project.marker)
    nested = folder / "nested"
    nested.mkdir()
    user_git(nested, "init", "-q")
    write(nested, {"file": "x\n", ".gitattributes": ATTRIBUTES})
    user_git(nested, "add", "-A")
    user_git(nested, "commit", "-q", "-m", "nested")
    make_hostile(nested / ".git", project.marker)
    write(nested, {"file": "changed\n"})
    modules = '[submodule "nested"]\n\tpath = nested\n\turl = ./nested\n\tignore = none\n\tupdate = !touch\n'
    write(folder, {".gitattributes": ATTRIBUTES, ".gitmodules": modules, "src/a.py": "a = 2\n"})
    await worktree.snapshot()
    await worktree.diff(base)
    assert await worktree.commit("work") is not None
    assert "nested" not in {name.split("/")[0] for name in await names(project, await worktree.head())}
    await worktree.checkout_tree(base)
    await worktree.reset(base)
    write(folder, {"again": "x"})
    await worktree.remove(base)
    assert not project.marker.exists(), project.marker.read_text()


async def test_a_gitlink_with_filters_inside_executes_nothing(project: Project) -> None:
    """Once a gitlink is in the index, plain `git add`, `status` and `diff` run the inner filters."""
    pin = await project.tip()
    user_git(project.root, "update-index", "--add", "--cacheinfo", f"160000,{pin},sub")
    user_git(project.root, "commit", "-q", "-m", "gitlink")
    base = await project.tip()
    await project.owned.fetch(base)
    worktree, _ = await Worktree.ensure(project.owned, project.base / "trees" / "g", "sf/g", base)
    for root in (project.root, worktree.folder):
        inner = root / "sub"
        inner.mkdir(exist_ok=True)
        user_git(inner, "init", "-q")
        write(inner, {"file": "x\n", ".gitattributes": ATTRIBUTES})
        user_git(inner, "add", "-A")
        user_git(inner, "commit", "-q", "-m", "inner")
        make_hostile(inner / ".git", project.marker)
        write(inner, {"file": "y\n"})
    assert await worktree.changes(base) == []
    write(worktree.folder, {"x.py": "x\n"})
    new = await worktree.commit("x")
    assert new is not None
    assert await project.user.dirty() == []
    assert (await project.user.land("main", base, new, project.owned)).checkout
    await worktree.reset(base)
    assert not project.marker.exists(), project.marker.read_text()


async def test_the_hostile_setup_does_execute_under_plain_git(project: Project) -> None:
    """The traps above are live: the same configuration runs when git is called plainly."""
    make_hostile(project.root / ".git", project.marker)
    write(project.root, {".gitattributes": ATTRIBUTES, "src/a.py": "a = 9\n"})
    user_git(project.root, "add", "-A", check=False)
    assert project.marker.exists()
