"""A worktree keeps what an agent does in it and obeys nothing that the agent leaves there."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from sf.errors import GitFailed, WorkspaceFailed
from sf.workspaces import _index, packing, rescue
from sf.workspaces.worktree import Worktree, checkout_folder, clear_place, remove_folder
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


async def test_an_agent_sees_an_ordinary_repository(worktree: Worktree) -> None:
    folder = worktree.folder
    assert user_git(folder, "status", "--porcelain") == ""
    assert user_git(folder, "branch", "--show-current") == "sf/m1-s1"
    assert user_git(folder, "log", "--format=%s") == "first"
    write(folder, {"src/a.py": "a = 2\n"})
    assert "+a = 2" in user_git(folder, "diff")


async def test_commits_hold_the_folder_and_leave_ignored_files_out(
    project: Project, worktree: Worktree
) -> None:
    base = await worktree.head()
    assert await worktree.commit("nothing") is None
    write(worktree.folder, {"src/a.py": "a = 2\n", "new/file.py": "n\n", "debug.log": "ignored\n"})
    (worktree.folder / "src/b.py").unlink()
    (worktree.folder / "link").symlink_to("/etc/passwd")
    commit = await worktree.commit("work\n\nbody")
    assert commit is not None and commit == await worktree.head()
    assert await names(project, commit) == {".gitignore", "README.md", "src/a.py", "new/file.py", "link"}
    assert {change.path: (change.status, change.new_mode) for change in await worktree.changes(base)} == {
        "link": ("A", "120000"),
        "new/file.py": ("A", "100644"),
        "src/a.py": ("M", "100644"),
        "src/b.py": ("D", "000000"),
    }
    assert "+a = 2" in await worktree.diff(base)
    assert user_git(worktree.folder, "log", "--format=%s") == "work\nfirst"
    assert user_git(worktree.folder, "status", "--porcelain") == ""


async def test_a_crashed_attempts_changes_stay(project: Project, worktree: Worktree) -> None:
    write(worktree.folder, {"half.py": "half\n"})
    again, created = await Worktree.ensure(project.owned, worktree.folder, worktree.branch, "0" * 40)
    assert not created
    assert "half.py" in await names(project, await again.snapshot())


async def test_a_lost_folder_is_made_again_from_the_branch(project: Project, worktree: Worktree) -> None:
    write(worktree.folder, {"kept.py": "k\n"})
    await worktree.commit("kept")
    shutil.rmtree(worktree.folder)
    with pytest.raises(WorkspaceFailed, match="is gone"):
        await worktree.snapshot()
    again, created = await Worktree.ensure(project.owned, worktree.folder, worktree.branch, "0" * 40)
    assert created and (again.folder / "kept.py").exists()


async def test_a_file_in_the_folders_place_gives_way(project: Project) -> None:
    place = project.base / "trees" / "file"
    place.parent.mkdir()
    place.write_text("in the way")
    _, created = await Worktree.ensure(project.owned, place, "sf/file", await project.tip())
    assert created and (place / "README.md").exists()


async def test_reset_restores_exactly_and_keeps_ignored_files(project: Project, worktree: Worktree) -> None:
    base = await worktree.head()
    write(worktree.folder, {"new.py": "n\n", "src/a.py": "x\n", "debug.log": "ignored\n", "deep/er/x": "x"})
    await worktree.commit("one")
    write(worktree.folder, {"late.py": "l\n"})
    user_git(worktree.folder, "init", "-q", "nested")
    (worktree.folder / "src/b.py").unlink()
    (worktree.folder / "src/b.py").mkdir()
    await worktree.reset(base)
    assert await worktree.head() == base
    assert await worktree.snapshot() == await project.owned.tree_of(base)
    assert not (worktree.folder / "late.py").exists() and not (worktree.folder / "nested").exists()
    assert (worktree.folder / "debug.log").exists()
    assert user_git(worktree.folder, "status", "--porcelain") == ""


async def test_a_conflict_can_be_laid_into_the_folder(project: Project, worktree: Worktree) -> None:
    write(worktree.folder, {"src/a.py": "a = 2\n"})
    ours = await worktree.commit("ours")
    assert ours is not None
    theirs = await project.next_commit({"src/a.py": "a = 3\n"})
    merged = await project.owned.merge_trees(ours, theirs)
    assert merged.laid_out is not None
    await worktree.checkout_tree(merged.laid_out)
    assert "<<<<<<<" in (worktree.folder / "src/a.py").read_text()
    assert await worktree.head() == ours


async def test_a_clean_landed_worktree_goes_without_a_trace(project: Project, worktree: Worktree) -> None:
    write(worktree.folder, {"x.py": "x\n"})
    commit = await worktree.commit("x")
    assert commit is not None
    assert await worktree.remove(commit) is None
    assert not worktree.folder.exists()
    assert await project.owned.ref(worktree.ref) is None
    assert await project.owned.refs("refs/sf/rescue/") == {}
    assert list((project.owned.git_dir / "worktrees").iterdir()) == []


async def test_unlanded_or_dirty_work_is_parked_before_removal(project: Project, worktree: Worktree) -> None:
    base = await worktree.head()
    write(worktree.folder, {"x.py": "x\n"})
    commit = await worktree.commit("x")
    write(worktree.folder, {"dirty.py": "d\n"})
    rescue = await worktree.remove(base)
    assert rescue == "refs/sf/rescue/sf_m1-s1-1"
    kept = await project.owned.ref(rescue)
    assert kept is not None and commit is not None
    assert {"x.py", "dirty.py"} <= await names(project, kept)
    assert await project.owned.is_ancestor(commit, kept)
    assert await project.owned.ref(worktree.ref) == commit


async def test_a_plain_folder_for_gates(project: Project) -> None:
    folder = project.base / "gates" / "g1"
    commit = await project.next_commit({"merged.py": "m\n"})
    for _ in range(2):
        await checkout_folder(project.owned, folder, commit)
        assert (folder / "merged.py").exists()
        assert user_git(folder, "status", "--porcelain") == ""
        assert user_git(folder, "rev-parse", "HEAD") == commit
        write(folder, {"left.py": "behind"})
    await remove_folder(project.owned, folder)
    assert not folder.exists()


@pytest.mark.parametrize("damage", ["deleted", "file", "link", "dangling link", "closed"])
async def test_the_agents_git_is_never_read_nor_kept(
    project: Project, worktree: Worktree, damage: str
) -> None:
    place = worktree.folder / ".git"
    elsewhere = project.base / "elsewhere"
    shutil.move(place, elsewhere)
    if damage == "file":
        place.write_text("gitdir: /nonexistent")
    elif damage.endswith("link"):
        place.symlink_to(elsewhere if damage == "link" else "/nonexistent")
    elif damage == "closed":
        place.mkdir(mode=0o000)
    write(worktree.folder, {"x.py": "x\n"})
    commit = await worktree.commit("x")
    assert commit is not None and "x.py" in await names(project, commit)
    assert not any(name.startswith(".git/") or name == ".git" for name in await names(project, commit))
    assert user_git(worktree.folder, "status", "--porcelain") == ""
    assert (elsewhere / "HEAD").exists()


async def test_special_files_neither_hang_nor_enter(project: Project, worktree: Worktree) -> None:
    folder = worktree.folder
    for place in (folder / ".gitattributes", folder / "src/.gitignore", folder / "pipe"):
        os.mkfifo(place)
    (folder / "README.md").unlink()
    os.mkfifo(folder / "README.md")
    (folder / "nested/.git").mkdir(parents=True)
    os.mkfifo(folder / "nested/.git/HEAD")
    write(folder, {"nested/file": "n\n", "src/a.py": "a = 2\n"})
    tree = await worktree.snapshot()
    assert await names(project, tree) == {".gitignore", "src/a.py", "src/b.py", "nested/file"}
    assert (folder / "pipe").is_fifo()


async def test_swaps_of_files_folders_and_links(project: Project, worktree: Worktree) -> None:
    folder = worktree.folder
    (folder / "README.md").unlink()
    write(folder, {"README.md/inner": "i\n"})
    (folder / "src").rename(folder / "moved")
    (folder / "src").symlink_to("moved")
    write(folder, {"moved/a.py": "a = 5\n"})
    assert await names(project, await worktree.snapshot()) == {
        *(".gitignore", "README.md/inner", "src", "moved/a.py", "moved/b.py")
    }
    write(folder, {".gitignore": "src\n"})
    (folder / "src").unlink()
    (folder / "src").write_text("ignored file where a folder was")
    assert "src/a.py" not in await names(project, await worktree.snapshot())


async def test_names_that_git_refuses_do_not_stop_the_snapshot(project: Project, worktree: Worktree) -> None:
    write(
        worktree.folder,
        {".GIT/config": "[core]\n", "git~1": "x", "fine.py": "f\n", "odd\nname": "o", "-x": "d"},
    )
    (worktree.folder / ".gitmodules").symlink_to("README.md")
    found = await names(project, await worktree.snapshot())
    assert {"fine.py", "odd\nname", "-x"} <= found
    assert not found & {".GIT/config", "git~1", ".gitmodules"}


async def test_a_gitlink_stays_what_was_committed(project: Project) -> None:
    inner = project.base / "inner"
    inner.mkdir()
    user_git(inner, "init", "-q")
    user_git(inner, "commit", "-q", "--allow-empty", "-m", "inner")
    pin = user_git(inner, "rev-parse", "HEAD")
    user_git(project.root, "update-index", "--add", "--cacheinfo", f"160000,{pin},sub")
    write(project.root, {".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = ./inner\n\tignore = all\n'})
    user_git(project.root, "add", ".gitmodules")
    user_git(project.root, "commit", "-q", "-m", "submodule")
    base = await project.tip()
    await project.owned.fetch(base)
    worktree, _ = await Worktree.ensure(project.owned, project.base / "trees" / "g", "sf/g", base)
    assert await worktree.changes(base) == []
    shutil.rmtree(worktree.folder / "sub")
    user_git(worktree.folder, "clone", "-q", str(inner), "sub")
    user_git(worktree.folder / "sub", "commit", "-q", "--allow-empty", "-m", "ahead")
    assert await worktree.changes(base) == []
    shutil.rmtree(worktree.folder / "sub")
    assert [(c.path, c.old_mode, c.status) for c in await worktree.changes(base)] == [("sub", "160000", "D")]


@pytest.mark.parametrize("seed", range(6))
async def test_snapshots_equal_what_git_add_would_make(
    project: Project, worktree: Worktree, seed: int
) -> None:
    chance = random.Random(seed)
    folder = worktree.folder
    pool = [f"{a}{b}" for a in ("", "d/", "d/e/", "src/") for b in ("a.py", "b", "c.log", "d", "e")]
    for _ in range(5):
        for name in chance.sample(pool, 8):
            mutate(folder, name, chance)
        reference = project.base / "reference"
        shutil.rmtree(reference, ignore_errors=True)
        shutil.copytree(folder, reference, symlinks=True)
        user_git(reference, "add", "-A")
        assert await worktree.snapshot() == user_git(reference, "write-tree")
        if chance.random() < 0.5:
            await worktree.commit("step")


def mutate(folder: Path, name: str, chance: random.Random) -> None:
    place = folder / name
    if any(parent.is_symlink() or parent.is_file() for parent in place.parents if parent != folder):
        return
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    kind = chance.choice(["file", "file", "gone", "link", "script"])
    if kind == "gone":
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        place.symlink_to(chance.choice(["src", "README.md", "/etc/hosts"]))
        return
    place.write_text(str(chance.random()))
    place.chmod(0o755 if kind == "script" else 0o644)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_closed_files_and_folders_are_read_all_the_same(project: Project, worktree: Worktree) -> None:
    write(worktree.folder, {"shut/in.py": "i\n", "shut.py": "s\n"})
    (worktree.folder / "shut.py").chmod(0o000)
    (worktree.folder / "shut").chmod(0o000)
    assert {"shut/in.py", "shut.py"} <= await names(project, await worktree.snapshot())


async def test_what_is_set_aside_together_does_not_meet(project: Project, tmp_path: Path) -> None:
    found = {".sub/x": "one\n", "sub/x": "two\n", "git/y": "three\n"}
    write(tmp_path / "folder", found)
    place = rescue.set_aside(project.owned, tmp_path / "folder", list(found))
    assert place is not None
    assert {name: (place / name).read_text() for name in found} == found


async def test_a_file_whose_object_a_full_disk_refused_is_read_anew(
    project: Project, worktree: Worktree
) -> None:
    """Git enters it all the same, and says nothing."""
    write(worktree.folder, {".gitignore": "*.log\n", "kept.log": "tracked before it was ignored\n"})
    entered = [".gitignore", "kept.log"]
    await project.owned.git.run(
        *("update-index", "--add", "-z", "--stdin"),
        git_dir=project.owned.git_dir,
        work_tree=worktree.folder,
        index=_index.place(project.owned, worktree.folder),
        stdin="".join(f"{name}\0" for name in entered).encode(),
    )
    whole = await worktree.snapshot()
    for name in entered:
        object_id = user_git(worktree.folder, "hash-object", name)
        (project.owned.git_dir / "objects" / object_id[:2] / object_id[2:]).unlink()
    write(worktree.folder, {"new.py": "n\n"})
    assert set(entered) <= await names(project, await worktree.snapshot())
    (worktree.folder / "new.py").unlink()
    assert await worktree.snapshot() == whole
    for name in entered:
        content = await project.owned.git.run("show", f"{whole}:{name}", git_dir=project.owned.git_dir)
        assert content.stdout == (worktree.folder / name).read_bytes()


@pytest.mark.parametrize("damage", [b"", b"DIRC damaged", b"\0" * 4096])
async def test_a_damaged_private_index_is_made_anew(
    project: Project, worktree: Worktree, damage: bytes
) -> None:
    write(worktree.folder, {"src/a.py": "a = 2\n", "new.py": "n\n"})
    whole = await worktree.snapshot()
    index = _index.place(project.owned, worktree.folder)
    index.write_bytes(damage)
    assert await worktree.snapshot() == whole
    assert await worktree.strangers() == [] and not list(index.parent.glob("*.brief"))


async def test_an_index_that_is_made_anew_knows_the_ignored_files_of_what_was_laid_out(
    project: Project, worktree: Worktree
) -> None:
    """A merge that was laid out, and then committed without them, deleted them."""
    write(project.root, {"debug.log": "tracked on main although it is ignored\n"})
    user_git(project.root, "add", "--force", "debug.log")
    user_git(project.root, "commit", "-qm", "log")
    await project.owned.fetch(await project.tip())
    theirs = await project.owned.tree_of(await project.tip())
    await worktree.checkout_tree(theirs)
    index = _index.place(project.owned, worktree.folder)
    index.write_bytes(b"DIRC damaged")
    index.with_name(f"{index.name}.brief.lock").touch()
    assert await worktree.snapshot() == theirs
    index.unlink()
    await Worktree.ensure(project.owned, worktree.folder, worktree.branch, await worktree.head())
    assert await worktree.snapshot() == theirs
    await remove_folder(project.owned, worktree.folder)
    index.with_name(f".{index.stem}.laid-out.012345.new").touch()
    index.with_name(f"{index.name}.brief").write_bytes(b"of one that was killed")
    project.owned.clear_locks()
    assert not [path for path in index.parent.iterdir() if index.stem in path.name]


async def test_an_index_that_is_made_anew_knows_nothing_that_was_taken_out_by_what_was_laid_out(
    project: Project,
) -> None:
    """A merge took a built file out, which is ignored now; the build made it again, and it was committed."""
    write(project.root, {"built.log": "tracked, and ignored\n"})
    user_git(project.root, "add", "--force", "built.log")
    user_git(project.root, "commit", "-qm", "with it")
    tip = await project.tip()
    await project.owned.fetch(tip)
    made, _ = await Worktree.ensure(project.owned, project.base / "trees" / "s2", "sf/m1-s2", tip)
    user_git(project.root, "rm", "-q", "built.log")
    user_git(project.root, "commit", "-qm", "without it")
    await project.owned.fetch(await project.tip())
    theirs = await project.owned.tree_of(await project.tip())
    await made.checkout_tree(theirs)
    write(made.folder, {"built.log": "TOKEN=secret\n"})
    _index.place(project.owned, made.folder).unlink()
    await packing.repack(project.owned, "now")
    made, is_new = await Worktree.ensure(project.owned, made.folder, made.branch, tip)
    assert not is_new and await made.snapshot() == theirs


async def test_an_index_that_is_made_anew_knows_nothing_that_the_branch_has_left_behind(
    project: Project,
) -> None:
    """It brought a submodule back over the files in its place, and put what is ignored into trees."""
    user_git(project.root, "init", "-q", "sub")
    write(project.root, {"sub/x.py": "x\n", "debug.log": "tracked on main although it is ignored\n"})
    user_git(project.root / "sub", "add", "-A")
    user_git(project.root / "sub", "commit", "-qm", "sub")
    user_git(project.root, "add", "--force", "sub", "debug.log")
    user_git(project.root, "commit", "-qm", "both")
    tip = await project.tip()
    await project.owned.fetch(tip)
    made, _ = await Worktree.ensure(project.owned, project.base / "trees" / "s2", "sf/m1-s2", tip)
    await made.reset(tip)
    shutil.rmtree(made.folder / "sub", ignore_errors=True)
    (made.folder / "debug.log").unlink()
    await made.commit("neither")
    write(made.folder, {"sub/x.py": "vendored\n", "debug.log": "TOKEN=secret\n"})
    await made.commit("vendored")
    whole = await made.snapshot()
    assert {"sub/x.py"} == {"sub/x.py", "debug.log"} & await names(project, whole)
    _index.place(project.owned, made.folder).write_bytes(b"DIRC damaged")
    assert await made.snapshot() == whole


async def test_a_lock_of_a_killed_git_keeps_no_conflict_from_being_laid_out(project: Project) -> None:
    deleted, changed = [await project.next_commit({"src/a.py": each}) for each in (None, "changed\n")]
    git, git_dir = project.owned.git, project.owned.git_dir
    merged = await project.owned.merge_trees(deleted, changed)
    assert merged.beside
    output = await git.run("merge-tree", "--write-tree", deleted, changed, git_dir=git_dir, ok=(0, 1))
    (git_dir / "worktrees" / f"beside-{output.text().split()[0]}.index.lock").touch()
    assert await project.owned.merge_trees(deleted, changed) == merged


async def test_a_whole_private_index_stays_whatever_else_keeps_git_from_its_work(
    project: Project, worktree: Worktree
) -> None:
    index, config = _index.place(project.owned, worktree.folder), project.owned.git_dir / "config"
    before, settings = index.read_bytes(), config.read_text()
    config.write_text("[core\n")
    with pytest.raises(GitFailed):
        await worktree.snapshot()
    assert index.read_bytes() == before
    config.write_text(settings)
    assert await worktree.snapshot()


async def test_commits_that_only_a_linked_worktree_has_out_are_kept(project: Project, tmp_path: Path) -> None:
    place, linked = tmp_path / "trees" / "task_a1", tmp_path / "linked"
    place.parent.mkdir(exist_ok=True)
    user_git(tmp_path, "clone", "-q", str(project.root), str(place))
    user_git(place, "worktree", "add", "-q", "--detach", str(linked))
    write(linked, {"day.txt": "a day's work\n"})
    user_git(linked, "add", "-A")
    user_git(linked, "commit", "-qm", "a day's work")
    commit = user_git(linked, "rev-parse", "HEAD")
    kept = Path(await clear_place(project.owned, place)) / place.name
    assert not place.exists()
    assert user_git(kept, "cat-file", "-t", commit) == "commit"
