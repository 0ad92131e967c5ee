"""What sf's own repository takes over from the user's when it is opened: history's end, what is ignored."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from pathlib import Path

import pytest

from sf.errors import WorkspaceFailed
from sf.workspaces import rescue
from sf.workspaces._refs import read_ref
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.packing import repack
from sf.workspaces.repository import UserRepository
from sf.workspaces.worktree import Worktree
from tests.integration.test_workspaces_opening import Project, make_user_repository, user_git, write


def commit(root: Path, name: str) -> str:
    write(root, {name: f"{name}\n"})
    user_git(root, "add", "-A")
    user_git(root, "commit", "-q", "-m", name)
    return user_git(root, "rev-parse", "HEAD")


async def shallow(tmp_path: Path) -> tuple[Project, list[str]]:
    """A clone of the last of five commits, and the five, newest first."""
    origin = make_user_repository(tmp_path / "origin")
    for number in range(4):
        commit(origin, f"file{number}")
    user_git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", "project")
    project = await Project.make(tmp_path, tmp_path / "project")
    return project, user_git(origin, "rev-list", "HEAD").split()


async def reopened(project: Project) -> OwnedRepository:
    return await OwnedRepository.open(project.owned.git_dir, project.user, Git())


async def seen(owned: OwnedRepository, tip: str) -> list[str]:
    return [entry.id for entry in await owned.log(None, tip)]


async def test_several_units_and_commands_may_fetch_a_branch_that_moved_at_once(tmp_path: Path) -> None:
    project = await Project.make(tmp_path, make_user_repository(tmp_path / "project"))
    other = await reopened(project)
    for number in range(8):
        tip = commit(project.root, f"file{number}")
        await asyncio.gather(*(owned.fetch(tip) for owned in (project.owned, project.owned, other, other)))
        assert await project.owned.refs("refs/sf/base/") == {f"refs/sf/base/{tip}": tip}


async def test_two_that_park_under_one_name_at_once_both_keep_their_work(tmp_path: Path) -> None:
    project = await Project.make(tmp_path, make_user_repository(tmp_path / "project"))
    work = [await project.next_commit({"work": f"{number}\n"}) for number in range(4)]
    refs = await asyncio.gather(*(rescue.park(project.owned, "sf/work", commit) for commit in work))
    kept = await project.owned.refs("refs/sf/rescue/")
    assert sorted(kept) == sorted(refs) and sorted(kept.values()) == sorted(work)


async def test_a_clone_that_is_deepened_and_made_whole_stays_whole_in_sfs_own(tmp_path: Path) -> None:
    project, history = await shallow(tmp_path)
    work = await project.next_commit({"work": "1\n"})
    await project.owned.set_ref("refs/heads/sf/work", work)
    assert await seen(project.owned, work) == [work, history[0]]
    user_git(project.root, "fetch", "-q", "--deepen=2")
    owned = await reopened(project)
    assert await seen(owned, work) == [work, *history[:3]]
    user_git(project.root, "fetch", "-q", "--unshallow")
    later = commit(project.root, "later")
    owned = await reopened(project)
    await owned.fetch(later)
    assert await seen(owned, work) == [work, *history]
    assert (await owned.merge_trees(later, work)).tree is not None
    await repack(owned, "now")
    user_git(owned.git_dir, "fsck", "--strict", "--connectivity-only")


async def test_a_clone_made_whole_while_sf_has_it_open_is_followed_by_the_next_fetch(tmp_path: Path) -> None:
    project, history = await shallow(tmp_path)
    user_git(project.root, "fetch", "-q", "--unshallow")
    user_git(project.root, "switch", "-q", "-c", "old", history[3])
    commit(project.root, "beside")
    user_git(project.root, "switch", "-q", "main")
    user_git(project.root, "merge", "-q", "--no-edit", "old")
    await project.owned.fetch(await project.tip())
    assert set(history) <= set(await seen(project.owned, await project.tip()))
    user_git(project.owned.git_dir, "fsck", "--strict", "--connectivity-only")


async def test_a_graft_stays_when_the_history_behind_it_cannot_be_had(tmp_path: Path) -> None:
    project, history = await shallow(tmp_path)
    user_git(project.root, "checkout", "-q", "--orphan", "anew")
    user_git(project.root, "commit", "-q", "-m", "anew")
    user_git(project.root, "branch", "-D", "main")
    user_git(project.root, "remote", "remove", "origin")
    user_git(project.root, "reflog", "expire", "--expire=now", "--all")
    user_git(project.root, "gc", "-q", "--prune=now")
    assert not (project.root / ".git/shallow").exists(), "nothing that is left is grafted"
    owned = await reopened(project)
    assert await seen(owned, history[0]) == history[:1]
    await repack(owned, "now")
    user_git(owned.git_dir, "fsck", "--strict", "--connectivity-only")


async def test_a_repository_that_lost_its_graft_is_put_right(tmp_path: Path) -> None:
    project, history = await shallow(tmp_path)
    user_git(project.root, "fetch", "-q", "--unshallow")
    for name in ("shallow", "sf-shallow"):
        (project.owned.git_dir / name).unlink(missing_ok=True)
    broken = user_git(project.owned.git_dir, "rev-list", "--all", check=False).split()
    assert history[1] not in broken
    owned = await reopened(project)
    assert await seen(owned, history[0]) == history
    user_git(owned.git_dir, "fsck", "--strict", "--connectivity-only")


async def ignored(project: Project, environ: dict[str, str], *names: str) -> list[str]:
    """Those of `names` that a worktree made now does not take up."""
    user = await UserRepository.open(project.root, project.base / "state", Git())
    owned = await OwnedRepository.open(project.owned.git_dir, user, Git(), environ=environ)
    folder = project.base / "worktrees" / secrets.token_hex(4)
    worktree, _ = await Worktree.ensure(owned, folder, f"sf/{folder.name}", await project.tip())
    write(folder, dict.fromkeys(names, "x\n"))
    taken = await owned.files(await worktree.snapshot())
    return [name for name in names if name not in taken]


async def test_the_users_own_ignore_file_is_heard_wherever_git_finds_it(tmp_path: Path) -> None:
    project = await Project.make(tmp_path)
    home = tmp_path / "home"
    environ = {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ("default", "xdg", "included", "user", "local")
    assert await ignored(project, environ, *names) == []
    write(home, {f"of-{name}": f"{name}\n" for name in names})
    write(home, {".config/git/ignore": "default\n"})
    assert await ignored(project, environ, *names) == ["default"]
    write(home, {".config/git/config": "[core]\n\texcludesFile = ~/of-xdg\n"})
    assert await ignored(project, environ, *names) == ["xdg"]
    write(home, {".gitconfig": "[include]\n\tpath = ~/more\n", "more": "[CORE]\nexcludesfile=~/of-included"})
    assert await ignored(project, environ, *names) == ["included"]
    write(home, {".gitconfig": f"[include]\npath = more\n[core]\nexcludesFile = {home}/of-user\n"})
    assert await ignored(project, environ, *names) == ["user"]
    user_git(project.root, "config", "core.excludesFile", str(home / "of-local"))
    assert await ignored(project, environ, *names) == ["local"]


async def test_what_a_repository_ignores_outweighs_what_is_ignored_everywhere(tmp_path: Path) -> None:
    project = await Project.make(tmp_path)
    environ = {"HOME": str(tmp_path / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    write(tmp_path / "home", {".config/git/ignore": "*.env\nwanted\n" + "# filler\n" * 200_000 + "late\n"})
    write(project.root / ".git/info", {"exclude": "!wanted"})
    assert await ignored(project, environ, ".env", "wanted", "late") == [".env"], "a MiB is read, not more"


async def test_a_configuration_that_git_cannot_read_names_no_ignore_file(tmp_path: Path) -> None:
    project = await Project.make(tmp_path)
    environ = {"HOME": str(tmp_path / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    write(tmp_path / "home", {".gitconfig": "[core\nexcludesFile"})
    assert await ignored(project, environ, ".env") == []


async def test_line_endings_that_the_user_wants_everywhere_are_no_change(tmp_path: Path) -> None:
    project = await Project.make(tmp_path)
    root, home = project.root, tmp_path / "home"
    environ = {"HOME": str(home), "GIT_CONFIG_SYSTEM": str(tmp_path / "system")}

    async def opened() -> UserRepository:
        return await UserRepository.open(root, tmp_path / "state", Git(), environ=environ)

    write(tmp_path, {"system": "[core]\n\tautocrlf = false\n"})
    write(home, {".gitconfig": "[core]\n\tautocrlf = Yes\n\tpager = touch never\n"})
    (root / "src/a.py").unlink()
    user_git(root, "-c", "core.autocrlf=true", "checkout", "-q", "src/a.py")
    os.utime(root / "src/a.py", (1, 1))
    user = await opened()
    assert await user.dirty() == []
    # Somebody for whom no such setting holds looks at the repository meanwhile.
    await UserRepository.open(root, tmp_path / "state", Git(), environ={"HOME": str(tmp_path / "nowhere")})
    old = await project.tip()
    await user.land("main", old, await project.next_commit({"src/b.py": "b = 2\n"}), project.owned)
    assert (root / "src/b.py").read_bytes() == b"b = 2\r\n"
    assert user_git(root, "-c", "core.autocrlf=true", "status", "--porcelain") == ""
    user_git(root, "config", "core.autocrlf", "input")
    last = await project.next_commit({"src/b.py": "b = 3\n"})
    await (await opened()).land("main", await project.tip(), last, project.owned)
    assert (root / "src/b.py").read_bytes() == b"b = 3\n", "the repository's own value wins"


async def test_a_ref_that_has_a_file_is_read_without_a_process(tmp_path: Path) -> None:
    project = await Project.make(tmp_path)
    tip, owned = await project.tip(), project.owned
    await owned.set_ref("refs/heads/sf/a1", tip)
    no_git = Git(search_path=str(tmp_path / "nowhere"))
    assert await read_ref(no_git, owned.git_dir, "refs/heads/sf/a1") == tip
    (owned.git_dir / "refs" / "heads" / "sf" / "a2").write_text("ref: refs/heads/sf/a1\n")
    assert await read_ref(owned.git, owned.git_dir, "refs/heads/sf/a2") == tip, "git follows it"
    for name in ("refs/heads/sf/./a1", "refs/heads/sf/../sf/a1", "refs/heads/sf/a1/", "refs/heads//sf/a1"):
        assert await read_ref(owned.git, owned.git_dir, name) is None, name
    await owned.git.run("pack-refs", "--all", git_dir=owned.git_dir)
    with pytest.raises(WorkspaceFailed):
        await read_ref(no_git, owned.git_dir, "refs/heads/sf/a1")


async def test_a_ref_whose_commit_is_lost_counts_as_none(tmp_path: Path) -> None:
    project = await Project.make(tmp_path)
    lost = await project.next_commit({"a.txt": "a\n"})
    await project.owned.set_ref("refs/heads/sf/a1", lost)
    (project.owned.git_dir / "objects" / lost[:2] / lost[2:]).unlink()
    assert await read_ref(project.owned.git, project.owned.git_dir, "refs/heads/sf/a1") is None


@pytest.mark.parametrize("kept", ["as another's name", "packed"])
async def test_a_ref_that_git_could_not_read_once_is_not_taken_for_absent(tmp_path: Path, kept: str) -> None:
    """As git does when it is out of descriptors: it says that there is no such ref."""
    project = await Project.make(tmp_path)
    tip = await project.tip()
    await project.owned.set_ref("refs/heads/sf/a0", tip)
    if kept == "packed":
        await project.owned.set_ref("refs/heads/sf/a1", tip)
        await project.owned.git.run("pack-refs", "--all", git_dir=project.owned.git_dir)
    else:
        (project.owned.git_dir / "refs" / "heads" / "sf" / "a1").write_text("ref: refs/heads/sf/a0\n")
    failed, real = tmp_path / "failed", shutil.which("git")
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\n[ -e {failed} ] && exec {real} "$@"\necho > {failed}\n'
        "echo \"fatal: 'refs/heads/sf/a1' - not a valid ref\" >&2\nexit 128\n"
    )
    wrapper.chmod(0o755)
    git = Git(search_path=f"{wrapper.parent}:/usr/local/bin:/usr/bin:/bin")
    assert await read_ref(git, project.owned.git_dir, "refs/heads/sf/a1") == tip
    assert failed.exists()
    assert await read_ref(git, project.owned.git_dir, "refs/heads/sf/none") is None
    assert await read_ref(git, project.owned.git_dir, "refs/heads/sf") is None
