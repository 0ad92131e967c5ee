"""The lasting name of a project: everything that sf keeps of it lies under that name."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
import time
from pathlib import Path

import pytest

from sf.paths import Project, find_project, identify


def _project(root: Path) -> Project:
    (root / ".sf").mkdir(parents=True)
    return Project(root=root, home=root.parent / "home")


def test_a_name_stays_and_moves_with_its_folder(tmp_path: Path) -> None:
    project = _project(tmp_path / "one")
    identify(project)
    key = project.key
    identify(project)
    assert project.key == key
    project.root.rename(tmp_path / "two")
    moved = Project(root=tmp_path / "two", home=project.home)
    identify(moved)
    assert moved.key == key


def test_a_name_that_cannot_be_read_is_not_replaced(tmp_path: Path) -> None:
    """Another name would mean other worktrees and another repository; what was begun would lie unseen."""
    project = _project(tmp_path / "one")
    (project.dot / "project-id").mkdir()
    with pytest.raises(IsADirectoryError):
        identify(project)
    assert list((project.dot / "project-id").iterdir()) == []


def test_a_copy_has_a_name_of_its_own_from_the_first_command_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = _project(tmp_path / "one")
    monkeypatch.setenv("SF_HOME", str(project.home))
    identify(project)
    key = project.key
    shutil.copytree(project.root, tmp_path / "two")
    copy = Project(root=tmp_path / "two", home=project.home)
    assert copy.key != key, "even where nothing can be written"
    found: list[str] = []
    commands = [threading.Thread(target=lambda: found.append(find_project(copy.root).key)) for _ in range(8)]
    for command in commands:
        command.start()
    for command in commands:
        command.join(timeout=10)
    assert len(found) == 8 and len({*found, copy.key}) == 1, "all of them agree"
    assert copy.key != key and find_project(project.root).key == key
    project.root.rename(tmp_path / "three")
    assert find_project(tmp_path / "three").key == key


def test_the_same_folder_by_another_path_is_no_copy(tmp_path: Path) -> None:
    project = _project(tmp_path / "one")
    identify(project)
    said = (project.dot / "project-id").read_text()
    (tmp_path / "two").symlink_to(project.root)
    again = Project(root=tmp_path / "two", home=project.home)
    identify(again)
    assert (again.key, (project.dot / "project-id").read_text()) == (project.key, said)


def test_a_moved_folder_takes_its_facade_along_and_never_another_projects(tmp_path: Path) -> None:
    project = _project(tmp_path / "one")
    identify(project)
    key = project.key
    project.facade.mkdir(parents=True)
    (project.facade / "landing.json").write_text("the first's")
    project.root.rename(tmp_path / "two")
    moved = Project(root=tmp_path / "two", home=project.home)
    (moved.facade / "left").mkdir(parents=True)
    identify(moved)
    assert [path.name for path in moved.facade.iterdir()] == ["landing.json"]
    assert not project.facade.exists()

    moved.root.rename(tmp_path / "three")
    newcomer = _project(tmp_path / "two")
    identify(newcomer)
    last = Project(root=tmp_path / "three", home=project.home)
    identify(last)
    assert (last.key, newcomer.key != key) == (key, True), "who came to its place later is not its original"
    assert newcomer.facade.exists() and not last.facade.exists()


def test_of_two_folders_with_one_name_the_second_gets_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup beside the original, which is moved elsewhere later: nothing is at the old place any more."""
    project = _project(tmp_path / "one")
    monkeypatch.setenv("SF_HOME", str(project.home))
    identify(project)
    key = find_project(project.root).key
    shutil.copytree(project.root, tmp_path / "backup")
    project.root.rename(tmp_path / "elsewhere")
    assert find_project(tmp_path / "elsewhere").key == key
    assert find_project(tmp_path / "backup").key != key


def _named_at(project: Project, at: float) -> str:
    while time.monotonic() < at:
        pass
    identify(project)
    return project.key


def test_of_several_commands_that_name_a_folder_at_once_one_decides(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(2) as commands:
        for number in range(60):
            project = _project(tmp_path / str(number))
            at = time.monotonic() + 0.005
            assert set(commands.starmap(_named_at, [(project, at)] * 2)) == {project.key}
