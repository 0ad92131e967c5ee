"""A landing moves the user's branch and checkout together, or nothing at all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sf.errors import SfError
from sf.workspaces.refusals import BranchMoved, CheckoutBusy
from tests.integration.test_workspaces_opening import Project, user_git, write


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    return await Project.make(tmp_path)


def state_of(root: Path) -> tuple[str, str, str]:
    return (
        user_git(root, "rev-parse", "main"),
        user_git(root, "ls-files", "-s"),
        user_git(root, "status", "--porcelain", "--ignored"),
    )


async def test_branch_index_and_files_move_together(project: Project) -> None:
    root, old = project.root, await project.tip()
    write(root, {"notes.txt": "mine\n"})
    new = await project.next_commit(
        {"src/a.py": "a = 2\n", "src/b.py": None, "deep/er/c.py": "c\n", "README.md/now": "a folder\n"}
    )
    landed = await project.user.land("main", old, new, project.owned)
    assert landed.checkout and landed.new == new
    assert user_git(root, "rev-parse", "HEAD") == new
    assert user_git(root, "status", "--porcelain") == "?? notes.txt"
    assert (root / "README.md/now").read_text() == "a folder\n"
    assert not (root / "src/b.py").exists()
    assert user_git(root, "reflog", "-1", "--format=%gs", "main") == "sf: landed"
    assert not list((root / ".git").rglob("*.lock")) and not list((root / ".git").rglob("*.keep"))
    user_git(root, "fsck", "--strict")
    assert await project.user.recover_landing() is None


async def test_the_log_tells_that_a_branch_has_left_a_commit_and_not_that_one_was_about_to_land(
    project: Project,
) -> None:
    root, old = project.root, await project.tip()
    new = await project.next_commit({"src/a.py": "a = 2\n"})
    assert not project.user.has_left("main", new)
    await project.user.land("main", old, new, project.owned)
    assert project.user.has_left("main", old) and not project.user.has_left("main", new)
    user_git(root, "reset", "-q", "--hard", old)
    assert project.user.has_left("main", new) and not project.user.has_left("other", new)
    log = root / ".git/logs/refs/heads/main"
    log.unlink()
    assert not project.user.has_left("main", new)
    os.mkfifo(log)
    assert not project.user.has_left("main", new)


async def test_a_branch_that_is_not_out_moves_alone(project: Project) -> None:
    old = await project.tip()
    user_git(project.root, "checkout", "-q", "-b", "other")
    write(project.root, {"src/a.py": "in the middle of work\n"})
    new = await project.next_commit({"src/a.py": "a = 2\n"})
    landed = await project.user.land("main", old, new, project.owned)
    assert not landed.checkout
    assert user_git(project.root, "rev-parse", "main") == new
    assert (project.root / "src/a.py").read_text() == "in the middle of work\n"


@pytest.mark.parametrize(
    ("trouble", "path", "hint"),
    [
        ("unstaged", "README.md", "commit or stash"),
        ("staged", "README.md", "commit or stash"),
        ("staged new file", "fresh.txt", "commit or stash"),
        ("untracked", "added.txt", "move them away"),
        ("ignored", "build/out.log", "move them away"),
        ("file for folder", "build", "move them away"),
        ("link for folder", "build", "move them away"),
        ("link to a folder, below", "src/modules.log", "move them away"),
        ("pipe, below", "src/deep/pipe.log", "move them away"),
        ("merging", ".git/MERGE_HEAD", "finish it or abort it"),
        ("deleted", "src/b.py", "commit or stash"),
    ],
)
async def test_a_busy_checkout_refuses_before_anything_moves(
    project: Project, trouble: str, path: str, hint: str
) -> None:
    root, old = project.root, await project.tip()
    files: dict[str, str | None] = {"added.txt": "new\n", "build/out.log": "built\n", "src/a.py": "a = 2\n"}
    if trouble.endswith("below"):
        files = {"src/a.py": None, "src/b.py": None, "src": "a file\n"}
    new = await project.next_commit(files)
    match trouble:
        case "unstaged" | "staged":
            write(root, {"README.md": "mine\n"})
        case "staged new file" | "untracked" | "file for folder" | "ignored":
            write(root, {path: "mine\n"})
        case "link for folder":
            (root / "build").symlink_to("src")
        case "link to a folder, below":
            (root / path).symlink_to(project.base)
        case "pipe, below":
            (root / path).parent.mkdir()
            os.mkfifo(root / path)
        case "merging":
            (root / path).write_text(f"{old}\n")
        case "deleted":
            (root / path).unlink()
    if trouble.startswith("staged"):
        user_git(root, "add", path)
    before = state_of(root)
    with pytest.raises(CheckoutBusy) as busy:
        await project.user.land("main", old, new, project.owned)
    assert busy.value.code == "checkout_dirty" and hint in busy.value.hint
    assert [root / found for found in busy.value.paths] == [root / path]
    assert state_of(root) == before
    assert not list((root / ".git").rglob("*.lock"))


async def test_a_submodules_folder_is_not_removed_for_a_file_in_its_place(project: Project) -> None:
    """git removes the folder with all that is in it, and the submodule's own state counts for no change."""
    root = project.root
    user_git(root, "init", "-q", "sub")
    write(root / "sub", {"mine.txt": "mine\n"})
    gitlink = f"160000,{user_git(root, 'rev-parse', 'HEAD')},sub"
    user_git(root, "update-index", "--add", "--cacheinfo", gitlink)
    user_git(root, "commit", "-q", "-m", "a submodule")
    old = await project.tip()
    await project.owned.fetch(old)
    with pytest.raises(CheckoutBusy) as busy:
        await project.user.land("main", old, await project.next_commit({"sub": "a file\n"}), project.owned)
    assert "sub/mine.txt" in busy.value.paths
    assert (root / "sub/mine.txt").read_text() == "mine\n"


async def test_a_moved_branch_is_refused(project: Project) -> None:
    old = await project.tip()
    new = await project.next_commit({"x": "1\n"})
    user_git(project.root, "commit", "-q", "--allow-empty", "-m", "user")
    with pytest.raises(BranchMoved) as moved:
        await project.user.land("main", old, new, project.owned)
    assert moved.value.code == "branch_moved" and moved.value.actual == await project.tip()


async def test_a_branch_out_in_another_worktree_is_refused_with_what_helps(project: Project) -> None:
    old = await project.tip()
    new = await project.next_commit({"x": "1\n"})
    user_git(project.root, "checkout", "-q", "-b", "other")
    second = project.base / "second"
    user_git(project.root, "worktree", "add", "-q", str(second), "main")

    async def refusal() -> CheckoutBusy:
        with pytest.raises(CheckoutBusy) as busy:
            await project.user.land("main", old, new, project.owned)
        assert str(second) in busy.value.message
        return busy.value

    assert "switch to another branch" in (await refusal()).hint
    assert project.user.is_out_elsewhere("main") and not project.user.is_out_elsewhere("other")
    user_git(second, "-c", "sequence.editor=sed -i s/pick/edit/", "rebase", "-q", "-i", "--root")
    assert "abort" in (await refusal()).hint
    user_git(second, "rebase", "--abort")
    user_git(project.root, "worktree", "lock", str(second))
    shutil.rmtree(second)
    assert "bring it back" in (await refusal()).hint
    user_git(project.root, "worktree", "unlock", str(second))
    gone = await refusal()
    assert gone.hint == "git worktree prune" and all(Path(path).exists() for path in gone.paths)
    assert await project.user.branch_commit("main") == old
    user_git(project.root, "worktree", "prune")
    await project.user.land("main", old, new, project.owned)


@pytest.mark.parametrize(
    ("lock", "out"),
    [
        ("HEAD.lock", True),
        ("index.lock", True),
        ("refs/heads/main.lock", True),
        ("refs/heads/main.lock", False),
    ],
)
async def test_a_lock_of_another_git_is_respected(project: Project, lock: str, out: bool) -> None:
    old = await project.tip()
    new = await project.next_commit({"x": "1\n"})
    if not out:
        user_git(project.root, "checkout", "-q", "-b", "other")
    (project.root / ".git" / lock).write_text("theirs")
    with pytest.raises(CheckoutBusy, match=f"holds {project.root}/.git/{lock}$") as busy:
        await project.user.land("main", old, new, project.owned)
    assert busy.value.hint == "wait for it, or remove the file if no git runs"
    assert (project.root / ".git" / lock).read_text() == "theirs"
    (project.root / ".git" / lock).unlink()
    assert not list((project.root / ".git").rglob("*.lock"))
    assert (await project.user.land("main", old, new, project.owned)).checkout == out


async def test_a_cancelled_landing_is_whole(project: Project) -> None:
    old = await project.tip()
    new = await project.next_commit({f"f{number}": "x\n" for number in range(50)})
    task = asyncio.ensure_future(project.user.land("main", old, new, project.owned))
    await asyncio.sleep(0.03)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert user_git(project.root, "status", "--porcelain") == ""
    assert await project.tip() in (old, new)


async def test_nothing_is_lost_against_a_user_who_commits_in_a_loop(project: Project) -> None:
    root, stop, pauses = project.root, threading.Event(), random.Random(1)
    made: list[str] = []

    def commit_in_a_loop() -> None:
        number = 0
        while not stop.is_set() and number < 200:
            number += 1
            name = f"user/{number}.txt"
            write(root, {name: f"{number}\n"})
            user_git(root, "add", name, check=False)
            user_git(root, "commit", "-q", "-m", name, check=False)
            if user_git(root, "ls-tree", "--name-only", "HEAD", name) == name:
                made.append(name)
            time.sleep(pauses.uniform(0.0, 0.4))

    thread = threading.Thread(target=commit_in_a_loop)
    thread.start()
    landed: list[str] = []
    try:
        for number in range(6):
            for _ in range(60):
                old = await project.tip()
                await project.owned.fetch(old)
                new = await project.next_commit({f"sf/{number}.txt": "sf\n"}, base=old)
                try:
                    await project.user.land("main", old, new, project.owned)
                except (CheckoutBusy, BranchMoved):
                    continue
                landed.append(f"sf/{number}.txt")
                break
            await asyncio.sleep(0.02)
    finally:
        stop.set()
        await asyncio.to_thread(thread.join)
    files = set(user_git(root, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    assert len(landed) >= 3 and made
    assert files.issuperset(landed) and files.issuperset(made)
    assert all((root / name).exists() for name in [*landed, *made])
    user_git(root, "fsck", "--strict")


LAND = """
import asyncio, sys
from pathlib import Path
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository

async def main(base, root, old, new):
    user = await UserRepository.open(Path(root), Path(base) / "state", Git())
    owned = await OwnedRepository.open(Path(base) / "owned.git", user, Git())
    print("go", flush=True)
    await user.land("main", old, new, owned)
    print("landed", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def kill_with_children(pid: int) -> None:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for victim in (pid, *map(int, children)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)


def land_and_kill(project: Project, commits: tuple[str, str], delay: float, *, with_git: bool) -> None:
    """Start a landing in a process of its own and kill it some time after it wrote its journal."""
    command = [sys.executable, "-c", LAND, str(project.base), str(project.root), *commits]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        while not (project.base / "state" / "landing.json").exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(delay)
        if with_git:
            kill_with_children(process.pid)
        else:
            process.kill()


@pytest.mark.parametrize("with_git", [False, True])
@pytest.mark.parametrize("delay", [0.013 * step for step in range(8)])
async def test_a_landing_killed_anywhere_ends_whole(project: Project, delay: float, with_git: bool) -> None:
    root, old = project.root, await project.tip()
    files: dict[str, str | None] = {f"many/{number}.txt": f"{number}\n" * 400 for number in range(200)}
    new = await project.next_commit({**files, "src/a.py": "a = 2\n", "src/b.py": None})
    write(root, {"mine.txt": "mine\n"})
    await asyncio.to_thread(land_and_kill, project, (old, new), delay, with_git=with_git)
    await project.user.recover_landing()
    assert await project.user.recover_landing() is None
    tip = await project.tip()
    assert tip in (old, new)
    assert user_git(root, "status", "--porcelain") == "?? mine.txt"
    assert user_git(root, "ls-files", "-s") == user_git(
        root, "ls-tree", "-r", "--format=%(objectmode) %(objectname) 0%x09%(path)", tip
    )
    locks = [path for path in (root / ".git").rglob("*.lock") if path.name != "packed-refs.lock"]
    assert locks == []


async def test_recovery_keeps_what_is_the_users(project: Project) -> None:
    """A half-moved checkout written by hand: beginnings of new files go, foreign content stays."""
    root, old = project.root, await project.tip()
    new = await project.next_commit(
        {"src/a.py": "a = 2  # new\n", "src/b.py": None, "added.txt": "new content\n", "other.txt": "new\n"}
    )
    pack = await project.user.land("main", old, new, project.owned)
    assert pack.checkout
    user_git(root, "update-ref", "refs/heads/main", old)
    user_git(root, "read-tree", old)
    write(root, {"src/a.py": "a = 2", "added.txt": "new con", "other.txt": "typed by the user\n"})
    state = project.base / "state"
    (state / "landing").mkdir(exist_ok=True)
    (state / "landing.json").write_text(
        f'{{"landing_id":"ab","branch":"main","old":"{old}","new":"{new}","step":"moving"}}'
    )
    (root / ".git/HEAD.lock").write_text("ab\n")
    (root / ".git/index.lock").write_text("ab\n")
    assert "undone" in (await project.user.recover_landing() or "")
    assert user_git(root, "status", "--porcelain") == "?? other.txt"
    assert (root / "other.txt").read_text() == "typed by the user\n"
    assert not (root / "added.txt").exists() and (root / "src/b.py").exists()
    assert not (root / ".git/HEAD.lock").exists() and not (root / ".git/index.lock").exists()


async def cut_off(project: Project, *, landed: bool) -> tuple[str, str]:
    """A landing that died when all files were written and its index not in place; its locks are gone."""
    old = await project.tip()
    new = await project.next_commit({"src/a.py": "a = 2\nb = 3\n", "src/b.py": None, "added.txt": "new\n"})
    await cut_off_at(project, old, new, landed=landed)
    return old, new


async def cut_off_at(project: Project, old: str, new: str, *, landed: bool) -> None:
    """The same of one commit."""
    root, state = project.root, project.base / "state"
    await project.user.land("main", old, new, project.owned)
    (state / "landing").mkdir(exist_ok=True)
    shutil.copyfile(root / ".git/index", state / "landing/index")
    user_git(root, "read-tree", old)
    if not landed:
        user_git(root, "update-ref", "refs/heads/main", old)
    (state / "landing.json").write_text(
        f'{{"landing_id":"ab","branch":"main","old":"{old}","new":"{new}","step":"moving"}}'
    )


async def test_a_recovery_that_died_with_its_git_does_not_block_the_next(project: Project) -> None:
    """Its lock stayed, and with it the landing's own: no start got past it, and the user's git was locked."""
    await cut_off(project, landed=False)
    (project.base / "state" / "landing" / "restore.lock").touch()
    assert "undone" in (await project.user.recover_landing() or "")
    assert user_git(project.root, "status", "--porcelain") == ""


async def test_a_lock_of_a_killed_recovery_makes_no_edit_look_half_written(project: Project) -> None:
    await cut_off(project, landed=False)
    write(project.root, {"src/a.py": "a = 2\n"})
    (project.base / "state" / "landing" / "index.lock").touch()
    await project.user.recover_landing()
    assert (project.root / "src" / "a.py").read_text() == "a = 2\n"


async def test_a_landing_that_died_while_it_was_cleared_away_is_finished(project: Project) -> None:
    """Its index is in place, and its own copy of it is gone already."""
    _, new = await cut_off(project, landed=True)
    user_git(project.root, "read-tree", new)
    (project.base / "state" / "landing" / "index").unlink()
    assert "finished" in (await project.user.recover_landing() or "")
    assert await project.user.recover_landing() is None
    assert await project.tip() == new
    assert user_git(project.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("landed", [False, True])
async def test_locks_that_a_person_removed_are_taken_again(project: Project, landed: bool) -> None:
    old, new = await cut_off(project, landed=landed)
    assert "left alone" not in (await project.user.recover_landing() or "")
    assert await project.tip() == (new if landed else old)
    assert user_git(project.root, "status", "--porcelain") == ""
    assert not list((project.root / ".git").glob("*.lock"))


@pytest.mark.parametrize("landed", [False, True])
async def test_what_a_person_did_with_git_since_is_left_alone(project: Project, landed: bool) -> None:
    await cut_off(project, landed=landed)
    user_git(project.root, "add", "-A")
    write(project.root, {"added.txt": "new and mine\n"})
    user_git(project.root, "commit", "-qam", "all that is there")
    tip = await project.tip()
    assert "left alone" in (await project.user.recover_landing() or "")
    assert await project.tip() == tip and user_git(project.root, "status", "--porcelain") == ""
    assert (project.root / "added.txt").read_text() == "new and mine\n"
    assert not list((project.root / ".git").glob("*.lock"))


async def test_a_branch_that_a_person_switched_to_is_left_alone(project: Project) -> None:
    await cut_off(project, landed=False)
    user_git(project.root, "checkout", "-qf", "-b", "elsewhere")
    (project.root / "added.txt").unlink()
    assert "left alone" in (await project.user.recover_landing() or "")
    assert user_git(project.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("landed", [False, True])
async def test_an_edit_that_shortens_a_landed_file_stays(project: Project, landed: bool) -> None:
    await cut_off(project, landed=landed)
    write(project.root, {"src/a.py": "a = 2\n"})
    await project.user.recover_landing()
    assert user_git(project.root, "status", "--porcelain") == "M src/a.py"
    assert (project.root / "src/a.py").read_text() == "a = 2\n"


@pytest.mark.parametrize("aim", ["/dev/null", "src", "nowhere", "lib"])
async def test_a_folder_that_becomes_a_link_lands_and_is_not_looked_through(
    project: Project, aim: str
) -> None:
    """To a device, to itself, to nothing, to what it was renamed to."""
    old, new = await renamed(project, aim)
    await project.user.land("main", old, new, project.owned)
    assert user_git(project.root, "status", "--porcelain") == ""
    back = await project.owned.commit_tree(await project.owned.tree_of(old), [new], "back")
    await project.user.land("main", new, back, project.owned)
    assert user_git(project.root, "status", "--porcelain") == ""
    assert (project.root / "src").is_dir() and not (project.root / "src").is_symlink()


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("aim", ["src", "lib"])
async def test_recovery_does_not_look_through_a_link_that_was_a_folder(
    project: Project, aim: str, landed: bool
) -> None:
    old, new = await renamed(project, aim)
    await cut_off_at(project, old, new, landed=landed)
    assert await project.user.recover_landing()
    assert await project.tip() == (new if landed else old)
    assert user_git(project.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("what", ["link", "file"])
async def test_recovery_leaves_what_a_person_put_in_a_folders_place(
    project: Project, what: str, landed: bool
) -> None:
    root = project.root
    await cut_off(project, landed=landed)
    (root / "src").rename(root / "mine")
    if what == "link":
        (root / "src").symlink_to("mine")
        (root / "mine" / "a.py").write_text("not committed\n")
    else:
        (root / "src").write_text("not committed\n")
    await project.user.recover_landing()
    assert (root / "src").is_symlink() == (what == "link")
    kept = root / "mine" / "a.py" if what == "link" else root / "src"
    assert kept.read_text() == "not committed\n"


async def test_a_tip_came_by_the_landing_not_by_who_merged_it_elsewhere(project: Project) -> None:
    root, base = project.root, await project.tip()

    def commit(name: str) -> str:
        write(root, {name: name})
        user_git(root, "add", "-A")
        user_git(root, "commit", "-qm", name)
        return user_git(root, "rev-parse", "HEAD")

    user_git(root, "switch", "-qc", "unit")
    tip = commit("unit.txt")
    user_git(root, "switch", "-qc", "feature", base)
    commit("mine.txt")
    user_git(root, "merge", "-q", "--no-ff", "--no-edit", "unit")
    user_git(root, "switch", "-q", "main")
    user_git(root, "merge", "-q", "--no-ff", "-m", "landed", "unit")
    landing = user_git(root, "rev-parse", "HEAD")
    user_git(root, "merge", "-q", "--no-ff", "--no-edit", "feature")
    head = await project.tip()
    await project.owned.fetch(head)
    assert await project.owned.joined_by(tip, head) == landing
    assert await project.owned.joined_by(landing, head) == landing, "the line itself has it"


async def renamed(project: Project, aim: str) -> tuple[str, str]:
    """A commit in which the folder `src` is a link, and its files are in `lib`."""
    old = await project.tip()
    moved = {"src/a.py": None, "src/b.py": None, "lib/a.py": "a = 1\n", "lib/b.py": "b = 1\n"}
    files = await project.next_commit(moved)
    listed = await project.owned.git.run("ls-tree", "-z", files, git_dir=project.owned.git_dir)
    target = await project.owned.git.run(
        "hash-object", "-w", "--stdin", git_dir=project.owned.git_dir, stdin=aim.encode()
    )
    entries = listed.stdout + f"120000 blob {target.text()}\tsrc\0".encode()
    tree = await project.owned.git.run("mktree", "-z", git_dir=project.owned.git_dir, stdin=entries)
    return old, await project.owned.commit_tree(tree.text(), [old], "src is lib now")


@pytest.mark.parametrize("older", [False, True])
async def test_only_a_ref_lock_younger_than_the_dead_landing_goes(project: Project, older: bool) -> None:
    """A git killed between making its lock and writing into it leaves an empty, nameless lock."""
    tip, new = await project.tip(), await project.next_commit({"a.txt": "new\n"})
    lock, state = project.root / ".git/refs/heads/main.lock", project.base / "state"
    (state / "landing.json").write_text(
        f'{{"landing_id":"ab","branch":"main","old":"{tip}","new":"{new}","step":"preparing"}}'
    )
    lock.touch()
    moment = (state / "landing.json").stat().st_mtime + (-5 if older else 5)
    os.utime(lock, (moment, moment))
    assert "undone" in (await project.user.recover_landing() or "")
    assert lock.exists() == older


def test_the_refusals_are_part_of_the_error_tree() -> None:
    assert issubclass(CheckoutBusy, SfError) and issubclass(BranchMoved, SfError)


async def test_a_change_of_the_same_size_in_the_same_second_is_seen(project: Project) -> None:
    """git compares whole seconds: only the index's own time makes it look into the file."""
    root = project.root
    await asyncio.sleep(1 - time.time() % 1)
    write(root, {"seen.txt": "one\n"})
    user_git(root, "add", "seen.txt")
    user_git(root, "commit", "-q", "-m", "seen")
    write(root, {"seen.txt": "two\n"})
    await asyncio.sleep(1.2)
    assert await project.user.dirty() == ["seen.txt"]
    old = await project.tip()
    await project.owned.fetch(old)
    with pytest.raises(CheckoutBusy):
        await project.user.land("main", old, await project.next_commit({"seen.txt": "ours\n"}), project.owned)
    assert (root / "seen.txt").read_text() == "two\n"
