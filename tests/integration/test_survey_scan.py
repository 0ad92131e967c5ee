"""Scans of real repositories: hostile files, limits, and the history as git tells it."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path

import pytest

from sf.app.surveying import survey
from sf.paths import Project
from sf.survey import crew, scan
from sf.survey.findings import Findings
from sf.survey.tree import Tree
from sf.workspaces import chronicle
from sf.workspaces.git import Git
from sf.workspaces.repository import UserRepository
from tests.support.repository import Repository, tree_of

ENDLESS = "x = " + "(" * 400_000
"""A text that keeps the grammar of Python busy for longer than anybody waits."""


def quiet(done: int, total: int) -> None:
    pass


async def test_who_is_cancelled_leaves_no_process_behind(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    wanted = [(f"endless{number}.py", "python") for number in range(100)]
    for name, _ in wanted:
        (tmp_path / name).hardlink_to(tmp_path / "endless.py")
    before, begun = children(), set[str]()
    work = asyncio.create_task(crew.examine(tmp_path, wanted, seconds=60, told=quiet, workers=2))
    async with asyncio.timeout(20):
        while len(begun) < 2:
            await asyncio.sleep(0.01)
            begun |= children() - before
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not begun & children(), "neither at work nor uncollected"


def children() -> set[str]:
    """The processes that this one started and has not collected."""
    lists = Path("/proc/self/task").glob("*/children")
    return {number for each in lists for number in each.read_text().split()}


def scanned(repository: Repository) -> Findings:
    """The findings of a repository, made the way sf init makes them."""
    (repository.root / ".sf").mkdir()
    return survey(Project(root=repository.root, home=repository.root.parent / "home"))


async def opened(repository: Repository) -> UserRepository:
    return await UserRepository.open(repository.root, repository.root.parent / "facade", Git())


async def test_a_file_that_holds_its_parser_up_costs_that_file_only(tmp_path: Path) -> None:
    names = {f"m{number}.py": "def f(): pass\n" for number in range(30)}
    tree_of(tmp_path, {"endless.py": ENDLESS, **names})
    wanted = [(name, "Python") for name in ("endless.py", *names)]
    for workers in (1, 2):
        found = await crew.examine(
            tmp_path, wanted, seconds=60, told=quiet, workers=workers, seconds_per_file=0.5
        )
        left_out = {name: facts.left_out for name, facts in found.facts.items() if facts.left_out}
        assert left_out == {"endless.py": "crashed"}
        assert all(len(found.facts[name].outline.definitions) == 1 for name in names)


async def test_parsing_that_goes_wrong_again_and_again_is_given_up(tmp_path: Path) -> None:
    names = {f"m{number}.py": ENDLESS for number in range(40)}
    tree_of(tmp_path, names)
    began = time.monotonic()
    found = await crew.examine(
        tmp_path, [(name, "Python") for name in names], seconds=120, told=quiet, seconds_per_file=0.05
    )
    assert "given up" in found.trouble
    assert set(found.facts) == set(names)
    assert time.monotonic() - began < 60


async def test_a_scan_ends_at_its_deadline_and_says_what_it_left_out(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, {**{f"e{n}.py": ENDLESS for n in range(4)}, "notes.md": "x\n"})
    began = time.monotonic()
    examined = await scan.look(tree, quiet, seconds=1.0)
    assert time.monotonic() - began < 15
    found = scan.conclude(tree, examined, [])
    assert found.left_out["late"] >= 2
    assert any("out of time" in line for line in found.summary())


async def test_progress_ends_with_everything(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    tree = tree_of(tmp_path, {f"m{number}.py": "" for number in range(25)})
    await scan.look(tree, lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 25)
    assert seen[-1] == (25, 25)
    assert seen == sorted(seen)


async def test_what_the_listener_raises_ends_the_scan_and_its_processes(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, {f"m{number}.py": "" for number in range(60)})

    def gone(done: int, total: int) -> None:
        if done == 10:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await scan.look(tree, gone, workers=2)
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    assert not listed.exists() or str(tmp_path) not in "".join(
        Path(f"/proc/{child}/cmdline").read_text() for child in listed.read_text().split()
    )


def test_files_that_are_no_files_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "secret.py").write_text("def stolen(): pass\n")
    root = tmp_path / "project"
    root.mkdir()
    tree_of(root, {"ok.py": "def fine(): pass\n", "folder.py/x.txt": "", "pkg/inner.py": ""})
    os.mkfifo(root / "fifo.py")
    os.mkfifo(root / "Makefile")
    os.mkfifo(root / "pyproject.toml")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(root)
        listening.bind("socket.py")
        (root / "loop.py").symlink_to("loop.py")
        (root / "leads_out.py").symlink_to(secret / "secret.py")
        (root / "out").symlink_to(secret)
        (root / "round").symlink_to(root)
        with (root / "huge.py").open("wb") as file:
            file.truncate(1 << 40)
        names = ["ok.py", "fifo.py", "socket.py", "loop.py", "leads_out.py", "out/secret.py", "folder.py"]
        names += ["round/round/ok.py", "huge.py", "gone.py", "Makefile", "pyproject.toml"]
        tree = Tree.of(root, names)
        found = scan.conclude(tree, asyncio.run(scan.look(tree, quiet)), [])
    assert "stolen" not in str(found)
    assert found.left_out["link"] == 2
    assert found.left_out["large"] == 1
    assert found.left_out["unreadable"] >= 5


def test_names_of_any_bytes_are_scanned_and_shown_escaped(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "p")
    odd = os.fsdecode(b"bad\xff\xfe.py")
    line = "two\nlines \x1b[31m.py"
    repository.commit({odd: "def a(): pass\n", line: "def b(): pass\n", "-rf.py": "def c(): pass\n"}, "odd")
    for _ in range(4):
        repository.commit({odd: f"x = {repository.now}\n", line: f"x = {repository.now}\n"}, "again")
    found = scanned(repository)
    assert found.languages[0].files == 3
    assert found.past.pairs[0].first == "bad\\udcff\\udcfe.py"
    assert found.past.pairs[0].second == "two\\nlines \\x1b[31m.py"
    assert all(text.isprintable() for text in (*found.summary(), *(note.text for note in found.notes())))
    (repository.root / ".sf" / "survey.json").read_bytes().decode("utf-8")


def test_what_git_ignores_or_does_not_track_is_not_scanned(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "p")
    repository.commit({".gitignore": "build/\n", "a.py": "", "build/b.py": "def ignored(): pass\n"})
    repository.write({"new.py": "def untracked(): pass\n"})
    found = scanned(repository)
    assert (found.files, found.definitions) == (2, 0)


def test_a_scan_runs_nothing_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "executed"
    repository = Repository(tmp_path / "p")
    trap = f"#!/bin/sh\ntouch {mark}\n"
    python = f"open({str(mark)!r}, 'w').close()\n"
    repository.commit(
        {
            "sitecustomize.py": python,
            "msgspec.py": python,
            "sf/__init__.py": python,
            "tree_sitter.py": python,
            "setup.py": python,
            "conftest.py": python,
            "git": trap,
            "Makefile": f"test:\n\ttouch {mark}\nX := $(shell touch {mark})\n",
            ".gitattributes": "*.py diff=trap filter=trap\n",
        }
    )
    for key in (
        "diff.trap.textconv",
        "diff.trap.command",
        "filter.trap.clean",
        "core.fsmonitor",
        "core.pager",
    ):
        repository.git("config", key, f"touch {mark}")
    monkeypatch.chdir(repository.root)
    found = scanned(repository)
    assert found.languages[0].files == 6
    assert not mark.exists()


async def test_the_newest_commits_with_what_they_changed(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "p")
    assert await chronicle.newest(await opened(repository), Git(), 10) == ([], True)
    repository.commit({"a.txt": "1", "b c\nd.txt": "1"}, "first: ünïcode", author="Ann Example")
    repository.commit({}, "", author="Bob")
    repository.commit({"a.txt": "2", "\n.txt": "2"}, "a\ttab \x01 and more\n\nbody", author="a@b")
    repository.git("checkout", "-q", "-b", "side", "HEAD~1")
    repository.commit({"side.txt": "1"}, "side")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    found, complete = await chronicle.newest(await opened(repository), Git(), 10)
    assert complete
    assert sorted((commit.author, commit.subject, set(commit.paths)) for commit in found) == sorted(
        [
            ("Ann Example", "side", {"side.txt"}),
            ("a@b", "a\ttab \x01 and more", {"a.txt", "\n.txt"}),
            ("Bob", "", set()),
            ("Ann Example", "first: ünïcode", {"a.txt", "b c\nd.txt"}),
        ]
    )
    assert {commit.at % 86_400 for commit in found} == {1_750_000_000 % 86_400}
    few, complete = await chronicle.newest(await opened(repository), Git(), 2)
    assert (len(few), complete) == (2, False)


async def test_a_shallow_clone_is_not_the_whole_history(tmp_path: Path) -> None:
    origin = Repository(tmp_path / "origin")
    for number in range(4):
        origin.commit({"a.txt": str(number)})
    clone = tmp_path / "clone"
    origin.git("clone", "-q", "--depth=2", f"file://{origin.root}", str(clone))
    user = await UserRepository.open(clone, tmp_path / "facade", Git())
    found, complete = await chronicle.newest(user, Git(), 10)
    assert (len(found), complete) == (2, False)


@pytest.mark.conforms("K-07")
def test_a_thousand_files_in_six_languages_take_seconds(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "p")
    forms = {
        "py": "from pkg.m0 import f0\n\n\ndef f{n}(x):\n    return x + {n}\n",
        "js": "import a from './m0.js';\nexport function f{n}(x) {{ return x + {n}; }}\n",
        "go": 'package m\n\nimport "fmt"\n\nfunc F{n}() {{ fmt.Println({n}) }}\n',
        "rs": "use std::io;\npub fn f{n}() -> i32 {{ {n} }}\n",
        "java": "package m;\nimport java.util.List;\npublic class C{n} {{ int f() {{ return {n}; }} }}\n",
        "c": "#include <stdio.h>\nint f{n}(void) {{ return {n}; }}\n",
    }
    files: dict[str, str | bytes] = {
        f"src/p{n % 20}/m{n}.{end}": form.format(n=n) * 10 for n in range(170) for end, form in forms.items()
    }
    repository.commit(files)
    began = time.monotonic()
    found = scanned(repository)
    assert time.monotonic() - began < 30
    assert found.files == 170 * 6
    assert {share.language for share in found.languages} == {
        "Python",
        "JavaScript",
        "Go",
        "Rust",
        "Java",
        "C",
    }
    assert found.left_out == {}
