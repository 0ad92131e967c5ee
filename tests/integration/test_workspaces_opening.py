"""The user's repository and sf's own beside it: what opens, what is refused, what survives."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from sf.errors import BadUsage, GitFailed, NotARepository, UnsupportedRepository
from sf.workspaces import _facade, _layout
from sf.workspaces._layout import Layout
from sf.workspaces._merge import merge_trees
from sf.workspaces.git import Call, Git, failure
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.refusals import BranchMoved, CheckoutBusy
from sf.workspaces.repository import Head, UserRepository

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "User",
    "GIT_AUTHOR_EMAIL": "user@example.org",
    "GIT_COMMITTER_NAME": "User",
    "GIT_COMMITTER_EMAIL": "user@example.org",
    "GIT_ALLOW_PROTOCOL": "file",
}


def user_git(folder: Path, *args: str, check: bool = True) -> str:
    """Run git as the user would, in `folder`."""
    done = subprocess.run(
        ["git", *args], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )
    if check and done.returncode != 0:
        raise AssertionError(f"git {args} failed: {done.stderr}")
    return done.stdout.strip()


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def make_user_repository(root: Path) -> Path:
    root.mkdir(parents=True)
    user_git(root, "init", "-q", "-b", "main")
    write(
        root, {"README.md": "hello\n", "src/a.py": "a = 1\n", "src/b.py": "b = 1\n", ".gitignore": "*.log\n"}
    )
    user_git(root, "add", "-A")
    user_git(root, "commit", "-q", "-m", "first")
    return root


class Project:
    """A user's repository with sf's own beside it."""

    def __init__(self, base: Path, user: UserRepository, owned: OwnedRepository) -> None:
        self.base = base
        self.root = user.root
        self.user = user
        self.owned = owned
        self.marker = base / "marker"

    @classmethod
    async def make(cls, base: Path, root: Path | None = None) -> Project:
        place = root or make_user_repository(base / "project")
        git = Git()
        user = await UserRepository.open(place, base / "state", git, environ=ENVIRONMENT)
        owned = await OwnedRepository.open(base / "owned.git", user, git)
        head = await user.head()
        if head.commit is not None:
            await owned.fetch(head.commit)
        return cls(base, user, owned)

    async def tip(self) -> str:
        commit = (await self.user.head()).commit
        assert commit is not None
        return commit

    async def next_commit(self, files: dict[str, str | None], base: str | None = None) -> str:
        """Write a commit into sf's own repository on top of the user's tip, and return it."""
        parent = base or await self.tip()
        index = self.base / "scratch-index"
        index.unlink(missing_ok=True)
        where = ("--git-dir", str(self.owned.git_dir))
        environment = {**ENVIRONMENT, "GIT_INDEX_FILE": str(index)}

        def git(*args: str, stdin: str = "") -> str:
            return subprocess.run(
                ["git", *where, *args],
                env=environment,
                input=stdin,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()

        git("read-tree", parent)
        blobs = self.base / "blobs"
        blobs.mkdir(exist_ok=True)
        kept = {name: content for name, content in files.items() if content is not None}
        for number, content in enumerate(kept.values()):
            (blobs / str(number)).write_text(content)
        paths = "".join(f"{blobs / str(number)}\n" for number in range(len(kept)))
        ids = git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=paths).split()
        lines = [f"0 {'0' * 40}\t{name}\n" for name in files if name not in kept]
        lines += [f"100644 {blob}\t{name}\n" for name, blob in zip(kept, ids, strict=True)]
        git("update-index", "--add", "--replace", "--index-info", stdin="".join(lines))
        return await self.owned.commit_tree(git("write-tree"), [parent], "change")


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    return await Project.make(tmp_path)


async def test_head_branches_and_tracked_files(project: Project) -> None:
    user = project.user
    commit = user_git(project.root, "rev-parse", "HEAD")
    assert await user.head() == Head("main", commit)
    assert await user.branch_commit("main") == commit
    assert await user.branch_commit("none") is None
    assert await user.tracked_files() == [".gitignore", "README.md", "src/a.py", "src/b.py"]
    user_git(project.root, "checkout", "-q", "--detach")
    assert await user.head() == Head(None, commit)


def test_two_that_open_a_project_for_the_first_time_at_once_both_do(tmp_path: Path) -> None:
    user_git(tmp_path, "init", "-q", "project")
    layout = _layout.locate(tmp_path / "project")
    with ThreadPoolExecutor(2) as pool:
        for number in range(50):
            facade, both = tmp_path / str(number), Barrier(2)
            opening = [pool.submit(_built, layout, facade, both) for _ in range(2)]
            assert [one.result(timeout=60) for one in opening] == [True, True]


def _built(layout: Layout, facade: Path, both: Barrier) -> bool:
    both.wait()
    _facade.build(layout, facade)
    return (facade / "objects").is_dir()


async def test_an_index_that_is_split_without_any_setting_is_refused(tmp_path: Path) -> None:
    """Every look at the checkout would fail: a copy of such an index finds nothing of the other part."""
    root = make_user_repository(tmp_path / "project")
    user_git(root, "update-index", "--split-index")
    with pytest.raises(UnsupportedRepository, match="no-split-index"):
        await Project.make(tmp_path, root)
    user_git(root, "update-index", "--no-split-index")
    assert await (await Project.make(tmp_path, root)).user.dirty() == []


async def test_an_unborn_branch_has_no_commit(tmp_path: Path) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    user_git(root, "init", "-q", "-b", "trunk")
    user = await UserRepository.open(root, tmp_path / "state", Git())
    assert await user.head() == Head("trunk", None)
    assert await user.dirty() == []


async def test_dirty_names_staged_and_unstaged_tracked_paths(project: Project) -> None:
    assert await project.user.dirty() == []
    write(project.root, {"README.md": "changed\n", "src/a.py": "a = 2\n", "untracked": "x"})
    user_git(project.root, "add", "src/a.py")
    assert await project.user.dirty() == ["README.md", "src/a.py"]
    assert await project.user.dirty(["src/a.py", "src/b.py"]) == ["src/a.py"]


async def test_what_is_no_top_level_of_a_checkout_is_refused_with_a_hint(tmp_path: Path) -> None:
    root = make_user_repository(tmp_path / "project")
    with pytest.raises(BadUsage) as inside:
        await UserRepository.open(root / "src", tmp_path / "state", Git())
    assert str(root) in inside.value.hint
    (tmp_path / "plain").mkdir()
    with pytest.raises(NotARepository):
        await UserRepository.open(tmp_path / "plain", tmp_path / "state", Git())
    user_git(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(UnsupportedRepository):
        await UserRepository.open(tmp_path / "bare.git", tmp_path / "state", Git())


@pytest.mark.parametrize(
    "settings",
    [
        {"extensions.objectFormat": "sha256"},
        {"extensions.refStorage": "reftable"},
        {"extensions.partialClone": "origin"},
        {"remote.origin.promisor": "true"},
        {"core.sparseCheckout": "true"},
        {"extensions.madeUp": "1"},
    ],
)
async def test_unproven_formats_are_refused(tmp_path: Path, settings: dict[str, str]) -> None:
    root = make_user_repository(tmp_path / "project")
    with (root / ".git" / "config").open("a") as config:
        for key, value in settings.items():
            section, _, name = key.rpartition(".")
            head, _, sub = section.partition(".")
            config.write(f'[{head} "{sub}"]\n{name} = {value}\n' if sub else f"[{head}]\n{name} = {value}\n")
    with pytest.raises(UnsupportedRepository):
        await UserRepository.open(root, tmp_path / "state", Git())


async def test_a_linked_worktree_is_a_project_too(tmp_path: Path) -> None:
    main = make_user_repository(tmp_path / "project")
    user_git(main, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    project = await Project.make(tmp_path, tmp_path / "linked")
    assert (await project.user.head()).branch == "side"
    old = await project.tip()
    new = await project.next_commit({"src/new.py": "n = 1\n"})
    landed = await project.user.land("side", old, new, project.owned)
    assert landed.checkout
    assert (tmp_path / "linked/src/new.py").exists()
    assert user_git(tmp_path / "linked", "status", "--porcelain") == ""
    assert user_git(tmp_path / "linked", "reflog", "-1", "--format=%gs", "HEAD") == "sf: landed"
    with pytest.raises(CheckoutBusy):
        await project.user.land("main", old, new, project.owned)


async def test_the_owned_repository_survives_the_users_prune(project: Project) -> None:
    root = project.root
    gone = await project.tip()
    user_git(root, "commit", "-q", "--amend", "-m", "rewritten")
    user_git(root, "reflog", "expire", "--expire=now", "--all")
    user_git(root, "gc", "-q", "--prune=now")
    assert user_git(root, "cat-file", "-t", gone, check=False) == ""
    assert "README.md" in await project.owned.files(gone)
    assert await project.owned.show_file(gone, "README.md", 100) == b"hello\n"
    await project.owned.fetch(await project.tip())
    user_git(project.owned.git_dir, "fsck", "--strict", "--connectivity-only")


async def test_objects_of_alternates_are_copied_not_referenced(tmp_path: Path) -> None:
    origin = make_user_repository(tmp_path / "origin")
    user_git(tmp_path, "clone", "-q", "--shared", str(origin), "project")
    project = await Project.make(tmp_path, tmp_path / "project")
    tip = await project.tip()
    (origin / ".git").rename(tmp_path / "moved")
    assert await project.owned.show_file(tip, "src/a.py", 100) == b"a = 1\n"
    user_git(project.owned.git_dir, "fsck", "--connectivity-only")


async def test_a_shallow_clone_works(tmp_path: Path) -> None:
    origin = make_user_repository(tmp_path / "origin")
    write(origin, {"second": "2\n"})
    user_git(origin, "add", "-A")
    user_git(origin, "commit", "-q", "-m", "second")
    user_git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", "project")
    project = await Project.make(tmp_path, tmp_path / "project")
    old = await project.tip()
    await project.user.land("main", old, await project.next_commit({"third": "3\n"}), project.owned)
    assert (project.root / "third").read_text() == "3\n"
    user_git(project.root, "commit", "-q", "--allow-empty", "-m", "later")
    await project.owned.fetch(await project.tip())


async def test_fetch_brings_later_commits_and_reopening_is_cheap(project: Project) -> None:
    write(project.root, {"later.py": "x = 1\n"})
    user_git(project.root, "add", "-A")
    user_git(project.root, "commit", "-q", "-m", "later")
    tip = await project.tip()
    await project.owned.fetch(tip)
    again = await OwnedRepository.open(project.owned.git_dir, project.user, Git())
    assert "later.py" in await again.files(tip)
    assert list(await again.refs("refs/sf/base/")) == [f"refs/sf/base/{tip}"]
    with pytest.raises(GitFailed):
        await again.fetch("1" * 40)


async def test_refs_move_only_from_the_expected_value(project: Project) -> None:
    owned = project.owned
    one = await project.tip()
    two = await project.next_commit({"x": "1"})
    await owned.set_ref("refs/sf/t", one, None)
    with pytest.raises(BranchMoved):
        await owned.set_ref("refs/sf/t", two, None)
    with pytest.raises(BranchMoved) as moved:
        await owned.set_ref("refs/sf/t", two, two)
    assert moved.value.actual == one
    await owned.set_ref("refs/sf/t", two, one)
    assert await owned.refs("refs/sf/t") == {"refs/sf/t": two}
    with pytest.raises(BranchMoved):
        await owned.delete_ref("refs/sf/t", one)
    await owned.delete_ref("refs/sf/t", two)
    assert await owned.ref("refs/sf/t") is None


async def test_what_no_marker_can_show_is_laid_out_beside(project: Project) -> None:
    owned = project.owned
    base = await project.next_commit({"gone.txt": "old\n", "logo.bin": "\0old", "src/a.py": "a = 1\n"})
    changed: dict[str, str | None] = {"gone.txt": "changed\n", "logo.bin": "\0ours", "src/a.py": "a = 2\n"}
    ours = await project.next_commit(changed, base)
    theirs = await project.next_commit(
        {"gone.txt": None, "logo.bin": "\0theirs", "src/a.py": "a = 3\n"}, base
    )
    merged = await owned.merge_trees(ours, theirs)
    assert merged.tree is None and merged.laid_out is not None
    beside = {item.path: item.other for item in merged.beside}
    assert set(beside) == {"gone.txt", "logo.bin"}, "src/a.py has markers"
    assert await owned.show_file(merged.laid_out, "logo.bin", 99) == b"\0ours"
    assert await owned.show_file(merged.laid_out, beside["logo.bin"], 99) == b"\0theirs"
    assert await owned.show_file(merged.laid_out, "gone.txt", 99) == b"changed\n"
    assert await owned.show_file(merged.laid_out, beside["gone.txt"], 99) == b"nothing: deleted there\n"
    swapped = await owned.merge_trees(theirs, ours)
    other = next(item.other for item in swapped.beside if item.path == "gone.txt")
    assert await owned.show_file(str(swapped.laid_out), other, 99) == b"nothing: deleted there\n"


async def test_a_conflict_is_laid_out_however_large_its_files_are(project: Project) -> None:
    owned, long = project.owned, "line\n" * 20_000
    base = await project.next_commit({"logo.bin": "\0old" + long, "long.txt": "old\n" + long})
    ours = await project.next_commit({"logo.bin": "\0ours" + long, "long.txt": "ours\n" + long}, base)
    theirs = await project.next_commit({"logo.bin": "\0theirs" + long, "long.txt": "theirs\n" + long}, base)
    merged = await merge_trees(Git(most=len(long) // 2), owned.git_dir, ours, theirs)
    assert [item.path for item in merged.conflicts] == ["logo.bin", "long.txt"]
    [beside] = merged.beside
    assert beside.path == "logo.bin", "long.txt has markers"
    assert await owned.show_file(str(merged.laid_out), beside.other, 7) == b"\0theirs"


async def test_merges_diffs_and_logs(project: Project) -> None:
    owned = project.owned
    base = await project.tip()
    ours = await project.next_commit({"src/a.py": "a = 2\n", "new.txt": "n\n"})
    theirs = await project.next_commit({"src/b.py": "b = 2\n"})
    clash = await project.next_commit({"src/a.py": "a = 3\n"})
    merged = await owned.merge_trees(ours, theirs)
    assert merged.tree is not None and merged.conflicts == ()
    commit = await owned.commit_tree(merged.tree, [ours, theirs], "merge")
    assert await owned.show_file(commit, "src/b.py", 3) == b"b ="
    assert await owned.is_ancestor(theirs, commit) and not await owned.is_ancestor(commit, theirs)
    assert {entry.id for entry in await owned.log(base, commit)} == {commit, ours, theirs}
    conflicted = await owned.merge_trees(ours, clash)
    assert conflicted.tree is None and [item.path for item in conflicted.conflicts] == ["src/a.py"]
    assert "CONFLICT" in conflicted.detail and conflicted.laid_out is not None
    marked = await owned.show_file(conflicted.laid_out, "src/a.py", 1000)
    assert marked is not None and b"<<<<<<<" in marked
    changes = {change.path: change for change in await owned.diff_stat(base, commit)}
    assert {path: change.status for path, change in changes.items()} == {
        "new.txt": "A",
        "src/a.py": "M",
        "src/b.py": "M",
    }
    assert (changes["src/a.py"].added, changes["src/a.py"].deleted) == (1, 1)
    assert "+a = 2" in await owned.diff(base, commit, ["src/a.py"])
    assert "b = 2" not in await owned.diff(base, commit, ["src/a.py"])


async def test_branches_are_kept_and_deleted_where_nobody_has_them_out(project: Project) -> None:
    commit = await project.next_commit({"kept": "1\n"})
    await project.user.keep_branch("sf/kept", commit, project.owned)
    assert user_git(project.root, "show", "sf/kept:kept") == "1"
    with pytest.raises(CheckoutBusy):
        await project.user.keep_branch("main", commit, project.owned)
    with pytest.raises(BadUsage):
        await project.user.keep_branch("a..b", commit, project.owned)
    with pytest.raises(BranchMoved):
        await project.user.delete_branch("sf/kept", await project.tip())
    await project.user.delete_branch("sf/kept", commit)
    assert await project.user.branch_commit("sf/kept") is None
    assert not list((project.root / ".git/objects/pack").glob("*.keep"))


async def test_a_git_that_does_not_end_is_killed(project: Project) -> None:
    os.mkfifo(project.base / "fifo")
    with pytest.raises(GitFailed, match="did not end within"):
        await project.owned.git.run(
            "hash-object", str(project.base / "fifo"), git_dir=project.owned.git_dir, timeout=0.5
        )


async def test_a_failing_git_tells_its_reason_and_no_advice(project: Project) -> None:
    call = Call(("rev-list", "main", "nowhere"), project.root / ".git")
    with pytest.raises(GitFailed, match=r"exit code 128: fatal: .*nowhere") as failed:
        await Git().run(*call.args, git_dir=call.git_dir)
    assert "hint:" not in failed.value.message
    for stderr, said in (
        (
            "hint: a\nhint: b\nhint: c\nwarning: d\nerror: why\nfatal: so\n",
            "error: why; fatal: so; warning: d",
        ),
        ("one\ntwo\nthree\nfour\nerror: why\n", "error: why; one; two"),
        ("hint: nothing else\n", "hint: nothing else"),
        ("", "no message"),
    ):
        assert failure(call, 1, stderr).message.endswith(f"exit code 1: {said}")


@pytest.mark.parametrize(("age", "expected"), [(0, True), (300, True), (3600, False), (-86400, False)])
async def test_a_lock_tells_of_a_git_at_work_only_while_it_is_young(
    project: Project, age: int, expected: bool
) -> None:
    """One that a wrong clock dated into the future would hold up every gate until then."""
    lock = project.root / ".git/index.lock"
    lock.touch()
    dated = time.time() - age
    os.utime(lock, (dated, dated))
    assert project.user.is_at_work() is expected
    lock.unlink()
    assert not project.user.is_at_work()
