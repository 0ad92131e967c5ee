"""Packing sf's own repository and parking strangers: what anything names is still there afterwards."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sf.workspaces import _index, packing, rescue
from sf.workspaces.worktree import Worktree
from tests.integration.test_workspaces_opening import Project, user_git, write


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    return await Project.make(tmp_path)


def there(project: Project, name: str) -> bool:
    done = subprocess.run(
        ["git", "cat-file", "-e", name], cwd=project.owned.git_dir, capture_output=True, check=False
    )
    return done.returncode == 0


async def test_what_a_ref_or_an_index_names_survives_and_what_nothing_names_goes(project: Project) -> None:
    tip = await project.tip()
    worktree, _ = await Worktree.ensure(project.owned, project.base / "trees" / "s1", "sf/m1-s1", tip)
    write(worktree.folder, {"only/in/the/index.txt": "not committed\n"})
    staged = await worktree.snapshot()
    kept = await project.owned.commit_tree(staged, [tip], "kept")
    await project.owned.set_ref("refs/sf/rescue/x-1", kept)
    write(worktree.folder, {"gone.txt": "nobody names this\n"})
    lost = await project.owned.commit_tree(await worktree.snapshot(), [tip], "lost")
    (worktree.folder / "gone.txt").unlink()
    write(worktree.folder, {"second.txt": "in the index alone\n"})
    tree = await worktree.snapshot()
    await packing.repack(project.owned, "now")
    assert there(project, kept)
    assert there(project, tree)
    assert there(project, f"{tree}:second.txt")
    assert not there(project, lost)
    assert await project.owned.refs("refs/sf/index/") == {}
    assert await packing.loose(project.owned) == 0
    await packing.repack(project.owned, "now")
    assert await worktree.snapshot() == tree
    assert user_git(worktree.folder, "status", "--porcelain", "-uall").splitlines() == [
        "?? only/in/the/index.txt",
        "?? second.txt",
    ]


async def test_a_damaged_index_keeps_nothing_from_being_packed(project: Project) -> None:
    tip = await project.tip()
    worktree, _ = await Worktree.ensure(project.owned, project.base / "trees" / "s1", "sf/m1-s1", tip)
    write(worktree.folder, {"laid/out.txt": "by nobody's commit\n"})
    tree = await worktree.snapshot()
    await worktree.checkout_tree(tree)
    _index.place(project.owned, worktree.folder).write_bytes(b"DIRC damaged")
    await packing.repack(project.owned, "now")
    assert there(project, f"{tree}:laid/out.txt")
    assert await worktree.snapshot() == tree


async def test_what_nothing_names_stays_while_it_is_young(project: Project) -> None:
    tip = await project.tip()
    young = await project.owned.commit_tree(await project.owned.tree_of(tip), [tip], "young")
    for _ in range(2):
        await packing.repack(project.owned, "30.days.ago")
        assert there(project, young)


async def test_packs_that_are_shared_with_the_user_are_not_copied(tmp_path: Path) -> None:
    made = await Project.make(tmp_path)
    user_git(made.root, "repack", "-adq")
    for pack in (made.root / ".git" / "objects" / "pack").glob("pack-*"):
        target = made.owned.objects / "pack" / pack.name
        target.parent.mkdir(exist_ok=True)
        target.hardlink_to(pack)
    shared = {path.name for path in (made.owned.objects / "pack").iterdir()}
    await packing.repack(made.owned, "now")
    left = list((made.owned.objects / "pack").iterdir())
    assert shared <= {path.name for path in left}
    assert all(path.stat().st_nlink > 1 for path in left if path.suffix == ".pack")


async def test_a_folder_with_a_repository_inside_is_not_parked(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "stranger"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    ref = await rescue.park_folder(project.owned, folder)
    assert ref is not None and await project.owned.files(ref) == ["a.txt"]
    assert await rescue.park_folder(project.owned, folder) != ref
    user_git(folder, "init", "-q", "inner")
    user_git(
        folder / "inner",
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@x",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    )
    assert await rescue.park_folder(project.owned, folder) is None
